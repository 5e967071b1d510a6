"""Bursts: requests and ends of connections are begun a few in a turn of the event loop, and a look at `/livez` waits behind none."""

import asyncio
import threading
from contextlib import ExitStack
from itertools import pairwise

from limpet.ingress.pacing import AT_ONCE, LoopPacer
from tests.ingress.conftest import Serve

MANY = 10 * AT_ONCE


async def _turns(pacer: LoopPacer, count: int) -> list[int]:
    """How many of `count` pieces of work were done after each turn of the loop."""
    done: list[int] = []
    for number in range(count):
        pacer.run(lambda number=number: done.append(number))
    seen = []
    while True:
        seen.append(len(done))
        if len(done) == count:
            assert done == list(range(count))
            return seen
        await asyncio.sleep(0)


def test_a_few_are_done_at_once_and_many_in_their_order_over_several_turns() -> None:
    async def run() -> None:
        pacer = LoopPacer()
        assert await _turns(pacer, AT_ONCE) == [AT_ONCE]
        await asyncio.sleep(0)
        steps = await _turns(pacer, MANY)
        assert steps[-1] == MANY
        assert max(after - before for before, after in pairwise(steps)) == AT_ONCE
        await asyncio.sleep(0)
        assert await _turns(pacer, 1) == [1]

    asyncio.run(run())


def test_what_one_of_them_raises_keeps_none_of_the_others() -> None:
    async def run() -> None:
        pacer, done, said = LoopPacer(), [], []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context["exception"]))
        for _ in range(AT_ONCE):
            pacer.run(lambda: None)
        for number in range(2 * AT_ONCE):
            pacer.run(lambda number=number: done.append(1 // number))
        while len(done) < 2 * AT_ONCE - 1:
            await asyncio.sleep(0)
        assert [type(problem) for problem in said] == [ZeroDivisionError]

    asyncio.run(asyncio.wait_for(run(), 5))


def test_livez_is_answered_before_a_burst_that_came_first(serve: Serve) -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        """The server's loop stands still, so that all of them arrive in one turn."""
        held.set()
        go_on.wait(5)

    with serve() as served, ExitStack() as stack:
        clients = [stack.enter_context(served.connect()) for _ in range(MANY + 1)]
        served.wait_until(lambda: len(served.server.server_state.connections) == MANY + 1)
        stands = served.portal.start_task_soon(hold)
        assert held.wait(5)
        for number, client in enumerate(clients):
            path = f"/alive?{number}" if number < MANY else "/livez"
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        go_on.set()
        stands.result(5)
        answers = [client.recv(65536) for client in clients]
        order = served.ended

    assert all(answers)
    assert sorted(order) == sorted([*["/alive"] * MANY, "/livez"])
    assert order.index("/livez") <= AT_ONCE

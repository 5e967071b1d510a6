"""Frames that arrive in one breath are handled in their order, whichever task waits for them."""

from collections.abc import Callable

import anyio
import pytest

from limpet.core.command import Command, Exited, Script
from limpet.core.errors import SandboxGone
from limpet.runtimes.agent import wire
from tests.support.played_agent import ENDED, RUNS, box_played_here, next_request

pytestmark = pytest.mark.anyio


async def test_a_second_start_whose_answer_comes_with_the_end_hears_of_the_end() -> None:
    received = bytearray()
    command = Command(what=Script("true"))
    with anyio.fail_after(5):
        async with box_played_here() as (box, theirs), anyio.create_task_group() as tasks:

            async def start() -> None:
                process = await box.start(command, "same")
                assert await process.wait() == Exited(3)

            tasks.start_soon(start)
            tasks.start_soon(start)
            first, second = await next_request(theirs, received), await next_request(theirs, received)
            theirs.send(wire.frame(wire.REPLY, first, wire.encode(RUNS)))
            theirs.send(wire.frame(wire.REPLY, second, wire.encode(RUNS)) + ENDED)


def _done(number: int, *, outcome: int = 0, printed: int = 3) -> bytes:
    return wire.frame(wire.DONE, number, wire.DONE_HEAD.pack(7, outcome, 3, printed) + b"outerr")


async def test_an_answer_that_is_also_the_end_gives_output_and_outcome() -> None:
    with anyio.fail_after(5):
        async with box_played_here() as (box, theirs), anyio.create_task_group() as tasks:

            async def start() -> None:
                process = await box.start(Command(what=Script("true")), "one")
                printed = [(chunk.stream, chunk.data) async for chunk in process.output()]
                assert (printed, await process.wait()) == ([("stdout", b"out"), ("stderr", b"err")], Exited(3))

            tasks.start_soon(start)
            theirs.send(_done(await next_request(theirs, bytearray())))


_LIES: dict[str, Callable[[int], bytes]] = {
    "more output than there is": lambda number: _done(number, printed=7),
    "an outcome that is none": lambda number: _done(number, outcome=3),
    "half a head": lambda number: wire.frame(wire.DONE, number, b"\0\0"),
    "more output than was granted": lambda number: wire.frame(
        wire.DONE, number, wire.DONE_HEAD.pack(7, 0, 3, wire.AHEAD + 1) + bytes(wire.AHEAD + 1)
    ),
}


@pytest.mark.parametrize("lie", _LIES)
async def test_such_an_answer_that_cannot_be_ends_the_connection(lie: str) -> None:
    with anyio.fail_after(5):
        async with box_played_here() as (box, theirs), anyio.create_task_group() as tasks:

            async def start() -> None:
                with pytest.raises(SandboxGone, match="protocol"):
                    await box.start(Command(what=Script("true")), "one")

            tasks.start_soon(start)
            theirs.send(_LIES[lie](await next_request(theirs, bytearray())))


async def test_an_end_in_answer_to_what_starts_nothing_ends_the_connection() -> None:
    with anyio.fail_after(5):
        async with box_played_here() as (box, theirs), anyio.create_task_group() as tasks:

            async def touch() -> None:
                with pytest.raises(SandboxGone, match="protocol"):
                    await box.touch()

            tasks.start_soon(touch)
            theirs.send(_done(await next_request(theirs, bytearray())))

"""Frames that arrive in one breath are handled in their order, whichever task waits for them."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from limpet.core.command import Command, Exited, Script
from limpet.core.errors import SandboxGone
from limpet.core.ports import SandboxRef
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client.client import Client
from limpet.runtimes.agent_client.sandbox import AgentSandbox
from limpet.runtimes.memory import MemoryRuntime
from tests.runtimes.bubblewrap.boxes import box_of

pytestmark = pytest.mark.anyio

_RUNS = {"process": 1, "outcome": None, "code": 0, "terminal": False, "kept": [0, 0, 0, 0]}
_ENDED = wire.frame(wire.ENDED, 1, wire.encode({"outcome": "exited", "code": 3}))


@asynccontextmanager
async def _a_box_played_here() -> AsyncIterator[tuple[AgentSandbox, socket.socket]]:
    """A sandbox whose agent is the other end of the socket."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    client = Client(ours)
    async with MemoryRuntime() as memory, box_of(memory) as other, anyio.create_task_group() as tasks:
        tasks.start_soon(client.serve)
        tasks.start_soon(client.keep_sending)
        ref = SandboxRef(runtime="bubblewrap", name="played", boot_id="b")
        yield AgentSandbox(ref, client, other.files, memory.offers, ending=_nothing, leaving=_nothing), theirs
        client.close()
        theirs.close()


async def _nothing(*_: str) -> None:
    """There is no box to end."""


async def _asked(theirs: socket.socket, received: bytearray) -> int:
    """The number of the next request."""
    while (found := wire.take_frame(received, 1 << 20)) is None:
        await anyio.wait_readable(theirs)
        received += theirs.recv(65536)
    return found[1]


async def test_a_second_start_whose_answer_comes_with_the_end_hears_of_the_end() -> None:
    received = bytearray()
    command = Command(what=Script("true"))
    with anyio.fail_after(5):
        async with _a_box_played_here() as (box, theirs), anyio.create_task_group() as tasks:

            async def start() -> None:
                process = await box.start(command, "same")
                assert await process.wait() == Exited(3)

            tasks.start_soon(start)
            tasks.start_soon(start)
            first, second = await _asked(theirs, received), await _asked(theirs, received)
            theirs.send(wire.frame(wire.REPLY, first, wire.encode(_RUNS)))
            theirs.send(wire.frame(wire.REPLY, second, wire.encode(_RUNS)) + _ENDED)


def _done(number: int, *, outcome: int = 0, printed: int = 3) -> bytes:
    return wire.frame(wire.DONE, number, wire.DONE_HEAD.pack(7, outcome, 3, printed) + b"outerr")


async def test_an_answer_that_is_also_the_end_gives_output_and_outcome() -> None:
    with anyio.fail_after(5):
        async with _a_box_played_here() as (box, theirs), anyio.create_task_group() as tasks:

            async def start() -> None:
                process = await box.start(Command(what=Script("true")), "one")
                printed = [(chunk.stream, chunk.data) async for chunk in process.output()]
                assert (printed, await process.wait()) == ([("stdout", b"out"), ("stderr", b"err")], Exited(3))

            tasks.start_soon(start)
            theirs.send(_done(await _asked(theirs, bytearray())))


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
        async with _a_box_played_here() as (box, theirs), anyio.create_task_group() as tasks:

            async def start() -> None:
                with pytest.raises(SandboxGone, match="protocol"):
                    await box.start(Command(what=Script("true")), "one")

            tasks.start_soon(start)
            theirs.send(_LIES[lie](await _asked(theirs, bytearray())))


async def test_an_end_in_answer_to_what_starts_nothing_ends_the_connection() -> None:
    with anyio.fail_after(5):
        async with _a_box_played_here() as (box, theirs), anyio.create_task_group() as tasks:

            async def touch() -> None:
                with pytest.raises(SandboxGone, match="protocol"):
                    await box.touch()

            tasks.start_soon(touch)
            theirs.send(_done(await _asked(theirs, bytearray())))

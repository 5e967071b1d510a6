"""A sandbox whose agent a test plays itself, frame by frame."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from limpet.core.ports import SandboxRef
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client.client import Client
from limpet.runtimes.agent_client.sandbox import AgentSandbox
from limpet.runtimes.memory import MemoryRuntime
from tests.runtimes.bubblewrap.boxes import box_of

RUNS = {"process": 1, "outcome": None, "code": 0, "terminal": False, "kept": [0, 0, 0, 0]}
ENDED = wire.frame(wire.ENDED, 1, wire.encode({"outcome": "exited", "code": 3}))


@asynccontextmanager
async def box_played_here() -> AsyncIterator[tuple[AgentSandbox, socket.socket]]:
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


async def next_request(theirs: socket.socket, received: bytearray) -> int:
    """The number of the next request."""
    while (found := wire.take_frame(received, 1 << 20)) is None:
        await anyio.wait_readable(theirs)
        received += theirs.recv(65536)
    return found[1]

"""A true agent behind one that lies: it listens where a runtime expects the agent, and passes on what the true one says, changed."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from tests.runtimes.bubblewrap.fuzz.mutations import Liar, ends_that_were_not_asked_for, frames_of

_ONE_IN = 40  # connections, of which one ends with what ended all boxes once


class Lies(Protocol):
    """What is sent in the place of each of the agent's frames, and whether that has been a lie yet, or is to be the last."""

    hangs_up: bool
    has_lied: bool

    def instead(self, kind: int, number: int, payload: bytes) -> bytes: ...


class LyingProxy:
    """`seed` is the next connection's, for which `lies` makes the lies; `serve` runs until it is cancelled."""

    def __init__(self, listens: Path, agent: Path, lies: Callable[[int], Lies] = Liar) -> None:
        self.seed = 0
        self._lies = lies
        self._listens = listens
        self._agent = agent

    async def serve(self, tasks: TaskGroup) -> None:
        """Take connections, and carry them in `tasks`."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.setblocking(False)
            listener.bind(str(self._listens))
            listener.listen()
            while True:
                await anyio.wait_readable(listener)
                tasks.start_soon(self._carry, listener.accept()[0])

    async def _carry(self, host: socket.socket) -> None:
        with host, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
            agent.connect(str(self._agent))
            for end in (host, agent):
                end.setblocking(False)
            try:
                async with anyio.create_task_group() as both:
                    both.start_soon(_pass_on, host, agent)
                    await self._lie(agent, host)
                    both.cancel_scope.cancel()
            except* OSError:
                pass  # one of them has ended

    async def _lie(self, agent: socket.socket, host: socket.socket) -> None:
        liar, buffer = self._lies(self.seed), bytearray()
        while not liar.hangs_up and (data := await _received(agent)):
            buffer += data
            for frame in frames_of(buffer):
                await _send(host, liar.instead(*frame))
            if self.seed % _ONE_IN == 0 and liar.has_lied:
                host.shutdown(socket.SHUT_RD)
                for process in range(1, 8):
                    await _send(host, ends_that_were_not_asked_for(process))


async def _pass_on(host: socket.socket, agent: socket.socket) -> None:
    while data := await _received(host):
        await _send(agent, data)
    agent.shutdown(socket.SHUT_WR)


async def _received(source: socket.socket) -> bytes:
    await anyio.wait_readable(source)
    return source.recv(1 << 16)


async def _send(sink: socket.socket, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[sink.send(left) :]
        except BlockingIOError:
            await anyio.wait_writable(sink)

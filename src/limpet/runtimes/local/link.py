"""The host's end of the keeper: starts it, passes it commands with their descriptors, is told how they ended."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process as HostProcess

from limpet.core.errors import BootFailed
from limpet.core.open_files import restore_open_file_limit
from limpet.runtimes.local.walls import Landlock

KEEPER = Path(__file__).with_name("keeper.py")
PACKET = 64 * 1024
BOOT = 10.0
PATIENCE = 8.0  # the keeper itself gives up killing after 5 s


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperRequest:
    """What the keeper turns a new process into. All paths are the host's; `program` is looked up on the PATH of
    `env` unless it holds a slash."""

    program: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    user: int | None
    terminal: bool


class Link:
    """A running keeper. Its socket's end is its end."""

    def __init__(self, process: HostProcess, channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._turn = anyio.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self, number: int, request: KeeperRequest, streams: Sequence[int]) -> None:
        """Start a command; its three descriptors are closed here. Raises OSError if the keeper is gone."""
        letter = sealed(request)
        try:
            await self._send({"op": "start", "id": number}, [letter, *streams])
        finally:
            for descriptor in {letter, *streams}:
                os.close(descriptor)

    async def kill(self, number: int) -> None:
        await self._send({"op": "kill", "id": number})

    async def signal(self, number: int, signal_number: int) -> None:
        await self._send({"op": "signal", "id": number, "number": signal_number})

    async def receive(self) -> dict[str, Any] | None:
        """The next thing it says; None when it is gone."""
        while True:
            try:
                packet = self._channel.recv(PACKET)
            except BlockingIOError:
                await anyio.wait_readable(self._channel)
                continue
            except OSError:
                return None
            return json.loads(packet) if packet else None

    async def close(self) -> None:
        """End it and with it every process of the sandbox. Twice is quiet."""
        with anyio.CancelScope(shield=True):
            if self._channel.fileno() >= 0:
                self._channel.shutdown(socket.SHUT_WR)
            with anyio.move_on_after(PATIENCE):
                await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()

    def drop(self) -> None:
        """Close the socket, once no task reads it any more."""
        self._channel.close()

    async def _send(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        packet = json.dumps(message).encode()
        async with self._turn:
            while True:
                try:
                    socket.send_fds(self._channel, [packet], descriptors)
                except BlockingIOError:
                    await anyio.wait_writable(self._channel)
                else:
                    return


def sealed(request: KeeperRequest | Landlock) -> int:
    """A descriptor to read it from. Not in the packet itself, which must stay small."""
    letter = os.memfd_create("limpet-request", os.MFD_CLOEXEC)
    with open(letter, "wb", closefd=False) as file:
        file.write(json.dumps(asdict(request)).encode())
    os.lseek(letter, 0, os.SEEK_SET)
    return letter


async def start_keeper(temporary: Path | None, fence: Landlock) -> Link:
    """A keeper that answers and puts commands behind `fence`. It removes `temporary` at its end. Raises BootFailed; nothing is left
    then."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    argv = [sys.executable, "-I", "-S", "-X", "utf8", str(KEEPER), str(theirs.fileno()), str(temporary or "")]
    handed = [theirs.fileno()]
    if fence:
        handed.append(sealed(fence))
        argv.append(str(handed[-1]))
    try:
        process = await anyio.open_process(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=None, env={}, cwd="/",
            start_new_session=True, pass_fds=handed,
        )  # fmt: skip
        restore_open_file_limit(process.pid)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        for letter in handed[1:]:
            os.close(letter)
    link = Link(process, ours)
    ready = None
    try:
        with anyio.move_on_after(BOOT):
            ready = await link.receive()
    finally:
        if ready is None:
            await link.close()
            link.drop()
    if ready is None:
        raise BootFailed("the process that keeps its commands did not answer.")
    return link

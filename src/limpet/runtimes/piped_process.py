"""One running command, seen from the host: its output spooled, its end known once. What kills it is handed in.

`SpooledProcess` is the part that needs no descriptors; `PipedProcess` reads pipes or a terminal and writes standard input.
The owner runs `PipedProcess.run` in a task of its own and calls `shell_ended` or `lost`.
"""

import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from limpet.core.command import START, Aborted, Chunk, Exited, Lost, Outcome, Position, Stream, TimedOut
from limpet.runtimes.spool import Spool

# Seconds that a command stays open for its pipes after its shell has ended: a detached process may hold them for ever.
LINGER = 0.1
PIECE = 256 << 10
END_OF_INPUT = b"\x04"


class SpooledProcess:
    """Output, outcome and forgetting: the same in every runtime that holds output on the host."""

    def __init__(self, exec_id: str, forgotten: Callable[[str], None]) -> None:
        self._exec_id = exec_id
        self._forgotten = forgotten
        self._spool = Spool()
        self._ended = anyio.Event()
        self._outcome: Outcome | None = None

    @property
    def exec_id(self) -> str:
        return self._exec_id

    @property
    def has_ended(self) -> bool:
        return self._outcome is not None

    def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        return self._spool.read(since)

    async def extent(self) -> tuple[Position, Position]:
        return START, self._spool.end_so_far

    async def wait(self) -> Outcome:
        await self._ended.wait()
        assert self._outcome is not None
        return self._outcome

    def notes(self) -> tuple[str, ...]:
        """It has no limits of its own to run into."""
        return ()

    async def forget(self) -> None:
        if self.has_ended:
            self._spool.discard()
            self._forgotten(self._exec_id)

    def leave(self, error: Exception) -> None:
        """Its sandbox is gone: it counts as lost unless it had ended, and reading its output raises `error`."""
        self.finish(Lost("Its sandbox ended while it ran."))
        self._spool.discard(error)

    def finish(self, outcome: Outcome) -> None:
        """It has ended so. Later calls change nothing."""
        if self._outcome is None:
            self._outcome = outcome
            self._ended.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessControls:
    """What the owner of a process can do to it. `kill` ends the whole tree and is quiet if it has ended."""

    kill: Callable[[], Awaitable[None]]
    signal: Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """The host's ends, non-blocking and close-on-exec: `outputs` by stream, `stdin` where input can be given, which for a
    terminal is its own descriptor as well."""

    outputs: dict[Stream, int]
    stdin: int | None = None
    terminal: int | None = None


class PipedProcess(SpooledProcess):
    """A command behind descriptors of this host."""

    def __init__(
        self,
        exec_id: str,
        *,
        reins: ProcessControls,
        descriptors: Descriptors,
        timeout: float | None,
        forgotten: Callable[[str], None],
    ) -> None:
        super().__init__(exec_id, forgotten)
        self._reins = reins
        self._descriptors = descriptors
        self._timeout = timeout
        self._stdin = descriptors.stdin
        self._stdin_turn = anyio.Lock()
        self._input_ended = False
        self._shell_ended = anyio.Event()
        self._pipes_ended = anyio.Event()
        self._result: Outcome | None = None
        self._stop: TimedOut | Aborted | None = None

    def shell_ended(self, code: int, *, killed: bool) -> None:
        """Its first process has ended; `killed` says that `Reins.kill` did it."""
        self._settle(self._stop if killed and self._stop else Exited(code))

    def lost(self, reason: str) -> None:
        """Settle it as Lost: its outcome cannot become known any more."""
        self._settle(Lost(reason))

    async def run(self, stdin: bytes | None, *, keeps_stdin_open: bool) -> None:
        """Carry its bytes until its pipes are at end of file, also after it has ended. Cancelling closes the pipes."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch)
                if self._stdin is not None:
                    tasks.start_soon(self._give, stdin, keeps_stdin_open)
                await self._read_all()
        finally:
            self._close()

    async def write(self, data: bytes) -> None:
        async with self._stdin_turn:
            await self._write_now(data)

    async def close_stdin(self) -> None:
        async with self._stdin_turn:
            if self._descriptors.terminal is not None:
                await self._write_now(b"" if self._input_ended else END_OF_INPUT)
                self._input_ended = True
            else:
                self._close_stdin()

    async def resize(self, columns: int, rows: int) -> None:
        if self._descriptors.terminal is not None and not self.has_ended:
            set_size(self._descriptors.terminal, columns, rows)

    async def signal(self, number: int) -> None:
        if not self._shell_ended.is_set():
            await self._reins.signal(number)

    async def abort(self) -> None:
        if not self._shell_ended.is_set():
            self._stop = self._stop or Aborted()
            await self._reins.kill()
        await self._ended.wait()

    def _settle(self, result: Outcome) -> None:
        if self._result is None:
            self._result = result
            self._shell_ended.set()

    async def _watch(self) -> None:
        """Its end, or the end of its time; then a little patience for its pipes."""
        with anyio.move_on_after(self._timeout):
            await self._shell_ended.wait()
        if not self._shell_ended.is_set():
            self._stop = self._stop or TimedOut()
            await self._reins.kill()
            await self._shell_ended.wait()
        await self._linger()
        assert self._result is not None
        self.finish(self._result)
        # What it printed and a slow reader has not made room for yet still belongs to it.
        while not self._pipes_ended.is_set() and await self._spool.readers_caught_up():
            await self._linger()
        self._spool.end()
        if self._descriptors.terminal is None:
            self._close_stdin()

    async def _linger(self) -> None:
        with anyio.move_on_after(LINGER):
            await self._pipes_ended.wait()

    async def _read_all(self) -> None:
        async with anyio.create_task_group() as tasks:
            for stream, descriptor in self._descriptors.outputs.items():
                tasks.start_soon(self._read, stream, descriptor)
        self._pipes_ended.set()

    async def _read(self, stream: Stream, descriptor: int) -> None:
        while True:
            try:
                data = os.read(descriptor, PIECE)
            except BlockingIOError:
                await anyio.wait_readable(descriptor)
                continue
            except OSError:
                return  # EIO: a terminal whose last user has gone is at its end
            if not data:
                return
            await self._spool.append(stream, data)
            await anyio.lowlevel.checkpoint()

    async def _give(self, stdin: bytes | None, keeps_open: bool) -> None:
        async with self._stdin_turn:
            await self._write_now(stdin or b"")
        if not keeps_open:
            await self.close_stdin()

    async def _write_now(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._stdin is not None and not self.has_ended:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                with suppress(anyio.ClosedResourceError):
                    await anyio.wait_writable(self._stdin)
            except OSError:
                return  # the process no longer reads: quiet, as the port says

    def _close_stdin(self) -> None:
        if self._stdin is not None:
            descriptor, self._stdin = self._stdin, None
            close(descriptor)

    def _close(self) -> None:
        if self._descriptors.terminal is None:
            self._close_stdin()
        self._stdin = None
        for descriptor in self._descriptors.outputs.values():
            close(descriptor)


def close(descriptor: int) -> None:
    """Close it, and wake the tasks that wait for it."""
    anyio.notify_closing(descriptor)
    os.close(descriptor)


def set_size(terminal: int, columns: int, rows: int) -> None:
    """Give a terminal its size, in characters."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

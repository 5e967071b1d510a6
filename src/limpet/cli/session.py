"""One process attached to this terminal: keys go in and its output comes out, byte by byte. Knows no box and no container.

Whatever happens, the terminal is given back as it was found.
"""

import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, field

import anyio
from anyio import to_thread
from anyio.abc import ObjectReceiveStream, ObjectSendStream, TaskStatus

from limpet.cli.escapes import Modes, without_questions
from limpet.cli.terminal import let_go_of
from limpet.core.command import START, Outcome, Position, Terminal
from limpet.core.errors import SandboxClosed, SandboxGone
from limpet.core.ports import Process

KEYBOARD, SCREEN = 0, 1
LEAVE = b"\x1c"  # Ctrl-\
HESITATION = 0.5  # seconds in which the second Ctrl-\ has to follow; then the first is passed on
PIECE = 1 << 16
TYPED_AHEAD = 64  # pieces of input that wait for a process which does not read


@dataclass(frozen=True, slots=True)
class LeftRunning:
    """The person went away; the process goes on."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """This program was told to end by a signal, or its terminal or its reader went away."""

    signal: int


Ending = Outcome | LeftRunning | Stopped


@dataclass(slots=True)
class LeaveKeys:
    """Tells Ctrl-\\ Ctrl-\\ from everything else that is typed or pasted. `held`: one has come, and waits for the other."""

    held: bool = False

    def take(self, typed: bytes) -> bytes | None:
        """What of this is for the process; None where it was the second one. Only keys that come alone count: pasted bytes never
        leave."""
        if typed == LEAVE * 2 or (self.held and typed == LEAVE):
            return None
        before = self.let_go()
        self.held = typed == LEAVE
        return before if self.held else before + typed

    def let_go(self) -> bytes:
        """What was held back, after all."""
        was_held, self.held = self.held, False
        return LEAVE if was_held else b""


@dataclass(slots=True, kw_only=True)
class Session:
    """A process that has a terminal, on this one. `since` is where its output is shown from; up to `until` it is old, and then
    it is not asked again what a program asked the terminal in it. With `can_leave` Ctrl-\\ Ctrl-\\ leaves it."""

    process: Process
    can_leave: bool = False
    since: Position = START
    until: Position = START
    redraws: bool = False
    ending: Ending | None = None
    is_mid_line: bool = False
    _modes: Modes = field(default_factory=Modes)
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def attend(self) -> Ending:
        """Returns when the process has ended, was left, or a signal came; the terminal is as before by then."""
        with raw_terminal(self._modes), self._scope:
            async with anyio.create_task_group() as tasks:
                await tasks.start(self._heed_signals)
                send, receive = anyio.create_memory_object_stream[bytes](TYPED_AHEAD)
                tasks.start_soon(self._read_keys, send)
                tasks.start_soon(self._pass_keys_on, receive)
                await self._show()
                self._end(await self.process.wait())
        assert self.ending is not None
        return self.ending

    def _end(self, ending: Ending) -> None:
        self.ending = self.ending or ending
        self._scope.cancel()

    async def _heed_signals(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP) as signals:
            await self._fit()
            task_status.started()
            async for number in signals:
                if number != signal.SIGWINCH:
                    self._end(Stopped(number))
                await self._fit()

    async def _fit(self) -> None:
        """Tell the process the size of this terminal."""
        size = terminal_size()
        with suppress(SandboxGone, SandboxClosed):  # what shows the output hears it too, and ends
            if self.redraws:
                # A program draws itself anew when the size changes, and only then.
                self.redraws = False
                await self.process.resize(size.columns, max(1, size.rows - 1))
            await self.process.resize(size.columns, size.rows)

    async def _read_keys(self, pieces: ObjectSendStream[bytes]) -> None:
        keys = LeaveKeys()
        while True:
            typed: bytes | None = None
            with anyio.move_on_after(HESITATION if keys.held else None):
                typed = await read_some(KEYBOARD)
            if typed == b"":
                self._end(Stopped(signal.SIGHUP))
                return
            if typed is None:
                piece: bytes | None = keys.let_go()
            else:
                piece = keys.take(typed) if self.can_leave else typed
            if piece is None:
                self._end(LeftRunning())
                return
            if piece:
                await pieces.send(piece)

    async def _pass_keys_on(self, pieces: ObjectReceiveStream[bytes]) -> None:
        with suppress(SandboxGone, SandboxClosed):  # what shows the output hears it too, and ends
            async for piece in pieces:
                await self.process.write(piece)

    async def _show(self) -> None:
        old = b""
        async with AsyncExitStack() as stack:
            chunks = self.process.output(self.since)
            if isinstance(chunks, AsyncGenerator):
                await stack.enter_async_context(aclosing(chunks))
            with suppress(SandboxGone):  # `wait` says the same as an outcome
                async for chunk in chunks:
                    of_old = max(0, self.until.of(chunk.stream) - chunk.offset)
                    old += chunk.data[:of_old]
                    if chunk.end >= self.until.of(chunk.stream):
                        await self._print(without_questions(old) + chunk.data[of_old:])
                        old = b""

    async def _print(self, data: bytes) -> None:
        if not data:
            return
        self._modes.see(data)
        self.is_mid_line = not data.endswith(b"\n")
        try:
            await to_thread.run_sync(write_all, SCREEN, data)
        except BrokenPipeError:
            let_go_of(sys.stdout.buffer)
            self._end(Stopped(signal.SIGPIPE))
        except OSError:
            self._end(Stopped(signal.SIGHUP))


def terminal_size() -> Terminal:
    """Of this terminal; 80 by 24 where it does not know."""
    try:
        columns, rows = os.get_terminal_size(KEYBOARD)
    except OSError:
        columns, rows = 0, 0
    return Terminal(columns=columns or 80, rows=rows or 24)


async def read_some(descriptor: int) -> bytes:
    """What has come there, at least a byte; empty at its end, however that came."""
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:
        pass  # a regular file is always readable, and epoll says so in this way
    except (OSError, ValueError):
        return b""
    try:
        return os.read(descriptor, PIECE)
    except OSError:
        return b""


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, blocking. Raises OSError where the reader has gone."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            # Another process that shares this terminal's open file made it non-blocking.
            os.set_blocking(descriptor, True)


@contextmanager
def raw_terminal(modes: Modes) -> Iterator[None]:
    """Every key is passed on as it is, also those that would interrupt or stop this program. Undone at the end, with what the
    process switched on in the terminal and did not switch off."""
    before = termios.tcgetattr(KEYBOARD)
    try:
        # Not TCSAFLUSH, for what was typed ahead counts; and nothing here waits for a terminal that is not read.
        tty.setraw(KEYBOARD, termios.TCSANOW)
        yield
    finally:
        # A terminal that was closed needs nothing any more.
        with suppress(OSError):
            if os.isatty(SCREEN):
                write_all(SCREEN, modes.undo())
        with suppress(termios.error):
            termios.tcsetattr(KEYBOARD, termios.TCSANOW, before)

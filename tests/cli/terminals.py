"""A terminal with the program in it: a pseudo-terminal of our own, with a scripted person who types and reads."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.conftest import PROGRAM
from tests.support.prepared import Started, Surroundings, started

BOOT = 30.0
BOUND = 10.0  # a loaded machine is slow to show what it has


@dataclass
class Typist:
    """What that person sees and types. `seen` is all that came since the last `until`."""

    master: int
    slave: int
    process: "subprocess.Popen[bytes] | Started"
    seen: bytes = b""
    all: bytearray = field(default_factory=bytearray)

    def until(self, wanted: bytes, *, within: float = BOUND) -> bytes:
        """Wait until this is shown; gives what came before it and with it."""
        limit = time.monotonic() + within
        while wanted not in self.seen:
            assert self._more(limit), f"{wanted!r} was not shown, but {self.seen!r}"
        before, _, self.seen = self.seen.partition(wanted)
        return before + wanted

    def type(self, keys: bytes | str) -> None:
        """Press keys; reads on meanwhile, so that an echo never stands in the way."""
        data = memoryview(keys if isinstance(keys, bytes) else keys.encode())
        limit = time.monotonic() + BOUND
        while data:
            readable, writable, _ = select.select([self.master], [self.master], [], max(0, limit - time.monotonic()))
            assert readable or writable, "the program does not read what is typed"
            if readable:
                self._more(limit)
            if writable:
                data = data[os.write(self.master, data[:1024]) :]

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)  # as the kernel does for the terminal's own foreground processes

    def attributes(self) -> list[object]:
        return termios.tcgetattr(self.slave)

    def end(self, *, within: float = BOUND) -> int:
        """Wait for the program's end, reading on; its exit code."""
        limit = time.monotonic() + within
        while self.process.poll() is None:
            assert time.monotonic() < limit, f"it goes on: {self.seen!r}"
            self._more(min(limit, time.monotonic() + 0.05))
        while self._more(time.monotonic()):
            pass
        assert self.process.returncode is not None
        return self.process.returncode

    def _more(self, limit: float) -> bool:
        if not select.select([self.master], [], [], max(0.0, limit - time.monotonic()))[0]:
            return False
        data = os.read(self.master, 1 << 16)
        self.seen += data
        self.all += data
        return True


@contextmanager
def terminal(
    *args: str, env: Mapping[str, str], columns: int = 100, rows: int = 30, prepared: bool = False
) -> Iterator[Typist]:
    """The program in a terminal of this size, as the leader of a session there. `prepared`: forked from one that is loaded."""
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = _forked(args, env, Path(os.ttyname(slave))) if prepared else _anew(args, env, slave)
    try:
        yield Typist(master, slave, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)
        os.close(master)
        os.close(slave)


def _anew(args: Sequence[str], env: Mapping[str, str], tty: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*PROGRAM, *args], stdin=tty, stdout=tty, stderr=tty, env=dict(env), start_new_session=True)


def _forked(args: Sequence[str], env: Mapping[str, str], tty: Path) -> Started:
    place = Surroundings(env=env, directory=Path.cwd(), input=tty, output=tty, errors=tty, leads=True)
    return started(args, place)

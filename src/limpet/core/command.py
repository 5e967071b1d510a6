"""What is to run, what it printed and how it ended. Values only; who runs it is in `ports`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from limpet.core import exit_codes

Stream = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Script:
    """Text for the sandbox's shell, as after `bash -c`."""

    text: str


@dataclass(frozen=True, slots=True)
class Argv:
    """A program and its arguments, without a shell. The program is looked up on the sandbox's PATH."""

    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Terminal:
    """A pseudo-terminal of this size, in characters."""

    columns: int = 80
    rows: int = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is to run.

    `cwd` is a path in the sandbox (None: its working directory, /mnt/data). `env` is added to the sandbox's own variables.
    `stdin` is written at once and then ended; None is an empty standard input. With `keeps_stdin_open` more may be written
    through the process. `timeout` is in seconds from the start and is enforced by the sandbox itself, so that it also holds
    after the caller has gone; None is no limit. With `terminal` both streams arrive as stdout. `read_once` promises that the
    caller reads the output at once, from start to end, and that it is not read again: a runtime need not keep it, and may block
    the command until what it printed has been read.
    """

    what: Script | Argv
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes | None = None
    keeps_stdin_open: bool = False
    timeout: float | None = None
    terminal: Terminal | None = None
    read_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Bytes of one stream; `offset` counts from the stream's first byte."""

    stream: Stream
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A reader's position: bytes of each stream read so far."""

    stdout: int = 0
    stderr: int = 0

    def after(self, chunk: Chunk) -> "Position":
        if chunk.stream == "stdout":
            return Position(stdout=chunk.end, stderr=self.stderr)
        return Position(stdout=self.stdout, stderr=chunk.end)

    def of(self, stream: Stream) -> int:
        return self.stdout if stream == "stdout" else self.stderr


START = Position()


@dataclass(frozen=True, slots=True)
class Exited:
    """It ended by itself. Death by signal n is code 128 + n, as shells report it."""

    code: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Its time was over; it and all its descendants were killed."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """It was stopped on request; it and all its descendants were killed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """How it ended is unknown: its sandbox is gone. `reason` is one sentence."""

    reason: str


Outcome = Exited | TimedOut | Aborted | Lost


def exit_code(outcome: Outcome) -> int:
    """The outcome as one number: 124 for a timeout (as timeout(1)), -1 for an abort, 125 for a lost command."""
    match outcome:
        case Exited(code):
            return code
        case TimedOut():
            return exit_codes.TIMED_OUT
        case Aborted():
            return -1
        case Lost():
            return exit_codes.LOST

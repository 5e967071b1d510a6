"""Parses shell text into a tree, with shfmt processes that are kept waiting. The guard's only I/O; decides nothing.

shfmt (mvdan/sh) reads one script and ends, so the next process is started while the one before works: a new command costs no start.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Self

import anyio
import msgspec

from limpet.guard.policy.bash.tree import File, decode

LONGEST_SCRIPT = 2 * 1024 * 1024
LARGEST_TREE = 16 * 1024 * 1024  # of shfmt's JSON: about 10,000 commands, or one of any length
DEADLINE = 5.0
AT_ONCE = 4
KEPT = 512
KEPT_LENGTH = 16 * 1024
_PIECE = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedScript:
    """A script that was read whole. `source` is its UTF-8, in which the positions of `file` count."""

    file: File
    source: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A script that could not be read. `reason` is the end of a sentence that begins with "it"; `line` counts from 1, and is 0
    where the text is not to blame for a line."""

    reason: str
    line: int = 0


_MISSING = Unreadable(reason="cannot be read here, since shfmt is missing; install the package shfmt-py")
_SLOW = Unreadable(reason=f"took longer than {DEADLINE:g} s to read")


class Parser:
    """Reads scripts while it is open: `async with Parser() as parser`. One serves any number of judges and callers at once.

    A script is at most 2 MiB, its tree 16 MiB, its reading 5 s; what is beyond, or not UTF-8, or not bash, is Unreadable, and so
    is everything where the package shfmt-py is missing. The newest 512 short scripts are remembered.
    """

    def __init__(self) -> None:
        self._program: str | None = None
        self._known: OrderedDict[str, ParsedScript | Unreadable] = OrderedDict()
        self._waiting: list[_ShfmtProcess] = []
        self._ended: list[_ShfmtProcess] = []
        self._room = anyio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> Self:
        self._program = program_of_this_python()
        self._start_one()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program = None
        for reader in [*self._waiting, *self._ended]:
            reader.kill()
        self._waiting.clear()
        self._ended.clear()

    async def parse(self, text: str) -> ParsedScript | Unreadable:
        """The tree of `text` as bash reads it, or why there is none. Never raises for what a script holds."""
        known = self._known.get(text)
        if known is not None:
            self._known.move_to_end(text)
            return known
        async with self._room:
            read = await self._read(text)
        if len(text) <= KEPT_LENGTH and read is not _MISSING and read is not _SLOW:
            self._known[text] = read
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return read

    async def _read(self, text: str) -> ParsedScript | Unreadable:
        try:
            source = text.encode()
        except UnicodeEncodeError:
            return Unreadable(reason="holds a lone surrogate, which is no character")
        if len(source) > LONGEST_SCRIPT:
            return Unreadable(reason=f"has {len(source)} bytes, and {LONGEST_SCRIPT} are read at most")
        if b"\0" in source:
            return Unreadable(reason="holds a NUL byte")
        if self._program is None:
            return _MISSING
        if not self._waiting:
            self._start_one()
        with self._lent() as reader, anyio.move_on_after(DEADLINE):
            await reader.give(source)
            self._start_one()  # while it works
            return _tree(source, await reader.answer())
        return _SLOW

    @contextlib.contextmanager
    def _lent(self) -> "Iterator[_ShfmtProcess]":
        """A reader for one script. It is ended afterwards, however that goes."""
        reader = self._waiting.pop()
        try:
            yield reader
        finally:
            reader.end()
            self._ended.append(reader)

    def _start_one(self) -> None:
        self._ended = [reader for reader in self._ended if not reader.is_gone]
        if self._program is not None and not self._waiting:
            self._waiting.append(_ShfmtProcess(self._program))


def program_of_this_python() -> str | None:
    """The shfmt that belongs to this Python; None where the package is missing. Never one from PATH: its grammar must be known."""
    here = os.path.dirname(os.path.abspath(sys.executable))
    return shutil.which("shfmt", path=os.pathsep.join([here, os.path.join(sys.prefix, "bin")]))


class _ShfmtProcess:
    """One shfmt. Not asyncio's subprocess: that costs 2 ms and a thread for each."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [program, "--to-json", "-ln", "bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            bufsize=0, cwd="/", env={},
        )  # fmt: skip
        self._is_done = False
        self._in, self._out = self._process.stdin, self._process.stdout
        for end in (self._in, self._out):
            assert end is not None
            os.set_blocking(end.fileno(), False)

    async def give(self, source: bytes) -> None:
        """Writes the script and its end."""
        assert self._in is not None
        left = memoryview(source)
        try:
            while left:
                try:
                    left = left[os.write(self._in.fileno(), left) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._in)
        except BrokenPipeError:
            pass  # it has seen enough of it: its answer says so
        self._in.close()

    async def answer(self) -> bytes:
        """All that it says, or what is one byte too much."""
        assert self._out is not None
        said = bytearray()
        while len(said) <= LARGEST_TREE:
            await anyio.wait_readable(self._out)
            piece = os.read(self._out.fileno(), _PIECE)
            if not piece:
                break
            said += piece
        else:
            return bytes(said)
        self._is_done = True
        return bytes(said)

    def end(self) -> None:
        """Closes its pipes. Killed where it has not said all: it may be at work still."""
        if not self._is_done:
            self.kill()
        for pipe in (self._in, self._out):
            _close(pipe)

    def kill(self) -> None:
        """It is gone afterwards."""
        self._process.kill()
        for pipe in (self._in, self._out):
            _close(pipe)
        self._process.wait()

    @property
    def is_gone(self) -> bool:
        return self._process.poll() is not None


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None and not pipe.closed:
        pipe.close()


def _tree(source: bytes, said: bytes) -> ParsedScript | Unreadable:
    if len(said) > LARGEST_TREE:
        return Unreadable(reason="holds too many commands to be judged")
    if not said.startswith(b"{"):
        return _refusal(said.decode(errors="replace"))
    try:
        return ParsedScript(file=decode(said), source=source)
    except RecursionError:
        return Unreadable(reason="is nested too deeply to be judged")
    except msgspec.DecodeError as error:
        return Unreadable(reason=f"holds a construct that is not known here ({error})")


def _refusal(complaint: str) -> Unreadable:
    """shfmt's own words: `<standard input>:3:7: reached EOF without closing quote`."""
    first = next(iter(complaint.splitlines()), "no answer")
    place, _, words = first.removeprefix("<standard input>:").partition(": ")
    line = place.split(":")[0]
    if not words or not line.isdigit():
        return Unreadable(reason=f"is not bash ({first[:200]})")
    return Unreadable(reason=f"is not bash: line {line}: {words[:200]}", line=int(line))

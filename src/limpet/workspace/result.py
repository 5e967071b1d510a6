"""The result of a command: its output, complete at any length, and its outcome. Starts nothing."""

import os
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

from limpet.core.command import Exited, Outcome, Stream, exit_code

KEPT_IN_MEMORY = 1 << 20
_AT_ONCE = 1 << 30  # Linux reads at most 2 GiB - 4096 bytes in one call


class KeptOutput:
    """The bytes of one stream: in memory up to KEPT_IN_MEMORY, then in a file without a name that goes with this object.

    With `keeps` false it only counts.
    """

    __slots__ = ("__weakref__", "_file", "_keeps", "_memory", "size")

    def __init__(self, *, keeps: bool = True) -> None:
        self.size = 0
        self._keeps = keeps
        self._memory = bytearray()
        self._file: int | None = None

    def add(self, data: bytes) -> None:
        """Take the next bytes. Writes to the page cache and does not wait for the disk. Raises OSError (disk full)."""
        self.size += len(data)
        if not self._keeps:
            return
        self._memory += data
        if len(self._memory) > KEPT_IN_MEMORY:
            self._spill()

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from `start`, at most `length`; all of them by default. Raises OSError."""
        end = self.size if length is None else min(self.size, start + length)
        if self._file is None:
            return bytes(self._memory[start:end])
        pieces = []
        in_file = self.size - len(self._memory)
        position = start
        while position < min(end, in_file):
            piece = os.pread(self._file, min(end - position, in_file - position, _AT_ONCE), position)
            if not piece:
                raise OSError(f"The spool of {self.size} bytes ends at byte {position}.")
            pieces.append(piece)
            position += len(piece)
        pieces.append(bytes(self._memory[max(position - in_file, 0) : max(end - in_file, 0)]))
        return b"".join(pieces)

    def _spill(self) -> None:
        if self._file is None:
            with tempfile.TemporaryFile(prefix="limpet-output-") as file:
                self._file = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._file)
        view = memoryview(self._memory)
        while view:
            view = view[os.write(self._file, view) :]
        self._memory = bytearray()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A command that was run.

    `duration` is in seconds. `kept` holds the output of each stream; with `keep_output=False` only its size. An exception that
    a callback raised is in `callback_errors` (the first sixteen) and changed nothing else. `notes` are sentences about limits of the
    sandbox that it ran into (`core.ports.Process.notes`).
    """

    outcome: Outcome
    duration: float
    kept: Mapping[Stream, KeptOutput]
    callback_errors: tuple[Exception, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def stdout(self) -> bytes:
        """All of the standard output, read on each access. Empty with `keep_output=False`."""
        return self.kept["stdout"].read()

    @property
    def stderr(self) -> bytes:
        """All of the standard error, read on each access. Empty with `keep_output=False`."""
        return self.kept["stderr"].read()

    @property
    def exit_code(self) -> int:
        """The outcome as one number: 128 + n for a signal n, 124 for a timeout, -1 for an abort, 125 for a lost command."""
        return exit_code(self.outcome)

    @property
    def run_succeeded(self) -> bool:
        """Whether it ended with 0 and every callback went well."""
        return self.outcome == Exited(0) and not self.callback_errors

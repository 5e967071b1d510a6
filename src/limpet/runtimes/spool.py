"""A process's output, kept until it is forgotten and readable again from any byte. Knows nothing of processes.

Each stream lies in memory up to `MEMORY`, then in a file that has no name. Nothing is dropped: a writer waits while an
attached reader is `BEHIND` bytes back, and for good once `CAP` bytes are held (docs/runtimes.md).
"""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import IO

import anyio

from limpet.core.command import START, STREAMS, Chunk, Position, Stream

MEMORY = 1 << 20
BEHIND = 4 << 20
CAP = 256 << 20
PIECE = 256 << 10


class Spool:
    """Two streams of one process. Everything happens on the event loop's thread; file writes go to the page cache."""

    def __init__(self, *, cap: int = CAP, behind: int = BEHIND) -> None:
        self._cap = cap
        self._behind = behind
        self._stored: dict[Stream, _SpoolFile] = {stream: _SpoolFile() for stream in STREAMS}
        self._readers: dict[object, Position] = {}
        self._blocked: list[Stream] = []
        self._changed = anyio.Event()
        self._ended = False
        self._discards = False
        self._error: Exception | None = None

    async def append(self, stream: Stream, data: bytes) -> None:
        """Keep `data`; returns at once while there is room, otherwise when there is some."""
        while data and not self._discards:
            room = self._room(stream)
            if room > 0:
                self._stored[stream].append(data[:room])
                data = data[room:]
                self._wake()
            else:
                self._blocked.append(stream)
                try:
                    await self._changed.wait()
                finally:
                    self._blocked.remove(stream)

    @property
    def end_so_far(self) -> Position:
        """How much of each stream there is. Nothing of it goes before all of it does."""
        return Position(stdout=self._stored["stdout"].size, stderr=self._stored["stderr"].size)

    def end(self) -> None:
        """From now on readers stop when they have everything. What is appended later is still kept."""
        self._ended = True
        self._wake()

    def discard(self, error: Exception | None = None) -> None:
        """Drop everything, now and later: writers never wait again, readers end, or raise `error`."""
        self._ended = self._discards = True
        self._error = self._error or error
        for stored in self._stored.values():
            stored.close()
        self._wake()

    async def read(self, since: Position = START) -> AsyncIterator[Chunk]:
        """All from `since` on, stored and then live, in pieces of at most 256 KiB."""
        reader = object()
        self._readers[reader] = since
        try:
            while True:
                changed = self._changed
                piece = self._piece(since)
                if piece is not None:
                    yield piece
                    since = self._readers[reader] = since.after(piece)
                    self._wake()
                elif self._error is not None:
                    raise self._error
                elif self._ended:
                    return
                else:
                    await changed.wait()
        finally:
            del self._readers[reader]
            self._wake()

    def _piece(self, since: Position) -> Chunk | None:
        if self._discards:
            return None
        for stream in STREAMS:
            offset = since.of(stream)
            data = self._stored[stream].read(offset, PIECE)
            if data:
                return Chunk(stream=stream, offset=offset, data=data)
        return None

    def _room(self, stream: Stream) -> int:
        return min(self._cap_room(), self._behind_room(stream))

    def _cap_room(self) -> int:
        return self._cap - sum(stored.size for stored in self._stored.values())

    def _behind_room(self, stream: Stream) -> int:
        held = self._stored[stream].size
        rooms = (position.of(stream) + self._behind - held for position in self._readers.values())
        return min(rooms, default=self._behind)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class _SpoolFile:
    """One stream's bytes: in memory first, all of them in a file once they are many."""

    def __init__(self) -> None:
        self.size = 0
        self._memory = bytearray()
        self._file: IO[bytes] | None = None

    def append(self, data: bytes) -> None:
        if self._file is None and self.size + len(data) > MEMORY:
            self._file = tempfile.TemporaryFile(prefix="limpet-spool-", buffering=0)  # noqa: SIM115 (closed by close)
            self._file.write(self._memory)
            self._memory = bytearray()
        if self._file is None:
            self._memory += data
        else:
            _write_at(self._file.fileno(), data, self.size)
        self.size += len(data)

    def read(self, offset: int, length: int) -> bytes:
        if self._file is None:
            return bytes(self._memory[offset : offset + length])
        return os.pread(self._file.fileno(), length, offset)

    def close(self) -> None:
        self._memory = bytearray()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written

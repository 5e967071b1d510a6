"""A command's output until the host forgets it: raw bytes by offset. The newest part in memory, the rest in one unlinked file.

The file is shared by all commands of the box and came as an open descriptor, so no command can reach, fill or remove it.
"""

from __future__ import annotations

import os

BLOCK = 1 << 16
_SMALL = 1 << 13


class Spool:
    """Blocks of the box's spool file. What is freed is used again; when nothing is left in it, the file shrinks to nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._free: list[int] = []
        self._blocks = 0

    def put(self, data: bytes | memoryview) -> int:
        """Keep at most one block; returns its number."""
        if not self._free:
            self._free.append(self._blocks)
            self._blocks += 1
        at = self._free[-1]
        written = os.pwrite(self._descriptor, data, at * BLOCK)
        if written < len(data):
            raise OSError("the spool is full")
        self._free.pop()
        return at

    def get(self, block: int, start: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, block * BLOCK + start)

    def give_back(self, blocks: list[int]) -> None:
        self._free.extend(reversed(blocks))  # so that they are taken in the order in which they lie
        if self._blocks and len(self._free) == self._blocks:
            self._free.clear()
            self._blocks = 0
            os.ftruncate(self._descriptor, 0)


class SpooledOutput:
    """One stream of one command: bytes from `start` to `end`."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._blocks: list[int] = []
        self._pieces: list[bytes] = []  # what is not in the file, small ones put together
        self._size = 0  # of the pieces
        self.start = 0
        self.end = 0

    def append(self, data: bytes) -> None:
        self.add(data)
        self.settle()

    def add(self, data: bytes) -> None:
        """Keep it in memory for now, where live readers find it; `settle` is due before long."""
        if self._pieces and len(self._pieces[-1]) + len(data) <= _SMALL:
            self._pieces[-1] += data
        else:
            self._pieces.append(data)
        self._size += len(data)
        self.end += len(data)

    def settle(self) -> bool:
        """Move whole blocks to the file. False while the host's disk has no room for them: then they stay in memory, so the
        caller should stop reading for now (backpressure)."""
        if self._size < BLOCK:
            return True
        held = b"".join(self._pieces) if len(self._pieces) > 1 else self._pieces[0]
        at = 0
        while self._size - at >= BLOCK:
            try:
                self._blocks.append(self._spool.put(memoryview(held)[at : at + BLOCK]))
            except OSError:
                break
            at += BLOCK
        self._size -= at
        self._pieces = [held[at:]] if self._size else []
        return self._size < BLOCK

    @property
    def waits_for_room(self) -> bool:
        return self._size >= BLOCK

    def read(self, offset: int, length: int) -> bytes | memoryview:
        """At least one byte from `offset` on where there is one, at most `length`; never over the edge of what lies
        together in the file or in memory."""
        block, within = divmod(offset - self.start, BLOCK)
        if block < len(self._blocks):
            last = block
            while (last + 1 - block) * BLOCK - within < length and self._follows(last + 1):
                last += 1
            there = (last + 1 - block) * BLOCK - within
            return self._spool.get(self._blocks[block], within, min(length, there))
        begins = self.end - self._size
        for piece in self._pieces:
            if offset < begins + len(piece):
                return memoryview(piece)[offset - begins : offset - begins + length]
            begins += len(piece)
        return b""

    def all(self) -> bytes:
        pieces, at = [], self.start
        while at < self.end:
            pieces.append(self.read(at, self.end - at))
            at += len(pieces[-1])
        return b"".join(pieces)

    def _follows(self, block: int) -> bool:
        """Whether that one is in the file, right behind the one before it."""
        return block < len(self._blocks) and self._blocks[block] == self._blocks[block - 1] + 1

    def pass_by(self, size: int) -> None:
        """Count `size` bytes that were sent without being kept here; what was kept before them is no longer needed."""
        self.end += size
        self.clear()

    def drop_oldest(self) -> None:
        """Let the first whole block go, where there is one."""
        if self._blocks:
            self._spool.give_back([self._blocks.pop(0)])
            self.start += BLOCK

    def clear(self) -> None:
        self._spool.give_back(self._blocks)
        self._blocks = []
        self._pieces = []
        self._size = 0
        self.start = self.end

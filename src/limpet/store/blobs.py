"""Where file bytes can be kept: what every kind of place promises. Knows no row and no tenant.

A key is ours, random, and written once. Who may read what, and which place holds a key, is blob storage's to know.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Protocol, Self

# So many bytes travel at once, and wait in memory for each transfer.
BLOCK = 1024 * 1024


class Blobs(Protocol):
    """One place for bytes, open from `async with` to its end. Every failure of the place itself is a StoreError."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def put(self, key: str, data: AsyncIterator[bytes]) -> None:
        """Keep all of `data`, which comes in blocks of BLOCK bytes, the last one shorter or none at all. Durable when it returns.

        Whole or not at all: where `data` raises, or the caller is cancelled, the error passes on and nothing can be read under
        the key; what of it may be left, `delete` removes."""
        ...

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes from `start` on, at most `length`, in pieces of at most BLOCK. BlobMissing at the first step, or later if it is
        deleted meanwhile. Close the generator if you stop early."""
        ...

    async def size(self, key: str) -> int | None:
        """How many bytes are kept under the key; None if it is not there."""
        ...

    async def delete(self, key: str) -> None:
        """Remove it, and what an unfinished `put` left. Quiet if there is nothing."""
        ...


async def in_blocks(data: AsyncIterator[bytes], *, size: int = BLOCK) -> AsyncGenerator[bytes, None]:
    """The same bytes in blocks of exactly `size`, but for the last."""
    pieces: list[bytes] = []
    waiting = 0
    async for piece in data:
        pieces.append(piece)
        waiting += len(piece)
        if waiting < size:
            continue
        whole = memoryview(b"".join(pieces))
        for at in range(0, waiting - size + 1, size):
            yield bytes(whole[at : at + size])
        rest = bytes(whole[waiting - waiting % size :])
        pieces, waiting = ([rest], len(rest)) if rest else ([], 0)
    if waiting:
        yield b"".join(pieces)

"""The bytes of a container's file on their way in and out, while commands may change it."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

from limpet.containers.changes import is_doubtful, is_known
from limpet.core.errors import NotAFile, RequestTooLarge
from limpet.core.ports import Files
from limpet.store.files import ContainerFileRecord

LOOKS = 20
# Of a file's row, as it is at this moment: where to begin and how many bytes to give.
Choose = Callable[[ContainerFileRecord], tuple[int, int]]


def whole(row: ContainerFileRecord) -> tuple[int, int]:
    """All of it."""
    return 0, row.bytes


async def opened(
    files: Files, row: ContainerFileRecord, choose: Choose
) -> tuple[ContainerFileRecord, AsyncGenerator[bytes, None]]:
    """The row of a regular file as it was when it was opened, and the chosen bytes. Its `sha256` is empty where it may be another's.

    Looked at before and after: commands replace files, and a length must belong to the bytes that follow it. A file that never
    stands still is taken as it comes. Raises FileError.
    """
    for look in range(LOOKS):
        stat = await files.stat(row.path)
        if stat.kind != "file":
            raise NotAFile(row.path, stat.kind)
        is_same = is_known(row, stat) or is_doubtful(row, stat)
        now = replace(row, bytes=stat.size, sha256=row.sha256 if is_same else "")
        start, length = choose(now)
        pieces = files.stream(row.path, start=start, length=length)
        first = await anext(pieces, b"")
        if look == LOOKS - 1 or await files.stat(row.path) == stat:
            break
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
    return now, _joined(first, pieces)


class CountingReader:
    """Passes an upload on while it is hashed, and breaks it off where it grows too large."""

    def __init__(self, data: AsyncIterator[bytes], *, most: int | None) -> None:
        self._data = data
        self._most = most
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        size = 0
        async for piece in self._data:
            size += len(piece)
            if self._most is not None and size > self._most:
                raise RequestTooLarge(
                    f"The file is larger than {self._most} bytes, which is the most that this gateway takes.",
                    param="file",
                    code="file_too_large",
                )
            self._hash.update(piece)
            yield piece


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async with AsyncExitStack() as stack:
        if isinstance(rest, AsyncGenerator):
            await stack.enter_async_context(aclosing(rest))
        yield first
        async for piece in rest:
            yield piece

"""Blobs as files: written aside, synced, then renamed into place. Directories 0700, files 0600, spread over two levels."""

import errno
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import anyio
from anyio import to_thread

from limpet.core.errors import BlobMissing, PlaceUnusable, StoreFailed
from limpet.store.blobs import BLOCK

DIRECTORY = "blobs"  # in LIMPET_HOME
P = ParamSpec("P")
R = TypeVar("R")

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class FilesystemBlobs:
    """See `store.blobs.Blobs`. `root` is made when it is opened; its parent must be there or be ours to make."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._aside = root / "incoming"

    async def __aenter__(self) -> Self:
        try:
            await to_thread.run_sync(_make, self._aside)
        except OSError as error:
            raise PlaceUnusable(
                str(self._root), f"{error.strerror}.", "Make it a directory that this user can write."
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing stays open between calls."""

    async def put(self, key: str, data: AsyncIterator[bytes]) -> None:
        aside, path = self._aside / key, self._path(key)
        file = await _run(_create, aside)
        try:
            async for block in data:
                await _run(_write, aside, file, block)
            await _run(_settle, aside, file, path)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await _run(_remove, aside)
            raise
        finally:
            os.close(file)

    async def read(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        path = self._path(key)
        file = await _run(_open, path)
        if file is None:
            raise BlobMissing(key, str(self._root))
        try:
            end = None if length is None else start + length
            while end is None or start < end:
                piece = await _run(_read, path, file, BLOCK if end is None else min(BLOCK, end - start), start)
                if not piece:
                    return
                yield piece
                start += len(piece)
        finally:
            os.close(file)

    async def size(self, key: str) -> int | None:
        return await _run(_size, self._path(key))

    async def delete(self, key: str) -> None:
        await _run(_remove, self._aside / key)
        await _run(_remove, self._path(key))

    def _path(self, key: str) -> Path:
        return self._root / key[:2] / key[2:4] / key


def _make(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _create(path: Path) -> int:
    # A file left by an interrupted attempt under the same key belongs to no blob: truncate it.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _read(path: Path, file: int, length: int, start: int) -> bytes:
    return os.pread(file, length, start)


def _write(path: Path, file: int, block: bytes) -> None:
    left = memoryview(block)
    while left:
        left = left[os.write(file, left) :]


def _settle(aside: Path, file: int, path: Path) -> None:
    """Make the file durable before it is reported as written: fsync the bytes, rename, then fsync the directory."""
    os.fsync(file)
    for directory in (path.parent.parent, path.parent):
        if not directory.is_dir():
            directory.mkdir(mode=0o700, exist_ok=True)
            _sync(directory.parent)
    aside.rename(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _run(work: Callable[Concatenate[Path, P], R], path: Path, *args: P.args, **kwargs: P.kwargs) -> R:
    """Blocking work on a path, in a thread. What the system refuses is a StoreFailed."""
    try:
        return await to_thread.run_sync(partial(work, path, *args, **kwargs))
    except OSError as error:
        raise _failed(path, error) from error


def _failed(path: Path, error: OSError) -> StoreFailed:
    if error.errno in _FULL:
        return StoreFailed(f"The disk of {path.parent} is full. Make room on it; nothing of the file was kept.")
    return StoreFailed(f"{path}: {error.strerror}. Look at the directory's permissions and at its disk.")

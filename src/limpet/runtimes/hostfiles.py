"""A sandbox's files where they lie in directories of this host. Never follows a link that a command may have planted.

Every path is cut into parts and opened from a directory descriptor, so that no part can turn into a link between a check
and its use (`tests/runtimes/test_hostfiles.py` tries). Blocking work runs in threads.
"""

import errno
import os
import posixpath
import re
import secrets
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from anyio import to_thread

from limpet.core.box_directories import DATA
from limpet.core.errors import (
    FileError,
    FileForbidden,
    FileMissing,
    FileTooLarge,
    NotADirectory,
    NotAFile,
    PathOutside,
    SandboxFull,
)
from limpet.core.ports import MOST_READ, FileKind, FileStat
from limpet.runtimes.impossible import is_encodable
from limpet.runtimes.open_beneath import (
    DIRECTORY,
    LinkInTheWay,
    entries,
    make_directories,
    open_beneath,
    remove_entry,
)

PIECE = 1 << 20

# A write that is under way; `list` leaves it out.
_UNFINISHED = re.compile(r"\.limpet-[0-9a-f]{16}\.part")
_KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@dataclass(frozen=True, slots=True)
class _HostPath:
    """A path, resolved in words only: as asked for, absolute in the sandbox, and as parts below a host directory."""

    asked: str
    path: str
    root: Path
    parts: tuple[str, ...]


class HostFiles:
    """`core.ports.Files` over host directories: `roots` maps absolute sandbox paths to them.

    `owner` is the uid (and gid) that files and directories made here shall belong to; None leaves them to this process.
    """

    def __init__(self, roots: Mapping[str, Path], owner: int | None = None) -> None:
        self._roots = dict(roots)
        self._owner = owner

    async def read(self, path: str, *, start: int = 0, length: int | None = None, limit: int | None = None) -> bytes:
        return await to_thread.run_sync(self._read, self._place(path), start, length, limit)

    async def stream(self, path: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        descriptor = await to_thread.run_sync(self._open_file, self._place(path))
        try:
            left = length
            while left is None or left > 0:
                wanted = PIECE if left is None else min(PIECE, left)
                piece = await to_thread.run_sync(os.pread, descriptor, wanted, start)
                if not piece:
                    return
                start += len(piece)
                left = None if left is None else left - len(piece)
                yield piece
        finally:
            os.close(descriptor)

    async def write(self, path: str, data: bytes | AsyncIterator[bytes], *, mode: int = 0o644) -> FileStat:
        place = self._place(path)
        writing = await to_thread.run_sync(self._begin, place)
        try:
            if isinstance(data, bytes):
                await to_thread.run_sync(writing.add, data)
            else:
                async for piece in data:
                    await to_thread.run_sync(writing.add, piece)
            return await to_thread.run_sync(writing.finish, mode, self._owner)
        finally:
            writing.close()

    async def list(self, path: str = DATA, *, recursive: bool = False, limit: int | None = None) -> list[FileStat]:
        place = self._place(path)
        return await to_thread.run_sync(
            lambda: sorted(islice(self._below(place, recursive), limit), key=lambda found: found.path)
        )

    async def stat(self, path: str) -> FileStat:
        return await to_thread.run_sync(self._stat, self._place(path))

    async def mkdir(self, path: str) -> FileStat:
        return await to_thread.run_sync(self._mkdir, self._place(path))

    async def delete(self, path: str) -> None:
        await to_thread.run_sync(self._delete, self._place(path))

    def _place(self, asked: str) -> _HostPath:
        if "\0" in asked:
            raise FileError(asked, "A path cannot hold a NUL byte.")
        if not is_encodable(asked):
            raise FileError(asked, "A path cannot hold a lone surrogate, which is no character.")
        path = posixpath.normpath(posixpath.join(DATA, asked))
        path = path[1:] if path.startswith("//") else path
        for root in sorted(self._roots, key=len, reverse=True):
            if path == root or path.startswith(f"{root}/"):
                parts = tuple(part for part in path[len(root) :].split("/") if part)
                return _HostPath(asked=asked, path=path, root=self._roots[root], parts=parts)
        raise PathOutside(asked, sorted(self._roots))

    @contextmanager
    def _directory(self, place: _HostPath, parts: tuple[str, ...]) -> Iterator[int]:
        """The descriptor of the directory below the place's root that `parts` names; errors of the body become ours."""
        with self._errors(place):
            root = os.open(place.root, DIRECTORY)
            try:
                descriptor = open_beneath(root, parts)
                try:
                    yield descriptor
                finally:
                    os.close(descriptor)
            finally:
                os.close(root)

    @contextmanager
    def _errors(self, place: _HostPath) -> Iterator[None]:
        try:
            yield
        except LinkInTheWay as error:
            raise PathOutside(place.asked, sorted(self._roots)) from error
        except FileNotFoundError as error:
            raise FileMissing(place.asked) from error
        except NotADirectoryError as error:
            raise NotADirectory(place.asked) from error
        except PermissionError as error:
            raise FileForbidden(place.asked) from error
        except OSError as error:
            raise _translated(place.asked, error) from error

    def _open_file(self, place: _HostPath) -> int:
        """Open a regular file for reading; never waits for a fifo and never opens a device's other end."""
        if not place.parts:
            raise NotAFile(place.asked, "directory")
        with self._directory(place, place.parts[:-1]) as parent:
            name = place.parts[-1]
            self._require_file(place, os.stat(name, dir_fd=parent, follow_symlinks=False))
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=parent)
            try:
                # Again: the name may have changed hands since the look above.
                self._require_file(place, os.fstat(descriptor))
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor

    def _require_file(self, place: _HostPath, found: os.stat_result) -> None:
        if stat.S_ISREG(found.st_mode):
            return
        if stat.S_ISLNK(found.st_mode):
            raise PathOutside(place.asked, sorted(self._roots))
        raise NotAFile(place.asked, _KINDS.get(stat.S_IFMT(found.st_mode), "special file"))

    def _read(self, place: _HostPath, start: int, length: int | None, limit: int | None) -> bytes:
        descriptor = self._open_file(place)
        with self._errors(place), open(descriptor, "rb", buffering=0) as file:
            there = max(0, os.fstat(descriptor).st_size - start)
            wanted = there if length is None else min(there, length)
            if wanted > (most := MOST_READ if limit is None else limit):
                raise FileTooLarge(place.asked, wanted, most)
            file.seek(start)
            pieces = []
            while wanted > 0 and (piece := file.read(min(wanted, PIECE))):
                pieces.append(piece)
                wanted -= len(piece)
            return b"".join(pieces)

    def _begin(self, place: _HostPath) -> "_Writing":
        if not place.parts:
            raise NotAFile(place.asked, "directory")
        with self._errors(place):
            root = os.open(place.root, DIRECTORY)
            try:
                parent = make_directories(root, place.parts[:-1], owner=self._owner)
            finally:
                os.close(root)
            try:
                with suppress(FileNotFoundError):
                    self._require_file(place, os.stat(place.parts[-1], dir_fd=parent, follow_symlinks=False))
                return _Writing(place, parent, self._errors)
            except BaseException:
                os.close(parent)
                raise

    def _below(self, place: _HostPath, recursive: bool) -> Iterator[FileStat]:
        with self._directory(place, place.parts) as base:
            waiting: list[tuple[str, ...]] = [()]
            while waiting:
                below = waiting.pop()
                for name, status in entries(base, below):
                    if is_unfinished(name):
                        continue
                    inner = (*below, name)
                    yield described("/".join((place.path, *inner)), status)
                    if recursive and stat.S_ISDIR(status.st_mode):
                        waiting.append(inner)

    def _stat(self, place: _HostPath) -> FileStat:
        if not place.parts:
            with self._directory(place, ()) as descriptor:
                return described(place.path, os.fstat(descriptor))
        with self._directory(place, place.parts[:-1]) as parent:
            found = described(place.path, os.stat(place.parts[-1], dir_fd=parent, follow_symlinks=False))
            return found if found.kind != "link" else replace(found, target=os.readlink(place.parts[-1], dir_fd=parent))

    def _mkdir(self, place: _HostPath) -> FileStat:
        with self._errors(place):
            root = os.open(place.root, DIRECTORY)
            try:
                descriptor = make_directories(root, place.parts, owner=self._owner)
            finally:
                os.close(root)
            try:
                return described(place.path, os.fstat(descriptor))
            finally:
                os.close(descriptor)

    def _delete(self, place: _HostPath) -> None:
        if not place.parts:
            raise FileForbidden(place.asked)
        with self._directory(place, place.parts[:-1]) as parent:
            remove_entry(parent, place.parts[-1])


class _Writing:
    """A file that is being written beside its place, under a name that `list` leaves out."""

    def __init__(
        self, place: _HostPath, parent: int, errors: Callable[[_HostPath], AbstractContextManager[None]]
    ) -> None:
        self._place = place
        self._parent = parent
        self._errors = errors
        self._name: str | None = f".limpet-{secrets.token_hex(8)}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._name, flags, 0o600, dir_fd=parent)

    def add(self, data: bytes) -> None:
        with self._errors(self._place):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def finish(self, mode: int, owner: int | None) -> FileStat:
        """Rename it into place: a reader sees the old file or the whole new one."""
        with self._errors(self._place):
            if owner is not None:
                os.fchown(self._descriptor, owner, owner)
            os.fchmod(self._descriptor, mode & 0o7777)
            name = self._place.parts[-1]
            assert self._name is not None
            try:
                os.replace(self._name, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
            except IsADirectoryError as error:
                raise NotAFile(self._place.asked, "directory") from error
            self._name = None
            return described(self._place.path, os.fstat(self._descriptor))

    def close(self) -> None:
        if self._name is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._parent)
        os.close(self._descriptor)
        os.close(self._parent)


def _translated(asked: str, error: OSError) -> Exception:
    """What the rarer failures of the system are in our words."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return SandboxFull(f"There is no room to write {asked}: {os.strerror(error.errno)}. Delete files first.")
        case errno.EROFS:
            return FileForbidden(asked)
        case errno.ELOOP:
            return FileError(asked, f"{asked} became a link while it was opened; nothing was done.")
        case _:
            return FileError(asked, f"{asked} cannot be used: {error.strerror or error}.")


def is_unfinished(name: str) -> bool:
    """Whether a file is a write of ours that is under way, by its name."""
    return _UNFINISHED.fullmatch(name) is not None


def described(path: str, status: os.stat_result) -> FileStat:
    """An entry of a directory of this host as the box sees it at `path`."""
    return FileStat(
        path=path,
        kind=_kind(status.st_mode),
        size=status.st_size,
        modified=status.st_mtime_ns,
        mode=stat.S_IMODE(status.st_mode),
        identity=status.st_ino,
        changed=status.st_ctime_ns,
    )


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"

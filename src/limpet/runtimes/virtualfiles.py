"""The files of a sandbox that lives in memory: bashkit's virtual file systems behind `core.ports.Files`.

bashkit reports every failure as a RuntimeError with a sentence; so what is asked for is looked at first, and only the rest is
translated. Nothing here blocks: all of it is memory.
"""

import posixpath
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from bashkit import FileSystem

from limpet.core import errors
from limpet.core.box_directories import DATA
from limpet.core.ports import MOST_READ, FileKind, FileStat

PIECE = 1 << 20
_KINDS: dict[str, FileKind] = {"file": "file", "directory": "directory", "symlink": "link"}


@dataclass(frozen=True, slots=True)
class _VirtualPath:
    """A path as asked for, absolute in the sandbox, and inside one virtual file system (`inner` begins with a slash)."""

    asked: str
    path: str
    system: FileSystem
    inner: str

    @property
    def name(self) -> str:
        return posixpath.basename(self.inner)

    @property
    def parent(self) -> str:
        return posixpath.dirname(self.inner)


class VirtualFiles:
    """`core.ports.Files` over virtual file systems: `roots` maps absolute sandbox paths to them."""

    def __init__(self, roots: Mapping[str, FileSystem]) -> None:
        self._roots = dict(roots)

    async def read(self, path: str, *, start: int = 0, length: int | None = None, limit: int | None = None) -> bytes:
        place = self._place(path)
        data = self._content(place)[start:]
        data = data if length is None else data[:length]
        if len(data) > (most := MOST_READ if limit is None else limit):
            raise errors.FileTooLarge(path, len(data), most)
        return data

    async def stream(self, path: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        data = await self.read(path, start=start, length=length)
        for offset in range(0, len(data), PIECE):
            yield data[offset : offset + PIECE]

    async def write(self, path: str, data: bytes | AsyncIterator[bytes], *, mode: int = 0o644) -> FileStat:
        content = data if isinstance(data, bytes) else b"".join([piece async for piece in data])
        place = self._place(path)
        self._refuse_links(place, itself=True)
        if self._kind(place, place.inner) == "directory":
            raise errors.NotAFile(path, "directory")
        unfinished = posixpath.join(place.parent, f".limpet-{secrets.token_hex(8)}.part")
        try:
            place.system.mkdir(place.parent, recursive=True)
            place.system.write_file(unfinished, content)
            place.system.chmod(unfinished, mode & 0o7777)
            place.system.rename(unfinished, place.inner)
        except RuntimeError as error:
            if place.system.exists(unfinished):
                place.system.remove(unfinished)
            raise _translated(place, error) from error
        return self._described(place, place.inner)

    async def list(self, path: str = DATA, *, recursive: bool = False, limit: int | None = None) -> list[FileStat]:
        place = self._place(path)
        self._refuse_links(place, itself=True)
        if self._require(place) != "directory":
            raise errors.NotADirectory(path)
        found = islice(self._below(place, place.inner, recursive), limit)
        return sorted(found, key=lambda found: found.path)

    async def stat(self, path: str) -> FileStat:
        place = self._place(path)
        self._refuse_links(place, itself=False)
        self._require(place)
        found = self._described(place, place.inner)
        return found if found.kind != "link" else replace(found, target=str(place.system.read_link(place.inner)))

    async def mkdir(self, path: str) -> FileStat:
        place = self._place(path)
        self._refuse_links(place, itself=True)
        if self._kind(place, place.inner) not in (None, "directory"):
            raise errors.NotADirectory(path)
        try:
            place.system.mkdir(place.inner, recursive=True)
        except RuntimeError as error:
            raise _translated(place, error) from error
        return self._described(place, place.inner)

    async def delete(self, path: str) -> None:
        place = self._place(path)
        self._refuse_links(place, itself=False)
        if place.inner == "/":
            raise errors.FileForbidden(path)
        self._require(place)
        try:
            place.system.remove(place.inner, recursive=True)
        except RuntimeError as error:
            raise _translated(place, error) from error

    def _place(self, asked: str) -> _VirtualPath:
        if "\0" in asked:
            raise errors.FileError(asked, "A path cannot hold a NUL byte.")
        if any("\ud800" <= letter <= "\udfff" for letter in asked):
            raise errors.FileError(asked, "A path cannot hold a lone surrogate, which is no character.")
        path = posixpath.normpath(posixpath.join(DATA, asked))
        path = path[1:] if path.startswith("//") else path
        for root in sorted(self._roots, key=len, reverse=True):
            if path == root or path.startswith(f"{root}/"):
                return _VirtualPath(asked=asked, path=path, system=self._roots[root], inner=path[len(root) :] or "/")
        raise errors.PathOutside(asked, sorted(self._roots))

    def _refuse_links(self, place: _VirtualPath, *, itself: bool) -> None:
        """A link on the way, or with `itself` the last part, raises PathOutside; a file on the way NotADirectory."""
        parts = [part for part in place.inner.split("/") if part]
        for count in range(1, len(parts) + 1):
            last = count == len(parts)
            kind = self._kind(place, "/" + "/".join(parts[:count]))
            if kind == "link" and (itself or not last):
                raise errors.PathOutside(place.asked, sorted(self._roots))
            if kind not in (None, "directory") and not last:
                raise errors.NotADirectory(place.asked)

    def _require(self, place: _VirtualPath) -> FileKind:
        kind = self._kind(place, place.inner)
        if kind is None:
            raise errors.FileMissing(place.asked)
        return kind

    def _kind(self, place: _VirtualPath, inner: str) -> FileKind | None:
        try:
            if not place.system.exists(inner):
                return None
            return _KINDS.get(place.system.stat(inner)["file_type"], "other")
        except RuntimeError as error:
            raise _translated(place, error) from error

    def _content(self, place: _VirtualPath) -> bytes:
        self._refuse_links(place, itself=True)
        kind = self._require(place)
        if kind != "file":
            raise errors.NotAFile(place.asked, kind)
        try:
            return place.system.read_file(place.inner)
        except RuntimeError as error:
            raise _translated(place, error) from error

    def _below(self, place: _VirtualPath, inner: str, recursive: bool) -> Iterator[FileStat]:
        for entry in place.system.read_dir(inner):
            found = self._described(place, posixpath.join(inner, entry["name"]))
            yield found
            if recursive and found.kind == "directory":
                yield from self._below(place, posixpath.join(inner, entry["name"]), recursive)

    def _described(self, place: _VirtualPath, inner: str) -> FileStat:
        facts: dict[str, Any] = place.system.stat(inner)
        root = place.path if place.inner == "/" else place.path[: -len(place.inner)]
        modified = round(facts["modified"] * 1e9)
        return FileStat(
            path=root if inner == "/" else root + inner,
            kind=_KINDS.get(facts["file_type"], "other"),
            size=facts["size"],
            modified=modified,
            mode=facts["mode"] & 0o7777,
            changed=modified,
        )


def _translated(place: _VirtualPath, error: RuntimeError) -> Exception:
    text = str(error).removeprefix("io error: ")
    if "too large" in text or "limit" in text:
        return errors.SandboxFull(
            f"There is no room in memory to write {place.asked}: {text}. Write less, or delete files."
        )
    if "not a directory" in text:
        return errors.NotADirectory(place.asked)
    return errors.FileError(place.asked, f"{place.asked} cannot be used: {text}.")

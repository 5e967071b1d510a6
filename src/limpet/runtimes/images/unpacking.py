"""Applies the tar layers of an image to a directory, as an ordinary user or as root: the files of no layer ever leave it.

What a layer says is content of strangers. Names with `..` are refused; links are made and never followed, but below the directory itself
where a layer's own names pass through them. Owners are squashed to the user that unpacks, so the permissions of the owner are
everybody's; set-uid, set-gid and sticky bits are cleared, device nodes, fifos, sockets and extended attributes are left out. Whiteouts are
those of the OCI image specification (layer.md, "Whiteouts").
"""

import os
import shutil
import stat
import tarfile
from pathlib import Path

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.elf import Tree
from limpet.runtimes.images.bounds import ImageBounds, UnpackCount
from limpet.runtimes.images.layer_stream import LayerStream, layer_stream
from limpet.runtimes.images.members import next_member

_WHITEOUT, _OPAQUE, _RESERVED = ".wh.", ".wh..wh..opq", ".wh..wh."
_PIECE = 1 << 20
_DEEPEST = 256
_LATEST = 1 << 33  # seconds; beyond it file systems refuse times


def unpack(layers: list[tuple[Path, str | None]], root: Path, bounds: ImageBounds) -> list[str]:
    """Apply the layers (a file, and the digest that its tar must have, if it is known) in their order to the empty directory `root`.

    Returns the digests of their tars. Raises ImageUnusable; then `root` holds a part of it. Blocking."""
    count = UnpackCount(bounds)
    found = []
    for blob, expected in layers:
        with layer_stream(blob, bounds) as stream:
            try:
                LayerTarget(root, count, stream).apply()
            except (tarfile.TarError, RecursionError, ValueError, OverflowError) as error:
                raise ImageUnusable(f"a layer's tar cannot be read: {error}") from error
            digest = stream.rest()
        if expected is not None and digest != expected:
            raise ImageUnusable(f"a layer's tar is {digest}, where its image says {expected}")
        found.append(digest)
    root.chmod(0o755)
    return found


class LayerTarget:
    """The directory, while one layer is applied to it."""

    def __init__(self, root: Path, count: UnpackCount, stream: LayerStream) -> None:
        self._tree = Tree(root)
        self._count = count
        self._stream = stream
        self._written = 0
        self._added: set[str] = set()  # paths that this layer made or touched and those above them, without links
        self._places: dict[
            tuple[str, ...], str
        ] = {}  # of directories by their names, as long as no link was made or removed

    def apply(self) -> None:
        with tarfile.open(fileobj=self._stream, mode="r:", errors="surrogateescape") as tar:  # type: ignore[call-overload]  # what it uses of a file
            while (member := next_member(tar, self._stream)) is not None:
                self._count.take_entry()
                try:
                    self._entry(tar, member)
                except OSError as error:
                    raise ImageUnusable(f"{member.name!r} cannot be unpacked: {error.strerror or error}") from error
            # A header that makes no sense is the end to tarfile, too.
            self._stream.header()
            self._stream.seek(tar.offset)
            if (block := self._stream.read(tarfile.BLOCKSIZE)) != bytes(tarfile.BLOCKSIZE):
                what = "is cut off" if len(block) < tarfile.BLOCKSIZE else "makes no sense"
                raise ImageUnusable(f"a layer's tar {what} at byte {tar.offset}")

    def _entry(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = _parts(member.name)
        if not parts or any(part.startswith(_RESERVED) for part in parts[:-1]):
            return
        name = parts[-1]
        if name == _OPAQUE:
            self._hide_all(self._directory(parts[:-1]))
        elif name.startswith(_RESERVED):
            return  # bookkeeping of other file systems
        elif name.startswith(_WHITEOUT):
            self._hide(self._directory(parts[:-1]), name[len(_WHITEOUT) :])
        elif member.isdir():
            self._make_directory(parts)
        elif member.isreg() or member.issparse():
            self._make_file(tar, member, parts)
        elif member.issym():
            path = self._clear(parts)
            os.symlink(member.linkname, self._tree.on_host(path))
            self._places.clear()
        elif member.islnk():
            self._link(member.linkname, parts)

    def _directory(self, parts: tuple[str, ...]) -> str:
        """The path, without links, of the directory with these names; what is missing is made."""
        if not parts:
            return ""
        if (known := self._places.get(parts)) is not None:
            return known
        path = f"{self._directory(parts[:-1])}/{parts[-1]}"
        try:
            kind = os.lstat(self._tree.on_host(path)).st_mode
        except FileNotFoundError:
            self._tree.on_host(path).mkdir(mode=0o755)
            self._add(path)
        else:
            if not stat.S_ISDIR(kind):
                path = self._behind_link(path, "/".join(parts))
        if path.count("/") > _DEEPEST:
            raise ImageUnusable(f"it has directories more than {_DEEPEST} deep")
        self._places[parts] = path
        return path

    def _behind_link(self, path: str, name: str) -> str:
        """Where it leads, below the root."""
        found = self._tree.real(path)
        if found is None or not self._tree.on_host(found).is_dir():
            raise ImageUnusable(f"{name!r} has something below it and is no directory")
        return "" if found == "/" else found

    def _make_directory(self, parts: tuple[str, ...]) -> None:
        above = self._directory(parts[:-1])
        path = f"{above}/{parts[-1]}"
        place = self._tree.on_host(path)
        if place.is_symlink() or not place.is_dir():
            self._remove(path)
            place.mkdir(mode=0o755)
        self._add(path)

    def _make_file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: tuple[str, ...]) -> None:
        place = self._tree.on_host(self._clear(parts))
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            content = tar.extractfile(member)
            written = 0
            while content is not None and (piece := content.read(_PIECE)):
                self._take(len(piece))
                file.write(piece)
                written += len(piece)
            if written != member.size:
                raise ImageUnusable(f"{member.name!r} is cut off")
            os.fchmod(descriptor, _squashed(member.mode))
            seconds = min(max(int(member.mtime), 0), _LATEST)
            os.utime(descriptor, ns=(seconds * 10**9, seconds * 10**9))

    def _take(self, size: int) -> None:
        """Count what is written; a sparse file may be larger than all that was read."""
        self._count.take_bytes(size)
        self._written += size
        self._stream.refuse_bomb(self._written)

    def _link(self, target: str, parts: tuple[str, ...]) -> None:
        names = _parts(target)
        if not names:
            raise ImageUnusable(f"{'/'.join(parts)!r} is a hard link to the root")
        source = self._tree.on_host(f"{self._directory(names[:-1])}/{names[-1]}")
        if not os.path.lexists(source) or stat.S_ISDIR(os.lstat(source).st_mode):
            raise ImageUnusable(f"{'/'.join(parts)!r} is a hard link to {target!r}, which is no file of the image")
        if names == parts:
            return
        place = self._tree.on_host(self._clear(parts))
        if not os.path.lexists(source):
            raise ImageUnusable(f"{'/'.join(parts)!r} is a hard link to {target!r}, which it stands above")
        os.link(source, place, follow_symlinks=False)

    def _clear(self, parts: tuple[str, ...]) -> str:
        """The path for something new under these names, with nothing there any more."""
        path = f"{self._directory(parts[:-1])}/{parts[-1]}"
        self._remove(path)
        self._add(path)
        return path

    def _add(self, path: str) -> None:
        """That path is of this layer, and so are the directories above it, which need no entries of their own."""
        while path and path not in self._added:
            self._added.add(path)
            path = path.rpartition("/")[0]

    def _hide(self, above: str, name: str) -> None:
        if name in ("", ".", ".."):
            raise ImageUnusable(f"a layer hides {name!r}, which is no name")
        path = f"{above}/{name}"
        if path not in self._added:
            self._remove(path)
        elif self._is_directory(path):
            self._hide_all(path)

    def _hide_all(self, above: str) -> None:
        """What earlier layers have in that directory goes, at any depth; what this one has stays."""
        waiting = [above]
        while waiting:
            place = waiting.pop()
            for name in self._tree.names(place or "/"):
                path = f"{place}/{name}"
                if path not in self._added:
                    self._remove(path)
                elif self._is_directory(path):
                    waiting.append(path)

    def _is_directory(self, path: str) -> bool:
        place = self._tree.on_host(path)
        return place.is_dir() and not place.is_symlink()

    def _remove(self, path: str) -> None:
        place = self._tree.on_host(path)
        try:
            kind = os.lstat(place).st_mode
        except FileNotFoundError:
            return
        self._places.clear()
        if stat.S_ISDIR(kind):
            shutil.rmtree(place)
        else:
            place.unlink()


def _parts(name: str) -> tuple[str, ...]:
    """The names on the way to an entry, from the root of the image."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ImageUnusable(f"{name[:200]!r} leads out of it")
    if len(parts) > _DEEPEST:
        raise ImageUnusable(f"it has directories more than {_DEEPEST} deep")
    return parts


def _squashed(mode: int) -> int:
    """The owner's permissions for everybody: all owners are one, and who runs a box's commands is another."""
    own = (mode & 0o700) | 0o600
    shared = (own >> 6) & 0o5
    return own | shared << 3 | shared

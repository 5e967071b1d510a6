"""Where the parts of an image are read from: a directory, or a tar with files in it. Names in them are names, never paths.

What lies there was made by strangers: nothing but regular files is opened, and no link is followed.
"""

import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from limpet.core.image_errors import ImageUnusable

MOST_NAMES = 5000  # of an archive of an image; a tar with more is one of a root file system


class ImageParts(Protocol):
    """Files by their names, such as `index.json` and `blobs/sha256/…`."""

    def has(self, name: str) -> bool: ...

    def open(self, name: str) -> BinaryIO:
        """Raises ImageUnusable where there is no such file."""
        ...


class DirectoryParts:
    """Of an OCI layout directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, name: str) -> bool:
        return (self._root / name).is_file()

    def open(self, name: str) -> BinaryIO:
        return open_regular(self._root / name, name)


class PulledParts(DirectoryParts):
    """Of a directory that skopeo wrote: a part lies there under the digits of its digest."""

    def open(self, name: str) -> BinaryIO:
        return super().open(os.path.basename(name))


class TarParts:
    """Of an archive. Where a name stands there twice, the last counts; a link to another name in it (docker's) is that other file."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members: dict[str, tarfile.TarInfo] = {}
        while (member := tar.next()) is not None:
            self._members[os.path.normpath(member.name)] = member
            if len(self._members) > MOST_NAMES:
                raise ImageUnusable(f"it has more than {MOST_NAMES} files, which no archive of an image has")

    def has(self, name: str) -> bool:
        return name in self._members

    def open(self, name: str) -> BinaryIO:
        member = self._members.get(name)
        if member is not None and member.issym():
            member = self._members.get(os.path.normpath(os.path.join(os.path.dirname(name), member.linkname)))
        if member is None or not member.isreg():
            raise ImageUnusable(f"it has no file {name}")
        return cast(BinaryIO, self._tar.extractfile(member))


def open_regular(path: Path, name: str) -> BinaryIO:
    """The file, if it is one: a fifo would wait, and a link could lead anywhere. Raises ImageUnusable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ImageUnusable(f"{name} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ImageUnusable(f"{name} is not a regular file")
    return open(descriptor, "rb")


@contextmanager
def archive(path: Path) -> Iterator[TarParts]:
    """The files of the tar at `path`, which may be compressed. Raises ImageUnusable."""
    with open_regular(path, str(path)) as file:
        try:
            with tarfile.open(fileobj=file, mode="r:*", errors="surrogateescape") as tar:
                yield TarParts(tar)
        except (tarfile.TarError, EOFError, OSError, RecursionError, ValueError) as error:
            raise ImageUnusable(f"it is no tar that can be read: {error}") from error

"""The parts of images, each in a file that its sha256 digest names: written whole and checked, or not at all."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.images.documents import Descriptor

MAKING = "making-"
_PIECE = 1 << 20


class ImageBlobs:
    """Below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, digest: str) -> Path:
        return self.directory / digest.replace(":", "/")

    def has(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def put(self, content: bytes) -> Descriptor:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if not self.has(digest):
            self._place_for(digest)
            with self._unfinished() as (file, path):
                file.write(content)
                self._finish(path, digest)
        return Descriptor(digest, len(content))

    def take(self, source: BinaryIO, expected: Descriptor | None, most: int) -> Descriptor:
        """Copy what the stream holds. Raises ImageUnusable where it is not what was expected, or more than `most` bytes."""
        found, size = hashlib.sha256(), 0
        with self._unfinished() as (file, path):
            while piece := source.read(_PIECE):
                found.update(piece)
                size += len(piece)
                if size > most or (expected is not None and expected.size is not None and size > expected.size):
                    raise ImageUnusable("a part of it is larger than was said")
                file.write(piece)
            digest = f"sha256:{found.hexdigest()}"
            if expected is not None and expected.digest != digest:
                raise ImageUnusable(f"a part of it is {digest}, where {expected.digest} was said")
            if expected is not None and expected.size not in (None, size):
                raise ImageUnusable(f"a part of it has {size} bytes, where {expected.size} were said")
            self._place_for(digest)
            self._finish(path, digest)
        return Descriptor(digest, size)

    def all(self) -> list[str]:
        place = self.directory / "sha256"
        return [f"sha256:{path.name}" for path in place.iterdir()] if place.is_dir() else []

    def _unfinished(self) -> "_UnfinishedBlob":
        self.directory.mkdir(parents=True, exist_ok=True)
        return _UnfinishedBlob(self.directory)

    def _place_for(self, digest: str) -> None:
        self.path(digest).parent.mkdir(parents=True, exist_ok=True)

    def _finish(self, path: Path, digest: str) -> None:
        path.chmod(0o644)
        path.rename(self.path(digest))


class _UnfinishedBlob:
    """A file that is being written; gone at the end, unless it was renamed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> tuple[BinaryIO, Path]:
        descriptor, name = tempfile.mkstemp(prefix=MAKING, dir=self._directory)
        self._file: BinaryIO = open(descriptor, "wb", buffering=0)  # closed in __exit__
        self._path = Path(name)
        return self._file, self._path

    def __exit__(self, *exc: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def stat_of(path: Path) -> tuple[int, ...]:
    """The same as long as the file is the same."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

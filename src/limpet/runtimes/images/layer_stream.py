"""A layer's tar as it is read: decompressed, counted and hashed, forward only. Knows gzip; zstd by the program `zstd`."""

import gzip
import hashlib
import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.images.bounds import ImageBounds

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 20
_KEPT = 1024  # bytes before the present place that tarfile may come back to


class LayerStream:
    """What `tarfile` needs of a file, over a stream: it reads on, skips, and steps back by a block at most.

    `raw` gives the tar's bytes, `size` is that of the compressed layer. Raises ImageUnusable for a layer that unpacks to too much, or
    wants a header longer than the bounds allow: all that is read before `content` and after `header` is one, in however many blocks
    (extended headers, maps of sparse files).
    """

    def __init__(self, raw: BinaryIO, size: int, bounds: ImageBounds) -> None:
        self._raw = raw
        self._bounds = bounds
        self._most = max(bounds.ratio_from, size * bounds.max_ratio)
        self._hash = hashlib.sha256()
        self._tail = b""  # the bytes before `_read`
        self._read = 0  # how much was read of `raw`
        self._at = 0
        self._header: int | None = 0  # bytes read of an entry's headers; None in its content

    def header(self) -> None:
        """What is read now are the headers of the next entry."""
        self._header = 0

    def content(self) -> None:
        """What is read now is the content of an entry, of any length."""
        self._header = None

    def tell(self) -> int:
        return self._at

    def seek(self, to: int) -> int:
        if to < self._read - len(self._tail):
            raise ImageUnusable("a layer's tar cannot be read: it leads backwards")
        while to > self._read and self._take(min(_PIECE, to - self._read)):
            pass
        self._at = to
        return to

    def read(self, count: int = -1) -> bytes:
        """At most that much; less at the end."""
        if count < 0 or count > max(self._bounds.max_header, _PIECE):
            raise ImageUnusable("a layer's tar has a header that is too long")
        if self._header is not None:
            self._header += count
            if self._header > self._bounds.max_header:
                raise ImageUnusable("a layer's tar has a header that is too long")
        if self._at > self._read:
            return b""
        behind = self._read - self._at
        found = self._tail[len(self._tail) - behind :][:count] if behind else b""
        while len(found) < count and (piece := self._take(count - len(found))):
            found += piece
        self._at += len(found)
        return found

    def rest(self) -> str:
        """Read to the end; the digest of all of it."""
        while self._take(_PIECE):
            pass
        return f"sha256:{self._hash.hexdigest()}"

    def _take(self, count: int) -> bytes:
        try:
            piece = self._raw.read(count)
        except (OSError, EOFError, zlib.error) as error:
            raise ImageUnusable(f"a layer cannot be decompressed: {error}") from error
        self._hash.update(piece)
        self._read += len(piece)
        self._tail = (self._tail + piece)[-_KEPT:]
        self.refuse_bomb(self._read)
        return piece

    def refuse_bomb(self, size: int) -> None:
        """Raises ImageUnusable where so many bytes are too many to come of this layer."""
        if size > self._most:
            raise ImageUnusable(
                f"a layer unpacks to more than {self._bounds.max_ratio} times its size, which is what bombs do"
            )


@contextmanager
def layer_stream(blob: Path, bounds: ImageBounds) -> Iterator[LayerStream]:
    """The tar of the layer in that file. Raises ImageUnusable."""
    size = blob.stat().st_size
    with open(blob, "rb") as file:
        head = file.read(4)
        file.seek(0)
        if head.startswith(_GZIP):
            with gzip.GzipFile(fileobj=file) as raw:
                yield LayerStream(cast(BinaryIO, raw), size, bounds)
        elif head == _ZSTD:
            with _zstd(file) as raw:
                yield LayerStream(raw, size, bounds)
        else:
            yield LayerStream(file, size, bounds)


@contextmanager
def _zstd(file: BinaryIO) -> Iterator[BinaryIO]:
    program = shutil.which("zstd")
    if program is None:
        raise ImageUnusable("its layers are compressed with zstd, which is not installed: apt-get install zstd")
    os.lseek(file.fileno(), 0, os.SEEK_SET)  # what was read of it stands in this process's buffer
    with subprocess.Popen(
        [program, "-dc", "--memory=512MB"], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield cast(BinaryIO, process.stdout)
            if process.stdout.read(1) == b"" and process.wait() != 0:
                said = process.stderr.read(500).decode(errors="replace").strip()
                raise ImageUnusable(f"a layer cannot be decompressed: {said}")
        finally:
            process.kill()

"""How much an image may be, counted while it is read and unpacked, not by what it declares."""

from dataclasses import dataclass

from limpet.core.image_errors import ImageUnusable

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBounds:
    """Of one image, all layers together: `max_bytes` unpacked, `max_entries` of its tars. A layer may unpack to `max_ratio` times its
    compressed size, once that is more than `ratio_from` bytes. `max_document` bytes are read of a manifest or a header."""

    max_bytes: int = 32 << 30
    max_entries: int = 500_000
    max_ratio: int = 200
    ratio_from: int = 256 * MIB
    max_layers: int = 256
    max_document: int = 4 * MIB
    max_header: int = 256 * 1024


class UnpackCount:
    """What was unpacked of one image so far. Raises ImageUnusable once a bound is passed."""

    def __init__(self, bounds: ImageBounds) -> None:
        self._bounds = bounds
        self._bytes = 0
        self._entries = 0

    def take_entry(self) -> None:
        self._entries += 1
        if self._entries > self._bounds.max_entries:
            raise ImageUnusable(f"it has more than {self._bounds.max_entries} files and directories")

    def take_bytes(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._bounds.max_bytes:
            raise ImageUnusable(f"it unpacks to more than {self._bounds.max_bytes >> 20} MiB")

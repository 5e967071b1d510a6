"""The entries of a layer's tar, one by one, with what `tarfile` keeps of them bounded."""

import tarfile

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.images.layer_stream import LayerStream

_MOST_GLOBAL = 64  # keywords of pax that hold for all entries from there on; they are copied for each


def next_member(tar: tarfile.TarFile, stream: LayerStream) -> tarfile.TarInfo | None:
    """The next entry, None at the end; what is read of `stream` after it is its content.

    Raises ImageUnusable where its headers are longer than the bounds allow, or no entry of an image has such."""
    stream.header()
    member = tar.next()
    stream.content()
    tar.members = []  # type: ignore[attr-defined]  # else every member is kept
    if len(tar.pax_headers) > _MOST_GLOBAL:
        raise ImageUnusable("a layer's tar has more global headers than any image needs")
    if member is not None and member.issparse() and not _ascends(member):
        raise ImageUnusable(f"{member.name[:200]!r} is a sparse file whose parts are in no order")
    return member


def _ascends(member: tarfile.TarInfo) -> bool:
    """Whether the parts of a sparse file follow each other: `tarfile` looks through all of them for each part that does not."""
    parts: list[tuple[int, int]] = getattr(member, "sparse", None) or []
    end = 0
    for offset, size in parts:
        if (offset, size) == (0, 0):
            continue  # an unused part of a header of GNU's old format
        if offset < end or size < 0:
            return False
        end = offset + size
    return True

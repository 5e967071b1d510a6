"""Moves bytes to where the settings now say, one blob after the other. May be broken off at any moment and begun again.

A gateway may serve meanwhile: a blob is readable at its old place until its copy was checked, and at the new one from then on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from limpet.core.errors import BlobDamaged, BlobMissing
from limpet.store.blob_locations import Place, to_text
from limpet.store.blob_records import Area, BlobRecord
from limpet.store.blob_storage import BlobStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a move is: blobs and bytes that were moved, and that there are to move in all. `failed` are sentences on those whose
    bytes are missing or damaged: they stay where they are."""

    moved: int = 0
    bytes: int = 0
    all: int = 0
    all_bytes: int = 0
    failed: tuple[str, ...] = ()


Tell = Callable[[Progress], None]


async def move(
    blob_storage: BlobStorage, area: Area, place: Place, *, tell: Tell, begun: Progress | None = None
) -> Progress:
    """Move all that is kept for an area to that place; `tell` is called at the start and after each blob. Returns when nothing is left
    elsewhere but `failed`. Raises StoreError for what concerns a whole place, after which it can be called again."""
    target = to_text(place)
    count, size = await blob_storage.ledger.count_elsewhere(area, target)
    before = begun or Progress()
    progress = replace(before, all=before.all + count, all_bytes=before.all_bytes + size)
    tell(progress)
    after = 0
    while records := await blob_storage.ledger.elsewhere(area, target, after=after):
        for record in records:
            progress = await _moved(blob_storage, record, place, progress)
            tell(progress)
            after = record.number
    while await blob_storage.sweep():
        pass
    return progress


async def _moved(blob_storage: BlobStorage, record: BlobRecord, place: Place, progress: Progress) -> Progress:
    try:
        if not await blob_storage.move(record, place):
            return progress  # it was deleted meanwhile
    except (BlobMissing, BlobDamaged) as error:
        return replace(progress, failed=(*progress.failed, error.message))
    await blob_storage.sweep()
    return replace(progress, moved=progress.moved + 1, bytes=progress.bytes + record.bytes)

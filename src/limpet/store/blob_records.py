"""Which bytes are kept where: the rows of `blobs`. Touches no bytes.

A row is inserted before its bytes are written and deleted after they are removed, so a killed process leaves no orphaned bytes. Code
that inserts a row which refers to a blob calls `keep` in the same transaction, and `doom` in the transaction that deletes that row.
"""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement, Select, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from limpet.core.clock import MICROSECONDS
from limpet.core.errors import StoreFailed
from limpet.store.database import Database
from limpet.store.records import columns_of, record_of
from limpet.store.tables import blobs

Area = Literal["files", "container_files"]
ABANDONED = 24 * 3600 * MICROSECONDS
State = Literal["pending", "moving", "kept", "doomed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BlobRecord:
    """See `store.tables.blobs`. `bytes` and `sha256` (hex) are 0 and empty while it is pending; `number` is 0 until it is stored."""

    id: str
    tenant: str
    number: int = 0
    area: Area
    place: str
    key: str
    state: State
    bytes: int = 0
    sha256: str = ""
    created_at: int


class BlobRecords:
    """The table of blobs. Each call is one transaction, committed when it returns; StoreFailed where it cannot be."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def open(self, record: BlobRecord) -> None:
        """Before the first byte is written."""
        async with self._db.writing() as connection:
            await connection.execute(insert(blobs).values(columns_of(record)))

    async def written(self, id: str, *, size: int, sha256: str) -> None:
        """All bytes are written. The blob stays pending until `keep` is called."""
        async with self._db.writing() as connection:
            await connection.execute(update(blobs).where(blobs.c.id == id).values(bytes=size, sha256=sha256))

    async def get(self, id: str) -> BlobRecord | None:
        """A blob that can be read; None for all others."""
        found = await self._all(select(blobs).where(blobs.c.id == id, blobs.c.state == "kept"))
        return found[0] if found else None

    async def discard(self, id: str) -> None:
        """Mark the blob for removal unless it was kept."""
        async with self._db.writing() as connection:
            await connection.execute(
                update(blobs).where(blobs.c.id == id, blobs.c.state.in_(("pending", "moving"))).values(state="doomed")
            )

    async def abandon(self, state: Literal["pending", "moving"], *, now: int) -> None:
        """Doom all that an earlier process was writing: where other gateways may be at it now, what was begun ABANDONED ago."""
        written = blobs.c.state == state
        if self._db.is_shared:
            written &= blobs.c.created_at < now - ABANDONED
        async with self._db.writing() as connection:
            await connection.execute(update(blobs).where(written).values(state="doomed"))

    async def doomed(self, *, limit: int = 100) -> list[BlobRecord]:
        """Some of those whose bytes are to be removed."""
        return await self._all(select(blobs).where(blobs.c.state == "doomed").order_by(blobs.c.number).limit(limit))

    async def close(self, id: str) -> None:
        """Its bytes are removed."""
        async with self._db.writing() as connection:
            await connection.execute(delete(blobs).where(blobs.c.id == id, blobs.c.state == "doomed"))

    async def elsewhere(self, area: Area, place: str, *, after: int = 0, limit: int = 100) -> list[BlobRecord]:
        """The kept blobs of an area that are not at that place, behind a number, in its order."""
        query = select(blobs).where(*_elsewhere(area, place), blobs.c.number > after).order_by(blobs.c.number)
        return await self._all(query.limit(limit))

    async def count_elsewhere(self, area: Area, place: str) -> tuple[int, int]:
        """How many those are, and how many bytes they have together."""
        query = select(func.count(), func.coalesce(func.sum(blobs.c.bytes), 0)).where(*_elsewhere(area, place))
        async with self._db.reading() as connection:
            count, size = (await connection.execute(query)).one()
        return int(count), int(size)

    async def places(self) -> list[str]:
        """Every place that a row names."""
        async with self._db.reading() as connection:
            return list((await connection.execute(select(blobs.c.place).distinct())).scalars())

    async def swap(self, old: BlobRecord, new: BlobRecord) -> bool:
        """Let `old`'s id stand for the bytes of `new`, and doom the others. False, and nothing changed, if `old` is not what and
        where it was."""
        was = (blobs.c.id == old.id, blobs.c.state == "kept", blobs.c.key == old.key)
        async with self._db.writing() as connection:
            if (await connection.execute(select(blobs.c.id).where(*was))).one_or_none() is None:
                return False
            # Keys are unique at every moment.
            await connection.execute(update(blobs).where(blobs.c.id == new.id).values(key=f"{new.key}.swapped"))
            await connection.execute(update(blobs).where(*was).values(place=new.place, key=new.key))
            spent = update(blobs).where(blobs.c.id == new.id)
            await connection.execute(spent.values(place=old.place, key=old.key, state="doomed"))
            return True

    async def used(self, tenant: str) -> int:
        """How many bytes a tenant keeps, over all areas."""
        mine = (blobs.c.tenant == tenant, blobs.c.state == "kept")
        async with self._db.reading() as connection:
            query = select(func.coalesce(func.sum(blobs.c.bytes), 0)).where(*mine)
            return int((await connection.execute(query)).scalar_one())

    async def _all(self, query: Select[tuple[object, ...]]) -> list[BlobRecord]:
        async with self._db.reading() as connection:
            return [record_of(BlobRecord, row) for row in await connection.execute(query)]


async def keep(connection: AsyncConnection, id: str) -> None:
    """From this transaction on the blob belongs to the row that is stored in it. Keeping it again is quiet. StoreFailed, and with it
    the end of the transaction, if its bytes are not there to be kept any more."""
    state = (await connection.execute(select(blobs.c.state).where(blobs.c.id == id))).scalar_one_or_none()
    if state not in ("pending", "kept"):
        raise StoreFailed(f"The bytes {id} were given up before they were kept. Send them again.")
    await connection.execute(update(blobs).where(blobs.c.id == id).values(state="kept"))


async def doom(connection: AsyncConnection, ids: Select[tuple[str | None]] | str) -> None:
    """Mark blobs for removal: from this transaction on no row refers to them. Call it before the rows that `ids` selects are deleted."""
    which = blobs.c.id == ids if isinstance(ids, str) else blobs.c.id.in_(ids.scalar_subquery())
    await connection.execute(update(blobs).where(which).values(state="doomed"))


def _elsewhere(area: Area, place: str) -> list[ColumnElement[bool]]:
    return [blobs.c.area == area, blobs.c.state == "kept", blobs.c.place != place]

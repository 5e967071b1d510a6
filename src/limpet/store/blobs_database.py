"""Blobs as rows of the database, a block each. For small installations that want one file to back up; large data belongs elsewhere."""

from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Self

import anyio
from sqlalchemy import delete, func, insert, select

from limpet.core.errors import BlobMissing
from limpet.store.blobs import BLOCK
from limpet.store.database import Database
from limpet.store.tables import blob_parts as parts
from limpet.store.tables import blobs

# The journal writes in between: no transaction holds more than this.
PARTS_AT_ONCE = 32


class DatabaseBlobs:
    """See `store.blobs.Blobs`. The database is open before and closes after. An empty blob is one empty part."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The database is its owner's to close."""

    async def put(self, key: str, data: AsyncIterator[bytes]) -> None:
        number = 0
        try:
            # The last part is written last, so that only a whole blob ends with a part that says so.
            before: bytes | None = None
            async for block in data:
                if before is not None:
                    await self._add(key, number, before, is_last=False)
                    number += 1
                before = block
            await self._add(key, number, before or b"", is_last=True)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.delete(key)
            raise

    async def read(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        size = await self.size(key)
        if size is None:
            raise BlobMissing(key, "the database")
        end = size if length is None else min(size, start + length)
        while start < end:
            number = start // BLOCK
            query = select(parts.c.data).where(parts.c.key == key, parts.c.number == number)
            async with self._db.reading() as connection:
                data: bytes | None = (await connection.execute(query)).scalar_one_or_none()
            if data is None:
                raise BlobMissing(key, "the database")
            piece = data[start - number * BLOCK : end - number * BLOCK]
            yield piece
            start += len(piece)

    async def size(self, key: str) -> int | None:
        query = select(parts.c.number, func.length(parts.c.data)).where(parts.c.key == key, parts.c.is_last)
        async with self._db.reading() as connection:
            last = (await connection.execute(query)).one_or_none()
        return None if last is None else int(last[0]) * BLOCK + int(last[1])

    async def delete(self, key: str) -> None:
        # The last part first: from then on nothing can be read.
        while True:
            some = select(parts.c.number).where(parts.c.key == key).order_by(parts.c.number.desc()).limit(PARTS_AT_ONCE)
            async with self._db.writing() as connection:
                query = delete(parts).where(parts.c.key == key, parts.c.number.in_(some.scalar_subquery()))
                if (await connection.execute(query)).rowcount < PARTS_AT_ONCE:
                    return

    async def _add(self, key: str, number: int, data: bytes, *, is_last: bool) -> None:
        tenant = select(blobs.c.tenant).where(blobs.c.key == key).scalar_subquery()
        async with self._db.writing() as connection:
            row = {"key": key, "number": number, "data": data, "is_last": is_last}
            await connection.execute(insert(parts).values(**row, tenant=func.coalesce(tenant, "default")))

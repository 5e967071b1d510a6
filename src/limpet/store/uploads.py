"""The Files API's files: taken in, listed, given out, deleted, and gone when their time is over. Their bytes are in blob storage."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import anyio
from sqlalchemy import ColumnElement, and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from limpet.core.clock import MICROSECONDS, Clock, SystemClock
from limpet.core.errors import NotFound
from limpet.core.ids import FILE, new_id
from limpet.store.blob_records import doom, keep
from limpet.store.blob_storage import Blob, BlobStorage
from limpet.store.database import Database
from limpet.store.quotas import check_added_bytes, hold_for_bytes
from limpet.store.records import Order, Page, columns_of, read_page, record_of
from limpet.store.settings import NO_QUOTA, QuotaSettings
from limpet.store.tables import uploads

REAP_EVERY = 5.0  # seconds
# So long a list can be continued behind a file that was deleted; then its row goes too.
CURSOR_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class NewUpload:
    """What a client says of a file. `purpose` is one of OpenAI's; `expires_after` in seconds, None for never."""

    filename: str
    purpose: str
    content_type: str | None = None
    expires_after: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadRecord:
    """One file. `bytes` is its size, `sha256` in hex, `blob` where the bytes are; times in microseconds UTC: `expires_at` None for
    never, `ended_at` once it was deleted or expired; `number` is 0 until it is stored."""

    id: str
    tenant: str
    number: int = 0
    filename: str
    purpose: str
    content_type: str | None = None
    bytes: int
    sha256: str
    blob: str | None
    created_at: int
    expires_at: int | None = None
    ended_at: int | None = None


class Uploads:
    """All files of all tenants. `async with` removes files when they expire; database and blob storage are open before and close after.

    `trouble` is what went wrong in the reaper's last round, None if nothing did. StoreFailed where the store cannot be used.
    """

    def __init__(
        self, db: Database, blob_storage: BlobStorage, *, clock: Clock | None = None, quota: QuotaSettings = NO_QUOTA
    ) -> None:
        self._db, self._blob_storage, self._quota = db, blob_storage, quota
        self._clock = clock or SystemClock()
        self._stack = AsyncExitStack()
        self.trouble: str | None = None

    async def __aenter__(self) -> Self:
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(self._reap_for_ever)
        self._stack.callback(tasks.cancel_scope.cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def taken(self, tenant: str, data: AsyncIterator[bytes]) -> AsyncIterator[Blob]:
        """Keep the bytes of a file to come; the block calls `create` with what this yields, once it knows what the client says of
        them. Without that, and whatever raises, nothing of them is left."""
        async with self._blob_storage.put(data, tenant=tenant, area="files") as blob:
            yield blob

    async def create(self, tenant: str, blob: Blob, new: NewUpload) -> UploadRecord:
        """A new file of those bytes. Raises QuotaExceeded where its tenant would have more than its quota."""
        now = self._clock.now()
        record = UploadRecord(
            id=new_id(FILE),
            tenant=tenant,
            filename=new.filename,
            purpose=new.purpose,
            content_type=new.content_type,
            bytes=blob.bytes,
            sha256=blob.sha256,
            blob=blob.id,
            created_at=now,
            expires_at=None if new.expires_after is None else now + new.expires_after * MICROSECONDS,
        )
        async with self._db.writing() as connection:
            await hold_for_bytes(connection, tenant, self._quota)
            await keep(connection, blob.id)
            await check_added_bytes(connection, tenant, self._quota, added=blob.bytes)
            query = insert(uploads).values(columns_of(record)).returning(uploads.c.number)
            return replace(record, number=(await connection.execute(query)).scalar_one())

    async def get(self, tenant: str, id: str) -> UploadRecord:
        """A tenant's file. NotFound, also once it was deleted or has expired."""
        async with self._db.reading() as connection:
            query = select(uploads).where(uploads.c.id == id, uploads.c.tenant == tenant, *self._alive())
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            raise _no_file(id)
        return record_of(UploadRecord, row)

    async def list(
        self,
        tenant: str,
        *,
        limit: int,
        after: str | None = None,
        order: Order = "desc",
        purpose: str | None = None,
    ) -> Page[UploadRecord]:
        """A page by age. `after` may have been deleted in the last day; an id that the tenant never had raises RequestInvalid."""
        mine = uploads.c.tenant == tenant
        where = [mine, *self._alive()]
        if purpose is not None:
            where.append(uploads.c.purpose == purpose)
        async with self._db.reading() as connection:
            return await read_page(
                connection, uploads, *where, kind=UploadRecord, limit=limit, after=after, order=order, cursor_in=mine
            )

    def read(self, record: UploadRecord, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """Its bytes from `start` on, at most `length`; see `Vault.read`."""
        return self._blob_storage.read(record.blob or record.id, start=start, length=length)

    async def delete(self, tenant: str, id: str) -> None:
        """Its name and its bytes are gone when this returns, or as soon as their place answers. NotFound."""
        async with self._db.writing() as connection:
            where = and_(uploads.c.id == id, uploads.c.tenant == tenant, *self._alive())
            ended = await _end(connection, where, at=self._clock.now())
        if not ended:
            raise _no_file(id)
        await self._blob_storage.sweep()

    async def reap(self) -> int:
        """End what has expired and forget what ended long ago; how many expired."""
        now = self._clock.now()
        due = and_(uploads.c.expires_at <= now, uploads.c.ended_at.is_(None))
        forgotten = uploads.c.ended_at < now - CURSOR_SECONDS * MICROSECONDS
        async with self._db.reading() as connection:
            if (await connection.execute(select(uploads.c.id).where(or_(due, forgotten)).limit(1))).first() is None:
                return 0
        async with self._db.writing() as connection:
            await connection.execute(delete(uploads).where(forgotten))
            ended = await _end(connection, due, at=now)
        if ended:
            self._blob_storage.nudge()
        return ended

    async def _reap_for_ever(self) -> None:
        while True:
            try:
                await self.reap()
                self.trouble = None
            except Exception as error:  # noqa: BLE001 - a full disk or a fault of ours must not end the gateway
                # Expired files are hidden whether or not they are removed; the next round tries again.
                self.trouble = str(error)
            await anyio.sleep(REAP_EVERY)

    def _alive(self) -> tuple[ColumnElement[bool], ...]:
        never = uploads.c.expires_at.is_(None)
        return uploads.c.ended_at.is_(None), or_(never, uploads.c.expires_at > self._clock.now())


async def _end(connection: AsyncConnection, where: ColumnElement[bool], *, at: int) -> int:
    """Doom the bytes, keep the row for cursors, without what it said of its content."""
    await doom(connection, select(uploads.c.blob).where(where, uploads.c.blob.is_not(None)))
    spent = update(uploads).where(where).values(ended_at=at, filename="", content_type=None, sha256="", blob=None)
    return (await connection.execute(spent)).rowcount


def _no_file(id: str) -> NotFound:
    return NotFound(
        f"There is no file {id}. List files to see those that there are.", param="id", code="file_not_found"
    )

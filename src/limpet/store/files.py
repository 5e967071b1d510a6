"""What is known of the files in containers. Their bytes are in the boxes' directories or in blob storage."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from limpet.store.blob_records import doom, keep
from limpet.store.database import Database
from limpet.store.quotas import check_added_bytes, check_files, hold_tenant
from limpet.store.records import Order, Page, columns_of, read_page, record_of
from limpet.store.settings import NO_QUOTA, QuotaSettings
from limpet.store.tables import blobs
from limpet.store.tables import container_files as files

# Fewer than any dialect allows in one statement.
AT_ONCE = 500
FileSource = Literal["user", "assistant"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerFileRecord:
    """One file of a container. `bytes` is its size; `source` user or assistant; `created_at` in microseconds UTC; `modified`,
    `identity` and `changed` as in `core.ports.FileStat` (nanoseconds); `too_large` says that it is listed and not kept;
    `response_id` is the response that wrote it, `exec_id` the command after which that was seen; `blob` its copy in blob
    storage, None where only the box's directory has its bytes; `number` is 0 until it is stored."""

    id: str
    tenant: str
    number: int = 0
    container_id: str
    path: str
    bytes: int
    sha256: str
    content_type: str | None = None
    source: FileSource
    created_at: int
    modified: int
    identity: int = 0
    changed: int = 0
    too_large: bool = False
    response_id: str | None = None
    exec_id: str | None = None
    blob: str | None = None


class ContainerFiles:
    """The table of container files. Each call is one transaction, committed when it returns; StoreFailed where it cannot be."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def upsert(self, record: ContainerFileRecord, *, quota: QuotaSettings = NO_QUOTA) -> ContainerFileRecord:
        """Store it as the file at its path, and give back what is stored now: a path that was there keeps its id, its number and
        the time of its creation; the rest is the record's. A blob that is new in it is kept from now on, one that it replaces is
        doomed: call this within `Vault.put`. Raises QuotaExceeded, and nothing changed, where its tenant or its container would have
        more than `quota`."""
        where = (files.c.container_id == record.container_id, files.c.path == record.path)
        query = select(files.c.id, files.c.number, files.c.created_at, files.c.blob).where(*where)
        async with self._db.writing() as connection:
            await connection.run_sync(_hold, record.tenant, quota)
            before = (await connection.execute(query)).one_or_none()
            if record.blob is not None:
                await keep(connection, record.blob)
            if before is not None and before.blob is not None and before.blob != record.blob:
                await doom(connection, before.blob)
            if before is not None:
                kept = replace(record, id=before.id, number=before.number, created_at=before.created_at)
                await connection.execute(update(files).where(files.c.id == kept.id).values(columns_of(kept)))
            else:
                added = insert(files).values(columns_of(record)).returning(files.c.number)
                kept = replace(record, number=(await connection.execute(added)).scalar_one())
                await connection.run_sync(check_files, record.container_id, quota)
            await check_added_bytes(connection, record.tenant, quota, added=record.bytes)
            return kept

    async def upsert_all(self, records: Sequence[ContainerFileRecord]) -> list[ContainerFileRecord]:
        """The same for many files of one container without new blobs, each path once, all in one transaction; in their order."""
        return await self._db.write(lambda connection: _upsert_all(connection, records)) if records else []

    async def attach(self, record: ContainerFileRecord, blob: str) -> bool:
        """Keep the blob as the copy of that file. False, and nothing is kept, if the file has another content by now, or a copy."""
        same = (files.c.id == record.id, files.c.sha256 == record.sha256, files.c.blob.is_(None))
        async with self._db.writing() as connection:
            if (await connection.execute(update(files).where(*same).values(blob=blob))).rowcount == 0:
                return False
            await keep(connection, blob)
            return True

    async def get(self, tenant: str, container_id: str, file_id: str) -> ContainerFileRecord | None:
        where = (files.c.id == file_id, files.c.container_id == container_id, files.c.tenant == tenant)
        async with self._db.reading() as connection:
            row = (await connection.execute(select(files).where(*where))).one_or_none()
        return None if row is None else record_of(ContainerFileRecord, row)

    async def of_container(self, container_id: str) -> list[ContainerFileRecord]:
        """All of them, in the order in which they were first seen."""
        query = select(files).where(files.c.container_id == container_id).order_by(files.c.number)
        return await self._db.read(
            lambda connection: [record_of(ContainerFileRecord, row) for row in connection.execute(query)]
        )

    async def delete(self, container_id: str, file_id: str) -> bool:
        """False if there is no such file."""
        return await self._delete(files.c.container_id == container_id, files.c.id == file_id) > 0

    async def delete_paths(self, container_id: str, paths: Collection[str]) -> int:
        """Remove those of these paths that are known; how many there were."""
        wanted = list(paths)
        gone = 0
        for start in range(0, len(wanted), AT_ONCE):
            some = files.c.path.in_(wanted[start : start + AT_ONCE])
            gone += await self._delete(files.c.container_id == container_id, some)
        return gone

    async def clear(self, container_id: str) -> int:
        """Remove all of a container; how many there were."""
        return await self._delete(files.c.container_id == container_id)

    async def _delete(self, *where: ColumnElement[bool]) -> int:
        async with self._db.writing() as connection:
            await doom(connection, select(files.c.blob).where(*where, files.c.blob.is_not(None)))
            return (await connection.execute(delete(files).where(*where))).rowcount

    async def list(
        self, tenant: str, container_id: str, *, limit: int, after: str | None = None, order: Order = "desc"
    ) -> Page[ContainerFileRecord]:
        """A page in the order in which they were first seen. An `after` that is not among them raises RequestInvalid."""
        these = (files.c.container_id == container_id) & (files.c.tenant == tenant)
        async with self._db.reading() as connection:
            return await read_page(
                connection,
                files,
                these,
                kind=ContainerFileRecord,
                limit=limit,
                after=after,
                order=order,
                cursor_in=these,
            )


def _hold(connection: Connection, tenant: str, quota: QuotaSettings) -> None:
    if quota.max_bytes is not None or quota.max_files_per_container is not None:
        hold_tenant(connection, tenant)


def _upsert_all(connection: Connection, records: Sequence[ContainerFileRecord]) -> list[ContainerFileRecord]:
    columns = (files.c.path, files.c.id, files.c.number, files.c.created_at, files.c.blob)
    before: dict[str, Any] = {}
    for start in range(0, len(records), AT_ONCE):
        paths = [record.path for record in records[start : start + AT_ONCE]]
        query = select(*columns).where(files.c.container_id == records[0].container_id, files.c.path.in_(paths))
        before |= {row.path: row for row in connection.execute(query)}
    fresh = [record for record in records if record.path not in before]
    numbers: dict[str, int] = {}
    if fresh:
        added = insert(files).returning(files.c.number, sort_by_parameter_order=True)
        found = connection.execute(added, [columns_of(record) for record in fresh]).scalars()
        numbers = dict(zip((record.path for record in fresh), found, strict=True))
    stored = []
    for record in records:
        was = before.get(record.path)
        if was is None:
            stored.append(replace(record, number=numbers[record.path]))
            continue
        if was.blob is not None and was.blob != record.blob:
            connection.execute(update(blobs).where(blobs.c.id == was.blob).values(state="doomed"))
        kept = replace(record, id=was.id, number=was.number, created_at=was.created_at)
        connection.execute(update(files).where(files.c.id == kept.id).values(columns_of(kept)))
        stored.append(kept)
    return stored

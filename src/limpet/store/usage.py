"""How much is stored, by one tenant or in all: counted from the rows, for quotas and for the operator."""

from dataclasses import dataclass

from sqlalchemy import func, select

from limpet.store.blob_locations import backend_of, from_text
from limpet.store.database import Database
from limpet.store.quotas import bytes_of, containers_of
from limpet.store.tables import blobs, container_files, containers


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageUse:
    """`bytes` of uploads, skills and the files of running containers; `containers` that count for its quota."""

    bytes: int
    containers: int


async def used_by(db: Database, tenant: str) -> StorageUse:
    """What a tenant has now. StoreFailed."""
    query = select(bytes_of(tenant).scalar_subquery(), containers_of(tenant).scalar_subquery())
    async with db.reading() as connection:
        row = (await connection.execute(query)).one()
    return StorageUse(bytes=int(row[0]), containers=int(row[1]))


async def stored_bytes(db: Database) -> dict[tuple[str, str], int]:
    """The bytes of all tenants by area (files, container_files) and backend (filesystem, database, s3). A captured file that has a
    copy elsewhere counts in both places. StoreFailed."""
    kept = select(blobs.c.area, blobs.c.place, func.sum(blobs.c.bytes)).where(blobs.c.state == "kept")
    lying = (
        select(func.coalesce(func.sum(container_files.c.bytes), 0))
        .join(containers, containers.c.id == container_files.c.container_id)
        .where(containers.c.status == "running")
    )
    async with db.reading() as connection:
        sums = (await connection.execute(kept.group_by(blobs.c.area, blobs.c.place))).all()
        beside_boxes = int((await connection.execute(lying)).scalar_one())
    stored = {("files", "filesystem"): 0, ("container_files", "filesystem"): beside_boxes}
    for area, place, size in sums:
        key = (area, backend_of(from_text(place)))
        stored[key] = stored.get(key, 0) + int(size)
    return stored

"""How much a tenant keeps: counted from the rows, for quotas and for the operator."""

from dataclasses import dataclass

from sqlalchemy import func, select

from limpet.store.database import Database
from limpet.store.tables import blobs, container_files, containers


@dataclass(frozen=True, kw_only=True, slots=True)
class Used:
    """`bytes` of uploads, skills and the files of running containers; `containers` that are running."""

    bytes: int
    containers: int


async def used_by(db: Database, tenant: str) -> Used:
    """What a tenant has now. StoreFailed."""
    kept = select(func.coalesce(func.sum(blobs.c.bytes), 0)).where(blobs.c.tenant == tenant, blobs.c.state == "kept")
    # A file that has a copy is counted by that.
    lying = (
        select(func.coalesce(func.sum(container_files.c.bytes), 0))
        .join(containers, containers.c.id == container_files.c.container_id)
        .where(container_files.c.tenant == tenant, container_files.c.blob.is_(None), containers.c.status == "running")
    )
    running = select(func.count()).where(containers.c.tenant == tenant, containers.c.status == "running")
    query = select(kept.scalar_subquery() + lying.scalar_subquery(), running.scalar_subquery())
    async with db.reading() as connection:
        row = (await connection.execute(query)).one()
    return Used(bytes=int(row[0]), containers=int(row[1]))

"""Quotas of a tenant, decided in the transaction that uses them up: of any number of requests at once no one too many is let in.

`hold_tenant` makes the transactions of one tenant wait for each other. On SQLite they do so anyway, since there is one writer; on
databases with row locks the tenant's row of `counters` is the lock, until the transaction ends. What is counted is counted behind it.
"""

from sqlalchemy import Connection, Select, bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from limpet.core.errors import QuotaExceeded
from limpet.store.columns import Text
from limpet.store.settings import QuotaSettings
from limpet.store.tables import blobs, container_files, containers

LOCK = "quota"
# Understood alike by SQLite (3.24) and PostgreSQL; the value is of no use but to be written.
_HOLD = text(
    "INSERT INTO counters (tenant, name, value) VALUES (:tenant, :name, 0) "
    "ON CONFLICT (tenant, name) DO UPDATE SET value = counters.value + 1"
).bindparams(bindparam("tenant", type_=Text), bindparam("name", type_=Text))


def bytes_of(tenant: str) -> Select[int]:
    """A query for the bytes that a tenant keeps."""
    kept = select(func.coalesce(func.sum(blobs.c.bytes), 0)).where(blobs.c.tenant == tenant, blobs.c.state == "kept")
    # A file that has a copy is counted by that.
    lying = (
        select(func.coalesce(func.sum(container_files.c.bytes), 0))
        .join(containers, containers.c.id == container_files.c.container_id)
        .where(container_files.c.tenant == tenant, container_files.c.blob.is_(None), containers.c.status == "running")
    )
    return select(kept.scalar_subquery() + lying.scalar_subquery())


def containers_of(tenant: str) -> Select[int]:
    """A query for the containers of a tenant that count."""
    counts = containers.c.boot_id.is_not(None) | containers.c.source_response_id.is_(None)
    return select(func.count()).where(containers.c.tenant == tenant, containers.c.status == "running", counts)


def hold_tenant(connection: Connection, tenant: str) -> None:
    """Wait until no other transaction holds this tenant's quotas, and hold them until this one ends. Before anything is counted."""
    hold(connection, tenant, LOCK)


def hold(connection: Connection, tenant: str, name: str) -> None:
    """The same for any other thing of a tenant, by a name of its own."""
    connection.execute(_HOLD, {"tenant": tenant, "name": name})


def check_containers(connection: Connection, tenant: str, quota: QuotaSettings) -> None:
    """After the row was written. Raises QuotaExceeded, which undoes the transaction. Call `hold_tenant` first."""
    if (most := quota.max_containers) is None:
        return
    count = int(connection.execute(containers_of(tenant)).scalar_one())
    if count > most:
        raise QuotaExceeded("containers", used=count - 1, limit=most)


def check_bytes(connection: Connection, tenant: str, quota: QuotaSettings, *, added: int) -> None:
    """After `added` bytes were recorded as kept. As `check_containers`. Raises QuotaExceeded."""
    if (most := quota.max_bytes) is None:
        return
    used = int(connection.execute(bytes_of(tenant)).scalar_one())
    if used > most:
        raise QuotaExceeded("bytes", used=max(0, used - added), limit=most)


def check_files(connection: Connection, container_id: str, quota: QuotaSettings) -> None:
    """After one file more was recorded. As `check_containers`. Raises QuotaExceeded."""
    if (most := quota.max_files_per_container) is None:
        return
    query = select(func.count()).where(container_files.c.container_id == container_id)
    count = int(connection.execute(query).scalar_one())
    if count > most:
        raise QuotaExceeded("files in this container", used=count - 1, limit=most)


async def hold_for_bytes(connection: AsyncConnection, tenant: str, quota: QuotaSettings) -> None:
    """`hold_tenant`, where bytes have a quota."""
    if quota.max_bytes is not None:
        await connection.run_sync(hold_tenant, tenant)


async def check_added_bytes(connection: AsyncConnection, tenant: str, quota: QuotaSettings, *, added: int) -> None:
    """`check_bytes`, after `hold_for_bytes`."""
    await connection.run_sync(lambda sync: check_bytes(sync, tenant, quota, added=added))

"""Which tenant made which container of a provider: all tenants share the provider's account there, and each sees its own."""

from collections.abc import Iterable

from sqlalchemy import bindparam, select, text

from limpet.core.clock import Clock
from limpet.store.columns import Text
from limpet.store.database import Database
from limpet.store.tables import provider_containers

# Understood alike by SQLite (3.24) and PostgreSQL.
_ADD = text(
    f"INSERT INTO {provider_containers.name} (tenant, container_id, created_at) VALUES (:tenant, :container_id, :created_at) "
    "ON CONFLICT (container_id) DO NOTHING"
).bindparams(bindparam("tenant", type_=Text), bindparam("container_id", type_=Text))


class ProviderContainers:
    """The table of them. Each call is one transaction; StoreFailed where it cannot be."""

    def __init__(self, db: Database, *, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def add(self, tenant: str, container_id: str) -> None:
        """It came out of a request of that tenant. The first tenant is the one that keeps it."""
        values = {"tenant": tenant, "container_id": container_id, "created_at": self._clock.now()}
        await self._db.write(lambda connection: connection.execute(_ADD, values))

    async def owned(self, tenant: str, container_ids: Iterable[str]) -> frozenset[str]:
        """Those of the ids that are that tenant's."""
        table = provider_containers.c
        query = select(table.container_id).where(table.tenant == tenant, table.container_id.in_(list(container_ids)))
        rows = await self._db.read(lambda connection: connection.execute(query).all())
        return frozenset(row.container_id for row in rows)

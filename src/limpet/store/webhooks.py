"""Endpoints that are told of events, and the deliveries that they are owed. A delivery is written down with what it tells of."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from limpet.core import ids
from limpet.store.database import Database
from limpet.store.records import Page, columns_of, read_page, record_of
from limpet.store.tables import webhook_deliveries, webhook_endpoints


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookEndpointRecord:
    """`secret` and `old_secret` are sealed; the old one signs too until `old_until`. Times in microseconds UTC."""

    id: str
    tenant: str
    number: int = 0
    name: str
    url: str
    event_types: list[str]
    secret: bytes
    old_secret: bytes | None = None
    old_until: int | None = None
    created_at: int
    updated_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookDeliveryRecord:
    """One event for one endpoint. `event_id` is the same for all endpoints; `attempts` were made, the next one is due at `next_at`."""

    id: str
    tenant: str
    number: int = 0
    endpoint_id: str
    event_id: str
    type: str
    subject: str
    created_at: int
    attempts: int
    next_at: int


def enqueue_event(connection: Connection, tenant: str, type: str, subject: str, *, at: int) -> None:
    """Owe an event to each of the tenant's endpoints that wants it, in the transaction of what it tells of."""
    query = select(webhook_endpoints.c.id, webhook_endpoints.c.event_types).where(webhook_endpoints.c.tenant == tenant)
    wanted = [row.id for row in connection.execute(query) if type in row.event_types]
    event_id = ids.new_id(ids.EVENT)
    for endpoint_id in wanted:
        record = WebhookDeliveryRecord(
            id=ids.new_id(ids.DELIVERY),
            tenant=tenant,
            endpoint_id=endpoint_id,
            event_id=event_id,
            type=type,
            subject=subject,
            created_at=at,
            attempts=0,
            next_at=at,
        )
        connection.execute(insert(webhook_deliveries).values(columns_of(record)))


class Webhooks:
    """Both tables. Each call is one transaction, committed when it returns; StoreFailed where it cannot be."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def insert(self, record: WebhookEndpointRecord) -> None:
        await self._db.write(
            lambda connection: connection.execute(insert(webhook_endpoints).values(columns_of(record)))
        )

    async def count(self, tenant: str) -> int:
        query = select(func.count()).select_from(webhook_endpoints).where(webhook_endpoints.c.tenant == tenant)
        return await self._db.read(lambda connection: int(connection.execute(query).scalar_one()))

    async def get(self, tenant: str, id: str) -> WebhookEndpointRecord | None:
        query = select(webhook_endpoints).where(webhook_endpoints.c.id == id, webhook_endpoints.c.tenant == tenant)
        row = await self._db.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else record_of(WebhookEndpointRecord, row)

    async def page(self, tenant: str, *, limit: int, after: str | None) -> Page[WebhookEndpointRecord]:
        """The newest first. RequestInvalid for an `after` that is not there."""
        mine = webhook_endpoints.c.tenant == tenant
        async with self._db.reading() as connection:
            return await read_page(
                connection,
                webhook_endpoints,
                mine,
                kind=WebhookEndpointRecord,
                limit=limit,
                after=after,
                order="desc",
                cursor_in=mine,
            )

    async def update(self, tenant: str, id: str, **changed: Any) -> None:
        query = update(webhook_endpoints).where(webhook_endpoints.c.id == id, webhook_endpoints.c.tenant == tenant)
        await self._db.write(lambda connection: connection.execute(query.values(**changed)))

    async def delete(self, tenant: str, id: str) -> bool:
        """With what it is owed. False if that tenant has none of that id."""

        def remove(connection: Connection) -> bool:
            mine = delete(webhook_endpoints).where(webhook_endpoints.c.id == id, webhook_endpoints.c.tenant == tenant)
            connection.execute(
                delete(webhook_deliveries).where(
                    webhook_deliveries.c.endpoint_id == id, webhook_deliveries.c.tenant == tenant
                )
            )
            return connection.execute(mine).rowcount > 0

        return await self._db.write(remove)

    async def claim_due(
        self, *, now: int, until: int, limit: int, busy: Collection[str], busy_tenants: Collection[str] = ()
    ) -> list[WebhookDeliveryRecord]:
        """Some that are due, none of a `busy` endpoint or tenant, the longest due first. They are due again at `until`, in case this
        process ends; of several processes one gets each."""
        table = webhook_deliveries.c
        due = (
            select(table.id)
            .where(_is_due(now, busy, busy_tenants))
            .order_by(table.next_at)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        claim = (
            update(webhook_deliveries)
            .where(table.id.in_(due))
            .values(next_at=until, attempts=table.attempts + 1)
            .returning(webhook_deliveries)
        )
        rows = await self._db.write(lambda connection: connection.execute(claim).all())
        return [record_of(WebhookDeliveryRecord, row) for row in rows]

    async def any_due(self, *, now: int, busy: Collection[str], busy_tenants: Collection[str] = ()) -> bool:
        query = select(webhook_deliveries.c.id).where(_is_due(now, busy, busy_tenants)).limit(1)
        return await self._db.read(lambda connection: connection.execute(query).first() is not None)

    async def put_off(self, id: str, *, until: int) -> None:
        query = update(webhook_deliveries).where(webhook_deliveries.c.id == id).values(next_at=until)
        await self._db.write(lambda connection: connection.execute(query))

    async def settle(self, id: str) -> None:
        """It was delivered, or is given up."""
        query = delete(webhook_deliveries).where(webhook_deliveries.c.id == id)
        await self._db.write(lambda connection: connection.execute(query))


def _is_due(now: int, busy: Collection[str], busy_tenants: Collection[str]) -> ColumnElement[bool]:
    table = webhook_deliveries.c
    return and_(table.next_at <= now, table.endpoint_id.not_in(busy), table.tenant.not_in(busy_tenants))

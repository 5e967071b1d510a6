"""What the responses of a tenant have used up: counted where each of them ends, summed by the hour, kept when they are deleted."""

from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, text

from limpet.core.clock import MICROSECONDS
from limpet.store.columns import Text
from limpet.store.database import Database
from limpet.store.tables import usage_hours

HOUR = 3600 * MICROSECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageCounts:
    """`wall_us` is in microseconds; `cached_tokens` are among `input_tokens`."""

    responses: int = 0
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    wall_us: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRecord:
    """What a response has used up until `at`, microseconds UTC; or the sum of many, where `at` is the beginning of their hour."""

    tenant: str
    model: str
    at: int
    counts: UsageCounts


_NAMES = tuple(field.name for field in fields(UsageCounts))
# Understood alike by SQLite (3.24) and PostgreSQL.
_ADD = text(
    f"INSERT INTO {usage_hours.name} (tenant, hour, model, {', '.join(_NAMES)}) "
    f"VALUES (:tenant, :hour, :model, {', '.join(f':{name}' for name in _NAMES)}) "
    "ON CONFLICT (tenant, hour, model) DO UPDATE SET "
    + ", ".join(f"{name} = {usage_hours.name}.{name} + excluded.{name}" for name in _NAMES)
).bindparams(bindparam("tenant", type_=Text), bindparam("model", type_=Text))


def count_usage(connection: Connection, record: UsageRecord) -> None:
    """In the transaction that ends the response: it is counted once, however often an end is tried."""
    values: dict[str, Any] = {name: getattr(record.counts, name) for name in _NAMES}
    connection.execute(_ADD, {"tenant": record.tenant, "hour": _hour(record.at), "model": record.model, **values})


class ModelUsage:
    """The table of usage. Each call is one transaction; StoreFailed where it cannot be."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def count(self, record: UsageRecord) -> None:
        """Of a response that has no row, or loses it."""
        await self._db.write(lambda connection: count_usage(connection, record))

    async def total(self, tenant: str, *, since: int) -> UsageCounts:
        """What a tenant has used up from the hour of `since` on, microseconds UTC."""
        sums = [func.coalesce(func.sum(usage_hours.c[name]), 0) for name in _NAMES]
        query = select(*sums).where(usage_hours.c.tenant == tenant, usage_hours.c.hour >= _hour(since))
        row = await self._db.read(lambda connection: connection.execute(query).one())
        return UsageCounts(**{name: int(value) for name, value in zip(_NAMES, row, strict=True)})

    async def hours(self, tenant: str, *, since: int, until: int) -> list[UsageRecord]:
        """By hour and model, the oldest first: the hours that begin from `since` on and before `until`, microseconds UTC."""
        table = usage_hours.c
        query = (
            select(usage_hours)
            .where(table.tenant == tenant, table.hour >= since, table.hour < until)
            .order_by(table.hour, table.model)
        )
        rows = await self._db.read(lambda connection: connection.execute(query).all())
        return [
            UsageRecord(
                tenant=row.tenant,
                model=row.model,
                at=row.hour,
                counts=UsageCounts(**{name: getattr(row, name) for name in _NAMES}),
            )
            for row in rows
        ]


def _hour(at: int) -> int:
    return at - at % HOUR

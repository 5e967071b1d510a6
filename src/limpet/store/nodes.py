"""The gateways on one database: where the others reach each of them, and when it was last alive. By their homes: of one home there is one
gateway at a time.

Times are kept by the database's clock, in microseconds UTC.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, inspect, select, text, update

from limpet.core.clock import MICROSECONDS
from limpet.store.database import Database
from limpet.store.tables import nodes

TENANT = "default"  # they are every tenant's


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRecord:
    """A gateway. `address` is None where others cannot reach it; `silent` is in seconds, since it was last alive."""

    home: str
    address: str | None
    silent: float


class Nodes:
    """The table of nodes. Each call is one transaction, committed when it returns; StoreFailed where it cannot be."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @property
    def is_shared(self) -> bool:
        """Whether there can be others."""
        return self._db.is_shared

    async def announce(self, home: str, *, address: str | None, at: int) -> None:
        """It is alive, and there."""
        values = {"address": address, "seen_at": at + self._db.clock_offset}

        def work(connection: Connection) -> None:
            changed = connection.execute(update(nodes).where(nodes.c.home == home).values(values))
            if not changed.rowcount:
                connection.execute(insert(nodes).values(home=home, tenant=TENANT, **values))

        await self._db.write(work)

    async def get(self, home: str, *, now: int) -> NodeRecord | None:
        """None where there never was one of that home, or of an older version."""
        found = [record for record in await self.all(now=now) if record.home == home]
        return found[0] if found else None

    async def all(self, *, now: int) -> Sequence[NodeRecord]:
        """Also those that are no more."""
        rows = await self._db.read(lambda connection: connection.execute(select(nodes)).all())
        now += self._db.clock_offset
        return [
            NodeRecord(home=row.home, address=row.address, silent=max(0, now - row.seen_at) / MICROSECONDS)
            for row in rows
        ]

    async def read_clock(self) -> None:
        """Compare this machine's clock with the database's again."""
        await self._db.read_clock()


def alive_in(connection: Connection, *, within: float) -> list[str]:
    """The homes of the gateways that share this database of PostgreSQL and were alive within so many seconds."""
    if not inspect(connection).has_table(nodes.name):
        return []
    since = text("(extract(epoch FROM clock_timestamp()) - :within) * 1000000")
    query = select(nodes.c.home).where(nodes.c.seen_at > since).order_by(nodes.c.home)
    return list(connection.execute(query, {"within": within}).scalars())


def hold_gone(connection: Connection, home: str, *, silence: float) -> bool:
    """Whether the gateway of that home was silent for so many seconds, by the clock of PostgreSQL, in a transaction that writes: until it
    ends that gateway cannot say that it is alive."""
    since = text("(extract(epoch FROM clock_timestamp()) - :silence) * 1000000")
    held = connection.execute(select(nodes.c.seen_at).where(nodes.c.home == home).with_for_update()).one_or_none()
    query = select(nodes.c.home).where(nodes.c.home == home, nodes.c.seen_at <= since)
    return held is not None and connection.execute(query, {"silence": silence}).one_or_none() is not None

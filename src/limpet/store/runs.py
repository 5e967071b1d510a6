"""Who carries a response now: an owner, an epoch that grows whenever another takes over, and a heartbeat.

The fence stands where it cannot be passed: each batch of the journal checks in its own transaction that the epoch it was written under
is the newest (`store/journal.py`). A process that slept while another took its runs over appends nothing more.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlalchemy import select, update

from limpet.store.database import Database
from limpet.store.responses import FIRST_EPOCH, UNFINISHED
from limpet.store.tables import responses, runs

__all__ = ["FIRST_EPOCH", "RunClaim", "Runs"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunClaim:
    """A run that this process carries: until another process claims it, its journal takes entries under this epoch. `checkpoint` is what
    the last carrier left, None where it left nothing; `sealed` are the run's secrets."""

    response_id: str
    tenant: str
    epoch: int
    checkpoint: bytes | None
    sealed: bytes | None = field(default=None, repr=False)


class Runs:
    """The table of runs. Each call is one transaction, committed when it returns; StoreFailed where it cannot be."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def beat(self, response_ids: Collection[str], *, owner: str, at: int) -> None:
        """A heartbeat for these, as far as they are the owner's; `at` in microseconds UTC."""
        query = update(runs).where(runs.c.response_id.in_(response_ids), runs.c.owner == owner).values(heartbeat_at=at)
        await self._db.write(lambda connection: connection.execute(query))

    async def take_over(self, owner: str, *, silent_since: int, at: int) -> list[RunClaim]:
        """Claim the unfinished runs of other owners without a heartbeat after `silent_since`, the oldest response first. Of two
        processes that try, one gets a run. Times in microseconds UTC."""
        unfinished = runs.c.response_id.in_(select(responses.c.id).where(responses.c.status.in_(UNFINISHED)))
        silent = unfinished & (runs.c.owner != owner) & (runs.c.heartbeat_at <= silent_since)
        # One that another process writes to or claims at this moment is its; where there are row locks, waiting for them could take long.
        free = select(runs.c.response_id).where(silent).order_by(runs.c.response_id).with_for_update(skip_locked=True)
        claim = (
            update(runs)
            .where(silent, runs.c.response_id.in_(free))
            .values(owner=owner, epoch=runs.c.epoch + 1, heartbeat_at=at)
            .returning(runs.c.response_id, runs.c.tenant, runs.c.epoch, runs.c.checkpoint, runs.c.sealed)
        )
        rows = await self._db.write(lambda connection: connection.execute(claim).all())
        claims = {row.response_id: RunClaim(**row._mapping) for row in rows}
        order = select(responses.c.id).where(responses.c.id.in_(claims)).order_by(responses.c.number)
        if len(claims) < 2:
            return list(claims.values())
        ids = await self._db.read(lambda connection: connection.execute(order).scalars().all())
        return [claims[id] for id in ids]

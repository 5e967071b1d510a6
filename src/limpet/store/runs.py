"""Who carries a response now: an owner, an epoch that grows whenever another takes over, and a heartbeat.

An owner's name begins with its home's id: of one home there is one process at a time. Times are this machine's, in microseconds UTC;
where machines share a database they are kept by the database's clock.

The fence stands where it cannot be passed: each batch of the journal checks in its own transaction that the epoch it was written under
is the newest (`store/journal.py`). A process that slept while another took its runs over appends nothing more.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlalchemy import select, update

from limpet.core.clock import MICROSECONDS
from limpet.store.database import Database
from limpet.store.responses import FIRST_EPOCH, UNFINISHED
from limpet.store.tables import responses, runs

LATEST = 2**63 - 1  # of all times
__all__ = ["FIRST_EPOCH", "LATEST", "RunClaim", "Runs"]


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

    @property
    def is_shared(self) -> bool:
        """Whether processes of other homes may carry runs too."""
        return self._db.is_shared

    async def beat(self, response_ids: Collection[str], *, owner: str, at: int) -> None:
        """A heartbeat for these, as far as they are the owner's."""
        mine = (runs.c.response_id.in_(response_ids), runs.c.owner == owner)
        query = update(runs).where(*mine).values(heartbeat_at=at + self._db.clock_offset)
        await self._db.write(lambda connection: connection.execute(query))

    async def lost(self, response_ids: Collection[str], *, owner: str) -> list[str]:
        """Those of these that another owner has taken over."""
        query = select(runs.c.response_id).where(runs.c.response_id.in_(response_ids), runs.c.owner != owner)
        return await self._db.read(lambda connection: list(connection.execute(query).scalars()))

    async def take_over(
        self, owner: str, *, silent_since: int, at: int, predecessors: str | None = None
    ) -> list[RunClaim]:
        """Claim the unfinished runs of other owners without a heartbeat after `silent_since`, and all of those whose owner's name begins
        with `predecessors`; the oldest response first. Of two processes that try, one gets a run."""
        offset = self._db.clock_offset
        unfinished = runs.c.response_id.in_(select(responses.c.id).where(responses.c.status.in_(UNFINISHED)))
        due = runs.c.heartbeat_at <= min(silent_since + offset, LATEST)
        if predecessors is not None:
            due |= runs.c.owner.startswith(predecessors, autoescape=True)
        silent = unfinished & (runs.c.owner != owner) & due
        # One that another process writes to or claims at this moment is its; where there are row locks, waiting for them could take long.
        free = select(runs.c.response_id).where(silent).order_by(runs.c.response_id).with_for_update(skip_locked=True)
        claim = (
            update(runs)
            .where(silent, runs.c.response_id.in_(free))
            .values(owner=owner, epoch=runs.c.epoch + 1, heartbeat_at=at + offset)
            .returning(runs.c.response_id, runs.c.tenant, runs.c.epoch, runs.c.checkpoint, runs.c.sealed)
        )
        rows = await self._db.write(lambda connection: connection.execute(claim).all())
        claims = {row.response_id: RunClaim(**row._mapping) for row in rows}
        order = select(responses.c.id).where(responses.c.id.in_(claims)).order_by(responses.c.number)
        if len(claims) < 2:
            return list(claims.values())
        ids = await self._db.read(lambda connection: connection.execute(order).scalars().all())
        return [claims[id] for id in ids]

    async def ask_to_cancel(self, response_id: str, *, at: int) -> bool:
        """Have its carrier cancel it, this one or the next. False where it is no unfinished run."""
        unfinished = select(responses.c.id).where(responses.c.id == response_id, responses.c.status.in_(UNFINISHED))
        query = update(runs).where(runs.c.response_id.in_(unfinished)).values(cancel_at=at)
        return await self._db.write(lambda connection: connection.execute(query).rowcount > 0)

    async def to_cancel(self, owner: str) -> list[str]:
        """Those of an owner's unfinished runs that another process wants cancelled."""
        asked = (runs.c.owner == owner, runs.c.cancel_at.is_not(None), responses.c.status.in_(UNFINISHED))
        query = select(runs.c.response_id).join(responses, responses.c.id == runs.c.response_id).where(*asked)
        return await self._db.read(lambda connection: list(connection.execute(query).scalars()))

    async def note_read(self, response_id: str, *, at: int) -> None:
        """A client reads it at this process, which does not carry it; `at` in microseconds UTC."""
        query = update(runs).where(runs.c.response_id == response_id).values(read_at=at + self._db.clock_offset)
        await self._db.write(lambda connection: connection.execute(query))

    async def seconds_since_read(self, response_id: str, *, now: int) -> float | None:
        """Since it was last read at another process than its carrier; None if it never was."""
        query = select(runs.c.read_at).where(runs.c.response_id == response_id)
        at = await self._db.read(lambda connection: connection.execute(query).scalar_one_or_none())
        return None if at is None else max(0, now + self._db.clock_offset - at) / MICROSECONDS

    async def is_unfinished(self, response_id: str) -> bool:
        """Whether it is a stored response that is queued or in progress, wherever it is carried."""
        query = select(responses.c.id).where(responses.c.id == response_id, responses.c.status.in_(UNFINISHED))
        return await self._db.read(lambda connection: connection.execute(query).first() is not None)

    async def read_clock(self) -> None:
        """Compare this machine's clock with the database's again."""
        await self._db.read_clock()

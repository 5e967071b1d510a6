"""The responses that are stored, without their events: those are in the journal."""

from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from sqlalchemy import delete, insert, select, update

from limpet.core.events import RESPONSE_MOVES, move
from limpet.store.database import Database
from limpet.store.records import columns_of, record_of
from limpet.store.tables import executions, journal, responses

UNFINISHED = ("queued", "in_progress")


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseRecord:
    """One response. Times in microseconds UTC; `owner` names the process that carries it; `number` is 0 until it is stored."""

    id: str
    tenant: str
    number: int = 0
    status: str
    model: str
    provider: str
    container_id: str | None = None
    previous_response_id: str | None = None
    background: bool = False
    created_at: int
    completed_at: int | None = None
    owner: str
    request: dict[str, Any]
    input: list[dict[str, Any]]
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class ResponseChanges(TypedDict, total=False):
    """What may change while a response lives."""

    status: str
    model: str
    provider: str
    container_id: str | None
    completed_at: int | None
    owner: str
    request: dict[str, Any]
    input: list[dict[str, Any]]
    usage: dict[str, Any] | None
    error: dict[str, Any] | None


class Responses:
    """The table of responses. Each call is one transaction, committed when it returns; StoreFailed where it cannot be."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def insert(self, record: ResponseRecord) -> ResponseRecord:
        """Store a new one; comes back with its number."""
        query = insert(responses).values(columns_of(record)).returning(responses.c.number)
        number = await self._db.write(lambda connection: connection.execute(query).scalar_one())
        return replace(record, number=number)

    async def get(self, tenant: str, id: str) -> ResponseRecord | None:
        query = select(responses).where(responses.c.id == id, responses.c.tenant == tenant)
        row = await self._db.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else record_of(ResponseRecord, row)

    async def finish(
        self,
        id: str,
        *,
        status: str,
        completed_at: int,
        usage: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
    ) -> bool:
        """End it. False, and nothing changed, when the table of moves has no way from its status to this one: it had ended
        already, or is not there. So of two ends the first one holds."""
        may_end = [before for before, after in RESPONSE_MOVES.items() if status in after]
        query = (
            update(responses)
            .where(responses.c.id == id, responses.c.status.in_(may_end))
            .values(status=status, completed_at=completed_at, usage=usage, error=error)
        )
        return await self._db.write(lambda connection: connection.execute(query).rowcount > 0)

    async def update(self, id: str, **changed: Unpack[ResponseChanges]) -> bool:
        """Change some fields; False if there is no such response. Raises IllegalMove for a status that its own may not become."""
        this = responses.c.id == id
        async with self._db.writing() as connection:
            before = (await connection.execute(select(responses.c.status).where(this))).scalar_one_or_none()
            if before is None:
                return False
            if (after := changed.get("status", before)) != before:
                move(RESPONSE_MOVES, before, after)
            if changed:
                await connection.execute(update(responses).where(this).values(**changed))
        return True

    async def delete(self, tenant: str, id: str) -> bool:
        """Remove it with its events and executions. False if that tenant has none of that id."""
        async with self._db.writing() as connection:
            mine = delete(responses).where(responses.c.id == id, responses.c.tenant == tenant)
            found = (await connection.execute(mine)).rowcount > 0
            if found:
                await connection.execute(delete(journal).where(journal.c.response_id == id))
                await connection.execute(delete(executions).where(executions.c.response_id == id))
        return found

    async def unfinished(self) -> list[ResponseRecord]:
        """Those of all tenants and owners that are queued or in progress, oldest first."""
        query = select(responses).where(responses.c.status.in_(UNFINISHED)).order_by(responses.c.number)
        async with self._db.reading() as connection:
            return [record_of(ResponseRecord, row) for row in await connection.execute(query)]

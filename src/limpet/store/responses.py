"""The rows of stored responses, without their events: those are in the journal."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from sqlalchemy import Connection, Integer, delete, func, insert, select, update

from limpet.core.errors import StoreFailed
from limpet.core.events import RESPONSE_MOVES, move
from limpet.store.backend import TAKEN_OVER
from limpet.store.conversations import ConversationTurn, enter, leave
from limpet.store.database import Database
from limpet.store.idempotency import IdempotencyKey, put_key
from limpet.store.model_usage import UsageRecord, count_usage
from limpet.store.records import columns_of, record_of
from limpet.store.tables import executions, idempotency_keys, journal, response_items, responses, runs
from limpet.store.webhooks import enqueue_event

UNFINISHED = ("queued", "in_progress")
FIRST_EPOCH = 1  # of a run, under its first carrier
IDS_AT_ONCE = 500  # in one query: every database takes so many


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
    conversation_id: str | None = None
    background: bool = False
    created_at: int
    completed_at: int | None = None
    owner: str
    request: dict[str, Any]
    input: list[dict[str, Any]]
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    spent: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemHolder:
    """A response as the one that has an output item: without its request and input, which may be large."""

    id: str
    provider: str
    container_id: str | None


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

    async def insert(
        self,
        record: ResponseRecord,
        *,
        checkpoint: bytes | None = None,
        sealed: bytes | None = None,
        revision: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> ResponseRecord:
        """Store a new one, with its run, which its owner carries under FIRST_EPOCH; comes back with its number. `sealed` are the run's
        secrets, kept until it ends; `revision` is that of its conversation when its items were read. Raises RequestInvalid
        (conversation_locked) where that is not as it was, and IdempotencyKeyTaken."""
        query = insert(responses).values(columns_of(record)).returning(responses.c.number)
        run = insert(runs).values(
            response_id=record.id,
            tenant=record.tenant,
            owner=record.owner,
            epoch=FIRST_EPOCH,
            heartbeat_at=record.created_at + self._db.clock_offset,
            checkpoint=checkpoint,
            sealed=sealed,
        )

        def begin(connection: Connection) -> int:
            if record.conversation_id is not None and revision is not None:
                enter(connection, record.tenant, record.conversation_id, revision=revision)
            number: int = connection.execute(query).scalar_one()
            connection.execute(run)
            if key is not None:
                put_key(connection, record.tenant, key, response_id=record.id)
            return number

        return replace(record, number=await self._db.write(begin))

    async def get(self, tenant: str, id: str) -> ResponseRecord | None:
        query = select(responses).where(responses.c.id == id, responses.c.tenant == tenant)
        row = await self._db.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else record_of(ResponseRecord, row)

    async def get_with_length(self, tenant: str, id: str) -> tuple[ResponseRecord, int] | None:
        """The response, and how many characters the JSON of its input has."""
        length = func.length(responses.c.input, type_=Integer)
        query = select(length, *responses.c).where(responses.c.id == id, responses.c.tenant == tenant)
        row = await self._db.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else (ResponseRecord(**dict(zip(responses.c.keys(), row[1:], strict=True))), row[0])

    async def finish(
        self,
        id: str,
        *,
        status: str,
        completed_at: int,
        usage: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
        items: Collection[str] = (),
        spent: dict[str, Any] | None = None,
        counted: UsageRecord | None = None,
        event: str | None = None,
        turn: ConversationTurn | None = None,
        epoch: int | None = None,
    ) -> bool:
        """End it. False, and nothing changed, when the table of moves has no way from its status to this one: it had ended
        already, or is not there. So of two ends the first one holds. `items` are the ids under which `holding` finds it; `counted` is what
        it adds to its tenant's usage, `event` what endpoints are told of it, `turn` what its conversation gets of it. `epoch` is the one
        under which its run is carried here, None where it is no run: StoreFailed, and nothing changed, where another process has taken
        the run over."""
        may_end = [before for before, after in RESPONSE_MOVES.items() if status in after]
        query = (
            update(responses)
            .where(responses.c.id == id, responses.c.status.in_(may_end))
            .values(status=status, completed_at=completed_at, usage=usage, error=error, spent=spent)
            .returning(responses.c.tenant)
        )

        def end(connection: Connection) -> bool:
            tenant = connection.execute(query).scalar_one_or_none()
            if tenant is not None:
                _end_run(connection, id, epoch)
            if tenant is not None and event is not None:
                enqueue_event(connection, tenant, event, id, at=completed_at)
            if tenant is not None and counted is not None:
                count_usage(connection, counted)
            if tenant is not None and items:
                rows = [{"response_id": id, "id": item, "tenant": tenant} for item in dict.fromkeys(items)]
                connection.execute(insert(response_items), rows)
            if tenant is not None and turn is not None:
                leave(connection, tenant, turn)
            return tenant is not None

        return await self._db.write(end)

    async def holding(self, tenant: str, item_ids: Collection[str]) -> dict[str, ItemHolder]:
        """By item id, the newest of a tenant's responses that has an output item of that id; ids of no item are left out."""
        found: dict[str, ItemHolder] = {}
        wanted = list(dict.fromkeys(item_ids))
        for start in range(0, len(wanted), IDS_AT_ONCE):
            query = (
                select(
                    response_items.c.id.label("item"), responses.c.id, responses.c.provider, responses.c.container_id
                )
                .join(responses, responses.c.id == response_items.c.response_id)
                .where(
                    response_items.c.tenant == tenant,
                    response_items.c.id.in_(wanted[start : start + IDS_AT_ONCE]),
                    responses.c.tenant == tenant,
                )
                .order_by(responses.c.number)
            )
            async with self._db.reading() as connection:
                for item, id, provider, container_id in await connection.execute(query):
                    found[item] = ItemHolder(id=id, provider=provider, container_id=container_id)
        return found

    async def spent_in(
        self, tenant: str, conversation_id: str
    ) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
        """`usage` and `spent` of each response of a conversation."""
        query = select(responses.c.usage, responses.c.spent).where(
            responses.c.conversation_id == conversation_id, responses.c.tenant == tenant
        )
        rows = await self._db.read(lambda connection: connection.execute(query).all())
        return [(row.usage, row.spent) for row in rows]

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

        def remove(connection: Connection) -> bool:
            mine = select(responses.c.id).where(responses.c.id == id, responses.c.tenant == tenant)
            found = connection.execute(mine.with_for_update()).scalar_one_or_none()
            if found is not None:
                _remove(connection, [found])
            return found is not None

        return await self._db.write(remove)

    async def delete_ended(self, *, before: int, limit: int) -> int:
        """Remove some of those that ended before that time, microseconds UTC, and that no other one goes on from; how many. A chain goes
        from its newest response on, so it is whole as long as that is kept."""
        following = responses.alias()
        is_followed = select(following.c.id).where(following.c.previous_response_id == responses.c.id).exists()
        old = (
            select(responses.c.id)
            .where(responses.c.completed_at < before, responses.c.status.not_in(UNFINISHED), ~is_followed)
            .order_by(responses.c.completed_at)
            .limit(limit)
        )

        def remove(connection: Connection) -> int:
            ids = list(connection.execute(old).scalars())
            _remove(connection, ids)
            return len(ids)

        return await self._db.write(remove)

    async def orphans(self) -> list[ResponseRecord]:
        """Unfinished ones that have no run, as older versions left them, oldest first."""
        carried = select(runs.c.response_id)
        query = select(responses).where(responses.c.status.in_(UNFINISHED), responses.c.id.not_in(carried))
        async with self._db.reading() as connection:
            rows = await connection.execute(query.order_by(responses.c.number))
            return [record_of(ResponseRecord, row) for row in rows]

    async def unfinished(self) -> list[ResponseRecord]:
        """Those of all tenants and owners that are queued or in progress, oldest first."""
        query = select(responses).where(responses.c.status.in_(UNFINISHED)).order_by(responses.c.number)
        async with self._db.reading() as connection:
            return [record_of(ResponseRecord, row) for row in await connection.execute(query)]


def _end_run(connection: Connection, id: str, epoch: int | None) -> None:
    """Forget what its next carrier would need. StoreFailed where `epoch` is not the newest."""
    carried = runs.c.response_id == id
    if epoch is not None:
        carried &= runs.c.epoch == epoch
    ended = connection.execute(update(runs).where(carried).values(checkpoint=None, sealed=None))
    if epoch is not None and ended.rowcount == 0:
        raise StoreFailed(TAKEN_OVER)


def _remove(connection: Connection, ids: Sequence[str]) -> None:
    for table in (journal, response_items, executions, idempotency_keys):
        connection.execute(delete(table).where(table.c.response_id.in_(ids)))
    connection.execute(delete(responses).where(responses.c.id.in_(ids)))

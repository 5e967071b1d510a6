"""Conversations and their items as rows. An item that was deleted keeps its row, without its content, so that a list can be continued
behind it and nothing brings it back.

A writer of the items of a conversation holds its row until the end of the transaction and moves its revision on: of two that change
one conversation at once, one waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, delete, func, insert, select, update

from limpet.core.clock import Clock, SystemClock
from limpet.core.errors import NotFound, RequestInvalid
from limpet.core.ids import CONVERSATION, new_id
from limpet.store.database import Database
from limpet.store.records import Order, Page, columns_of, read_page, record_of
from limpet.store.tables import conversation_items, conversations, responses

MOST_ITEMS = 10_000  # of one conversation
MOST_CHARACTERS = 64 * 1024 * 1024  # of the JSON that a model is given from a conversation or a chain
IDS_AT_ONCE = 500
_UNFINISHED = ("queued", "in_progress")
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationRecord:
    """One conversation. `container_id` is that of its newest response that had one; `revision` grows with each change of its items;
    `created_at` in microseconds UTC."""

    id: str
    tenant: str
    number: int = 0
    metadata: dict[str, str]
    container_id: str | None = None
    revision: int = 0
    created_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationItemRecord:
    """One item. `response_id` and `provider` are there where a response said it; `item` is None once it was deleted."""

    id: str
    tenant: str
    number: int = 0
    conversation_id: str
    response_id: str | None = None
    provider: str | None = None
    item: Json | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationTurn:
    """What a response adds to its conversation when it ends; `container_id` is the container that it had."""

    conversation_id: str
    container_id: str | None
    items: Sequence[ConversationItemRecord]


class Conversations:
    """All conversations of all tenants. StoreFailed where the store cannot be used; another tenant's conversation is NotFound like one
    that never was."""

    def __init__(self, db: Database, *, clock: Clock | None = None) -> None:
        self._db = db
        self._clock = clock or SystemClock()

    async def create(
        self, tenant: str, *, metadata: Mapping[str, str], items: Sequence[ConversationItemRecord], id: str
    ) -> ConversationRecord:
        record = ConversationRecord(id=id, tenant=tenant, metadata=dict(metadata), created_at=self._clock.now())

        def begin(connection: Connection) -> int:
            query = insert(conversations).values(columns_of(record)).returning(conversations.c.number)
            number: int = connection.execute(query).scalar_one()
            _add(connection, items)
            return number

        return replace(record, number=await self._db.write(begin))

    async def get(self, tenant: str, id: str) -> ConversationRecord:
        """Raises NotFound."""
        return await self._db.read(lambda connection: _found(connection, tenant, id))

    async def update(self, tenant: str, id: str, *, metadata: Mapping[str, str]) -> ConversationRecord:
        """Replace its metadata. Raises NotFound."""
        mine = (conversations.c.id == id) & (conversations.c.tenant == tenant)

        def change(connection: Connection) -> ConversationRecord:
            connection.execute(update(conversations).where(mine).values(metadata=dict(metadata)))
            return _found(connection, tenant, id)

        return await self._db.write(change)

    async def delete(self, tenant: str, id: str) -> None:
        """Remove it with its items. Responses that belonged to it stay. Raises NotFound."""

        def remove(connection: Connection) -> None:
            _hold(connection, tenant, id)
            connection.execute(delete(conversation_items).where(conversation_items.c.conversation_id == id))
            connection.execute(delete(conversations).where(conversations.c.id == id))

        await self._db.write(remove)

    async def add(
        self, tenant: str, id: str, items: Sequence[ConversationItemRecord]
    ) -> Sequence[ConversationItemRecord]:
        """Put items behind its last one. Raises NotFound, and RequestInvalid for an id that it has already, or had, and where it would
        hold too much (conversation_too_long)."""

        def append(connection: Connection) -> None:
            _hold(connection, tenant, id, moves_on=True)
            if known := _ids_in(connection, id, [item.id for item in items]):
                raise RequestInvalid(
                    f"The conversation already has an item {min(known)}, or had it: leave its id out.",
                    param="items",
                    code="item_already_exists",
                )
            count = select(func.count()).where(conversation_items.c.conversation_id == id)
            if connection.execute(count).scalar_one() + len(items) > MOST_ITEMS:
                raise too_long(id)
            _add(connection, items)
            _check_length(connection, id, conversation_items.c.conversation_id == id)

        await self._db.write(append)
        return items

    async def is_in_use(self, id: str) -> bool:
        """Whether a response runs in it."""
        return await self._db.read(lambda connection: _is_in_use(connection, id))

    async def page(
        self, tenant: str, id: str, *, limit: int, after: str | None, order: Order
    ) -> Page[ConversationItemRecord]:
        """Some of its items. Raises NotFound, and RequestInvalid for an `after` that was never in it."""
        await self.get(tenant, id)
        mine = (conversation_items.c.conversation_id == id) & (conversation_items.c.tenant == tenant)
        async with self._db.reading() as connection:
            return await read_page(
                connection,
                conversation_items,
                mine,
                conversation_items.c.item.is_not(None),
                kind=ConversationItemRecord,
                limit=limit,
                after=after,
                order=order,
                cursor_in=mine,
            )

    async def items(self, tenant: str, id: str, *, until: int | None = None) -> list[ConversationItemRecord]:
        """Its items up to that number, all without one; oldest first; none where there is no such conversation. Raises RequestInvalid
        (conversation_too_long), before any is read, where they are more than MOST_CHARACTERS."""
        these = (
            (conversation_items.c.conversation_id == id)
            & (conversation_items.c.tenant == tenant)
            & conversation_items.c.item.is_not(None)
        )
        if until is not None:
            these &= conversation_items.c.number <= until

        def look(connection: Connection) -> list[ConversationItemRecord]:
            _check_length(connection, id, these)
            rows = connection.execute(select(conversation_items).where(these).order_by(conversation_items.c.number))
            return [record_of(ConversationItemRecord, row) for row in rows]

        return await self._db.read(look)

    async def item(self, tenant: str, id: str, item_id: str) -> ConversationItemRecord:
        """Raises NotFound for either."""
        await self.get(tenant, id)
        query = select(conversation_items).where(_this(tenant, id, item_id))
        row = await self._db.read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise _no_item(id, item_id)
        return record_of(ConversationItemRecord, row)

    async def delete_item(self, tenant: str, id: str, item_id: str) -> ConversationRecord:
        """The conversation without it. Raises NotFound for either."""

        def remove(connection: Connection) -> ConversationRecord:
            record = _hold(connection, tenant, id, moves_on=True)
            gone = update(conversation_items).where(_this(tenant, id, item_id)).values(item=None)
            if connection.execute(gone).rowcount == 0:
                raise _no_item(id, item_id)
            return record

        return await self._db.write(remove)

    async def holding(self, tenant: str, item_ids: Sequence[str]) -> dict[str, ConversationItemRecord]:
        """By id, the newest of these items in any conversation of the tenant."""
        found: dict[str, ConversationItemRecord] = {}
        for start in range(0, len(item_ids), IDS_AT_ONCE):
            newest = (
                select(func.max(conversation_items.c.number))
                .where(
                    conversation_items.c.tenant == tenant,
                    conversation_items.c.id.in_(item_ids[start : start + IDS_AT_ONCE]),
                    conversation_items.c.item.is_not(None),
                )
                .group_by(conversation_items.c.id)
            )
            query = select(conversation_items).where(conversation_items.c.number.in_(newest))
            rows = await self._db.read(lambda connection, query=query: connection.execute(query).all())  # type: ignore[misc]
            found |= {row.id: record_of(ConversationItemRecord, row) for row in rows}
        return found


def new_conversation_id() -> str:
    return new_id(CONVERSATION)


def enter(connection: Connection, tenant: str, id: str, *, revision: int) -> None:
    """In the transaction that records a response of this conversation: nothing else runs in it, and its items are still those that the
    response was given. Raises RequestInvalid (conversation_locked), NotFound."""
    record = _hold(connection, tenant, id)
    if record.revision != revision or _is_in_use(connection, id):
        raise locked(id)


def leave(connection: Connection, tenant: str, turn: ConversationTurn) -> None:
    """In the transaction that ends a response: add what it was given and said. Items that the conversation has, or had, are not added
    again; a conversation that was deleted meanwhile stays so."""
    mine = (conversations.c.id == turn.conversation_id) & (conversations.c.tenant == tenant)
    changed: Json = {"revision": conversations.c.revision + 1}
    if turn.container_id is not None:
        changed["container_id"] = turn.container_id
    if connection.execute(update(conversations).where(mine).values(changed)).rowcount == 0:
        return
    known = _ids_in(connection, turn.conversation_id, [item.id for item in turn.items])
    _add(connection, [item for item in turn.items if item.id not in known])


def locked(id: str) -> RequestInvalid:
    return RequestInvalid(
        f"Another response is running in the conversation {id}, or its items were changed at this moment. Wait for its end, then retry.",
        param="conversation",
        code="conversation_locked",
    )


def too_long(id: str) -> RequestInvalid:
    return RequestInvalid(
        f"The conversation {id} has {MOST_ITEMS} items, which is the most. Begin a new one with the items that matter.",
        param="conversation",
        code="conversation_too_long",
    )


def _check_length(connection: Connection, id: str, these: ColumnElement[bool]) -> None:
    """Whether these items of the conversation can be read at once. Raises RequestInvalid (conversation_too_long)."""
    length = select(func.sum(func.length(conversation_items.c.item, type_=Integer))).where(these)
    if (connection.execute(length).scalar_one() or 0) > MOST_CHARACTERS:
        raise RequestInvalid(
            f"The conversation {id} holds more than {MOST_CHARACTERS} characters. Delete its largest items, or begin a new one with the "
            "items that matter.",
            param="conversation",
            code="conversation_too_long",
        )


def _is_in_use(connection: Connection, id: str) -> bool:
    running = select(responses.c.id).where(responses.c.conversation_id == id, responses.c.status.in_(_UNFINISHED))
    return connection.execute(running.limit(1)).first() is not None


def _this(tenant: str, id: str, item_id: str) -> Any:
    return (
        (conversation_items.c.conversation_id == id)
        & (conversation_items.c.tenant == tenant)
        & (conversation_items.c.id == item_id)
        & conversation_items.c.item.is_not(None)
    )


def _add(connection: Connection, items: Sequence[ConversationItemRecord]) -> None:
    unique = {item.id: columns_of(item) for item in items}
    if unique:
        connection.execute(insert(conversation_items), list(unique.values()))


def _ids_in(connection: Connection, id: str, item_ids: Sequence[str]) -> set[str]:
    """Which of these ids the conversation has, or had."""
    found: set[str] = set()
    for start in range(0, len(item_ids), IDS_AT_ONCE):
        some = item_ids[start : start + IDS_AT_ONCE]
        query = select(conversation_items.c.id).where(
            conversation_items.c.conversation_id == id, conversation_items.c.id.in_(some)
        )
        found |= set(connection.execute(query).scalars())
    return found


def _hold(connection: Connection, tenant: str, id: str, *, moves_on: bool = False) -> ConversationRecord:
    """Its row, which other transactions wait for from now on: also where reading would not hold it."""
    mine = (conversations.c.id == id) & (conversations.c.tenant == tenant)
    step = 1 if moves_on else 0
    connection.execute(update(conversations).where(mine).values(revision=conversations.c.revision + step))
    return _found(connection, tenant, id)


def _found(connection: Connection, tenant: str, id: str) -> ConversationRecord:
    query = select(conversations).where(conversations.c.id == id, conversations.c.tenant == tenant)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound(
            f"Conversation with id {id[:80]!r} not found.", param="conversation_id", code="conversation_not_found"
        )
    return record_of(ConversationRecord, row)


def _no_item(id: str, item_id: str) -> NotFound:
    return NotFound(
        f"Item with id {item_id[:80]!r} not found in the conversation {id}.", param="item_id", code="item_not_found"
    )

import anyio
import pytest

from limpet.core.errors import NotFound, RequestInvalid
from limpet.core.ids import new_id
from limpet.store.conversations import ConversationItemRecord, Conversations, ConversationTurn, new_conversation_id
from limpet.store.database import Database
from limpet.store.idempotency import IdempotencyKey, IdempotencyKeys, IdempotencyKeyTaken
from limpet.store.responses import Responses
from tests.store.samples import a_response

pytestmark = pytest.mark.anyio


def items_of(conversation: str, *texts: str) -> list[ConversationItemRecord]:
    return [
        ConversationItemRecord(id=text, tenant="default", conversation_id=conversation, item={"text": text})
        for text in texts
    ]


async def a_conversation(db: Database, *texts: str) -> str:
    id = new_conversation_id()
    await Conversations(db).create("default", metadata={"a": "b"}, items=items_of(id, *texts), id=id)
    return id


async def test_of_many_responses_at_once_one_enters_and_its_end_adds_its_items_once(db: Database) -> None:
    conversations, responses = Conversations(db), Responses(db)
    id = await a_conversation(db, "early")
    revision = (await conversations.get("default", id)).revision
    entered: list[str] = []
    codes: list[str | None] = []

    async def enter() -> None:
        record = a_response(conversation_id=id)
        try:
            await responses.insert(record, revision=revision)
        except RequestInvalid as refused:
            codes.append(refused.code)
        else:
            entered.append(record.id)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(enter)
    (winner,) = entered
    assert codes == ["conversation_locked"] * 7
    assert await conversations.is_in_use(id)

    turn = ConversationTurn(conversation_id=id, container_id="cntr_1", items=items_of(id, "early", "said"))
    assert await responses.finish(winner, status="completed", completed_at=5, turn=turn)
    assert not await responses.finish(winner, status="failed", completed_at=6, turn=turn)
    assert [row.id for row in await conversations.items("default", id)] == ["early", "said"]
    assert (await conversations.get("default", id)).container_id == "cntr_1"
    # What was read before that end is no longer as it is.
    with pytest.raises(RequestInvalid, match="is running in the conversation"):
        await responses.insert(a_response(conversation_id=id), revision=revision)


async def test_a_deleted_item_stays_deleted_and_a_page_goes_on_behind_it(db: Database) -> None:
    conversations = Conversations(db)
    id = await a_conversation(db, "one", "two", "three")
    await conversations.delete_item("default", id, "two")

    page = await conversations.page("default", id, limit=1, after="two", order="asc")
    assert ([row.id for row in page.records], page.has_more) == (["three"], False)
    with pytest.raises(RequestInvalid):
        await conversations.add("default", id, items_of(id, "two"))
    with pytest.raises(NotFound):
        await conversations.delete_item("default", id, "two")
    turn = ConversationTurn(conversation_id=id, container_id=None, items=items_of(id, "two", "four"))
    record = await Responses(db).insert(a_response(conversation_id=id))
    await Responses(db).finish(record.id, status="completed", completed_at=5, turn=turn)
    assert [row.id for row in await conversations.items("default", id)] == ["one", "three", "four"]
    assert set(await conversations.holding("default", ["one", "two", "nobody"])) == {"one"}


async def test_a_conversation_that_was_deleted_meanwhile_stays_deleted(db: Database) -> None:
    id = await a_conversation(db, "one")
    record = await Responses(db).insert(a_response(conversation_id=id))
    await Conversations(db).delete("default", id)
    turn = ConversationTurn(conversation_id=id, container_id=None, items=items_of(id, "late"))
    assert await Responses(db).finish(record.id, status="completed", completed_at=5, turn=turn)
    with pytest.raises(NotFound):
        await Conversations(db).get("default", id)
    assert await Conversations(db).items("default", id) == []


async def test_of_many_responses_with_one_key_one_is_stored(db: Database) -> None:
    responses, keys = Responses(db), IdempotencyKeys(db)
    stored: list[str] = []

    async def insert() -> None:
        record = a_response(id=new_id("resp"))
        try:
            await responses.insert(record, key=IdempotencyKey(key="k", digest="d"))
        except IdempotencyKeyTaken:
            assert await responses.get("default", record.id) is None
        else:
            stored.append(record.id)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(insert)
    (winner,) = stored
    known = await keys.get("default", "k")
    assert known is not None
    assert (known.response_id, known.digest) == (winner, "d")
    assert await keys.get("other", "k") is None
    later = await responses.insert(a_response(), key=IdempotencyKey(key="k", digest="e", instead_of=winner))
    assert (await keys.get("default", "k")).response_id == later.id  # type: ignore[union-attr]
    await responses.delete("default", later.id)
    assert await keys.get("default", "k") is None

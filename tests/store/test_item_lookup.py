"""Items are found by their ids without what lies beside them being read: what is no JSON there is not noticed."""

import pytest
from sqlalchemy import text, update

from limpet.core.ids import new_id
from limpet.store.conversations import ConversationItemRecord, Conversations
from limpet.store.database import Database
from limpet.store.responses import Responses
from limpet.store.tables import conversation_items
from tests.store.samples import a_response

pytestmark = pytest.mark.anyio


async def test_whose_an_item_is_is_known_without_its_input(db: Database) -> None:
    responses = Responses(db)
    record = await responses.insert(a_response(container_id="cntr_1"))
    ids = [f"msg_{number}" for number in range(600)]
    await responses.finish(record.id, status="completed", completed_at=5, items=ids)
    async with db.writing() as connection:
        await connection.execute(text("UPDATE responses SET input = 'no JSON', request = 'no JSON'"))
    holders = await responses.holding("default", [*ids, "unknown"])
    assert set(holders) == set(ids)
    assert {(holder.id, holder.provider, holder.container_id) for holder in holders.values()} == {
        (record.id, "script", "cntr_1")
    }
    assert await responses.holding("other", ids) == {}


async def test_of_the_items_of_one_id_only_the_newest_is_read(db: Database) -> None:
    conversations = Conversations(db)
    for number in range(3):
        id = new_id("conv")
        item = ConversationItemRecord(id="one", tenant="default", conversation_id=id, item={"number": number})
        await conversations.create("default", metadata={}, items=[item], id=id)
    older = update(conversation_items).where(conversation_items.c.conversation_id != id)
    async with db.writing() as connection:
        await connection.execute(older.values(item=text("'no JSON'")))
    assert (await conversations.holding("default", ["one"]))["one"].item == {"number": 2}
    await conversations.delete_item("default", id, "one")
    async with db.writing() as connection:
        await connection.execute(older.values(item=text("'{\"number\": 1}'")))
    assert (await conversations.holding("default", ["one"]))["one"].item == {"number": 1}

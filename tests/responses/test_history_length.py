"""How much a conversation or a chain may bring into one request is found out before it is read."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from limpet.core.errors import RequestInvalid
from limpet.responses.conversation_items import AS_IT_IS, ConversationItems
from limpet.responses.history import conversation_history, history
from limpet.store.conversations import MOST_CHARACTERS, ConversationItemRecord, Conversations, new_conversation_id
from limpet.store.database import Database
from limpet.store.journal import Journal
from limpet.store.responses import Responses
from limpet.store.settings import DatabaseSettings
from tests.store.samples import a_response

pytestmark = pytest.mark.anyio
HALF = MOST_CHARACTERS // 2  # each with the few characters around it is more


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(DatabaseSettings(url="sqlite::memory:"), home=tmp_path) as db:
        yield db


def of(conversation: str, id: str) -> ConversationItemRecord:
    return ConversationItemRecord(
        id=id, tenant="default", conversation_id=conversation, item={"type": "foo", "text": id}
    )


async def test_a_conversation_of_too_many_characters_is_refused_unread_until_some_are_deleted(db: Database) -> None:
    conversations, id = Conversations(db), new_conversation_id()
    await conversations.create("default", metadata={}, items=[of(id, "one"), of(id, "two")], id=id)
    async with db.writing() as connection:  # zeros are no JSON: reading them would fail
        await connection.execute(text(f"UPDATE conversation_items SET item = zeroblob({HALF + 1})"))

    for end in (None, AS_IT_IS):
        with pytest.raises(RequestInvalid, match="holds more than") as refused:
            await conversation_history(
                ConversationItems(conversations),
                tenant="default",
                conversation_id=id,
                provider="script",
                characters=9,
                end=end,
            )
        assert (refused.value.code, refused.value.param) == ("conversation_too_long", "conversation")
    with pytest.raises(RequestInvalid, match="holds more than"):
        await conversations.add("default", id, [of(id, "three")])

    await conversations.delete_item("default", id, "one")
    await conversations.add("default", id, [of(id, "three")])
    await conversations.delete_item("default", id, "two")
    assert [row.id for row in await conversations.items("default", id)] == ["three"]


async def test_a_chain_whose_inputs_have_too_many_characters_is_refused_before_its_root_is_read(db: Database) -> None:
    responses, previous = Responses(db), None
    for content in ("", "x" * HALF, "x" * HALF):
        given = [{"type": "message", "role": "user", "content": content}]
        previous = (
            await responses.insert(a_response(status="completed", previous_response_id=previous, input=given))
        ).id
    async with db.writing() as connection:
        await connection.execute(text("UPDATE responses SET input = 'no JSON' WHERE previous_response_id IS NULL"))
    async with Journal(db) as journal:
        with pytest.raises(RequestInvalid, match="more than") as refused:
            await history(
                responses,
                journal,
                ConversationItems(Conversations(db)),
                kept={},
                tenant="default",
                previous=str(previous),
                provider="script",
                characters=9,
            )
    assert (refused.value.code, refused.value.param) == ("conversation_too_long", "previous_response_id")

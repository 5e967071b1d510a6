"""The life of conversations: created, read, changed, added to, deleted. What responses do with them is in `conversation_items`."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from limpet.core.clock import seconds
from limpet.core.errors import RequestInvalid
from limpet.core.resources import DeletedResource, Moment, Resource
from limpet.responses.inputs import unmarked
from limpet.responses.item_resources import ItemPage, identified, item_page, shown_item
from limpet.responses.items import input_items
from limpet.responses.references import REFERENCE, resolved
from limpet.responses.request import Metadata
from limpet.responses.validation import validated
from limpet.store.conversations import (
    ConversationItemRecord,
    ConversationRecord,
    Conversations,
    new_conversation_id,
)
from limpet.store.journal import Journal
from limpet.store.records import Order
from limpet.store.responses import Responses

Json = dict[str, Any]
MOST_ITEMS_AT_ONCE = 20


class Conversation(Resource, frozen=True, kw_only=True):
    object: Literal["conversation"] = "conversation"
    created_at: Moment
    metadata: dict[str, str]


class DeletedConversation(DeletedResource, frozen=True, kw_only=True):
    object: Literal["conversation.deleted"] = "conversation.deleted"


GivenItems = Annotated[list[dict[str, Any]], Field(max_length=MOST_ITEMS_AT_ONCE)]


class CreateConversation(BaseModel):
    model_config = ConfigDict(extra="allow")
    items: GivenItems | None = None
    metadata: Metadata | None = None


class ChangeConversation(BaseModel):
    model_config = ConfigDict(extra="allow")
    metadata: Metadata | None


class AddItems(BaseModel):
    model_config = ConfigDict(extra="allow")
    items: Annotated[GivenItems, Field(min_length=1)]


_CREATE: TypeAdapter[CreateConversation] = TypeAdapter(CreateConversation)
_CHANGE: TypeAdapter[ChangeConversation] = TypeAdapter(ChangeConversation)
_ADD: TypeAdapter[AddItems] = TypeAdapter(AddItems)


class ConversationService:
    """The resource behind `/v1/conversations`. Every method raises NotFound for a conversation that the tenant does not have."""

    def __init__(
        self, conversations: Conversations, responses: Responses, journal: Journal, *, characters: int
    ) -> None:
        self._conversations = conversations
        self._responses = responses
        self._journal = journal
        self._characters = characters

    async def create(self, tenant: str, body: object) -> Conversation:
        """A new one, with its first items. Raises RequestInvalid."""
        asked = validated(_CREATE, _object(body))
        id = new_conversation_id()
        items = await self._records(tenant, id, asked.items or [])
        return _shown(await self._conversations.create(tenant, metadata=asked.metadata or {}, items=items, id=id))

    async def get(self, tenant: str, id: str) -> Conversation:
        return _shown(await self._conversations.get(tenant, id))

    async def change(self, tenant: str, id: str, body: object) -> Conversation:
        """Replace its metadata. Raises RequestInvalid."""
        asked = validated(_CHANGE, _object(body))
        return _shown(await self._conversations.update(tenant, id, metadata=asked.metadata or {}))

    async def delete(self, tenant: str, id: str) -> DeletedConversation:
        """Remove it with its items. Its responses and its container stay."""
        await self._conversations.delete(tenant, id)
        return DeletedConversation(id=id)

    async def add(self, tenant: str, id: str, body: object, *, include: Collection[str]) -> ItemPage:
        """Put items behind its last one; comes back with them. Raises RequestInvalid."""
        asked = validated(_ADD, _object(body))
        await self._conversations.get(tenant, id)
        added = await self._conversations.add(tenant, id, await self._records(tenant, id, asked.items))
        return item_page(_all_shown(added, include), has_more=False)

    async def items(
        self, tenant: str, id: str, *, limit: int, after: str | None, order: Order, include: Collection[str]
    ) -> ItemPage:
        """A page of its items. Raises RequestInvalid for an `after` that was never among them."""
        page = await self._conversations.page(tenant, id, limit=limit, after=after, order=order)
        return item_page(_all_shown(page.records, include), has_more=page.has_more)

    async def item(self, tenant: str, id: str, item_id: str, *, include: Collection[str]) -> Json:
        """One item. Raises NotFound for it too."""
        (shown,) = _all_shown([await self._conversations.item(tenant, id, item_id)], include)
        return shown

    async def delete_item(self, tenant: str, id: str, item_id: str) -> Conversation:
        """The conversation without that item. Raises NotFound for it too."""
        return _shown(await self._conversations.delete_item(tenant, id, item_id))

    async def _records(self, tenant: str, id: str, given: Sequence[Json]) -> list[ConversationItemRecord]:
        """A client's items, those that it only names looked up. Raises RequestInvalid."""
        items = unmarked(input_items(list(given), place="items"))
        named = [item["id"] for item in items if item["type"] == REFERENCE]
        items = await resolved(
            items,
            holders=await self._responses.holding(tenant, named) if named else {},
            in_conversations=await self._conversations.holding(tenant, named) if named else {},
            journal=self._journal,
            earlier=(),
            known=(),
            provider=None,
            characters=self._characters,
            place="items",
        )
        identities = identified(items, owner=new_conversation_id())
        if len({item_id for item_id, _ in identities}) < len(identities):
            raise RequestInvalid("Two of the items have the same id.", param="items", code="item_already_exists")
        return [
            ConversationItemRecord(id=item_id, tenant=tenant, conversation_id=id, item=item)
            for item_id, item in identities
        ]


def _object(body: object) -> object:
    if not isinstance(body, dict):
        raise RequestInvalid("The body must be a JSON object.")
    return body


def _shown(record: ConversationRecord) -> Conversation:
    return Conversation(id=record.id, created_at=seconds(record.created_at), metadata=record.metadata)


def _all_shown(records: Sequence[ConversationItemRecord], include: Collection[str]) -> list[Json]:
    return [shown_item(row.item, row.id, include=include) for row in records if row.item is not None]

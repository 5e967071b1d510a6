"""The items of a conversation as responses need them: read before a turn, added to after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limpet.core.errors import NotFound
from limpet.responses.item_resources import identified
from limpet.responses.request import CONVERSATION_END
from limpet.store.conversations import (
    MOST_ITEMS,
    ConversationItemRecord,
    ConversationRecord,
    Conversations,
    ConversationTurn,
    locked,
    too_long,
)
from limpet.store.responses import ResponseRecord

Json = dict[str, Any]
AS_IT_IS = 2**63 - 1  # as the number up to which items are read: all that there are, also while a response runs


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedConversation:
    """A conversation and the items that it had when it was read; or, of those, the ones up to a number."""

    record: ConversationRecord
    items: Sequence[ConversationItemRecord]


class ConversationItems:
    """Reads them. Each method is one look; `Responses.insert` finds out whether something changed between a look and the response."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    async def opened(self, tenant: str, id: str, *, until: int | None = None) -> OpenedConversation:
        """For a response that begins, unless `until` says how far another one saw. Raises NotFound, and RequestInvalid: conversation_locked
        while a response runs in it, conversation_too_long where it takes no more items."""
        record = await self._conversations.get(tenant, id)
        if until is None and await self._conversations.is_in_use(id):
            raise locked(id)
        items = await self._conversations.items(tenant, id, until=until)
        if until is None and len(items) >= MOST_ITEMS:
            raise too_long(id)
        return OpenedConversation(record=record, items=items)

    async def before(self, record: ResponseRecord) -> Sequence[ConversationItemRecord]:
        """What the response was given of its conversation, as far as it is still there. Raises NotFound where the conversation was
        deleted."""
        if record.conversation_id is None:
            return ()
        try:
            opened = await self.opened(
                record.tenant, record.conversation_id, until=record.request.get(CONVERSATION_END, 0)
            )
        except NotFound as gone:
            raise NotFound(
                f"The conversation {record.conversation_id} was deleted, and with it what came before the response {record.id}.",
                param="previous_response_id",
                code="conversation_not_found",
            ) from gone
        return opened.items

    async def holding(self, tenant: str, item_ids: Sequence[str]) -> Mapping[str, ConversationItemRecord]:
        """By id, those of these items that are in a conversation of the tenant."""
        return await self._conversations.holding(tenant, item_ids)


def conversation_turn(record: ResponseRecord, output: Sequence[Json], *, status: str) -> ConversationTurn | None:
    """What a response that ended adds to its conversation: its input and its output. One that failed before the model said anything adds
    nothing, so that asking again does not say everything twice."""
    if record.conversation_id is None:
        return None
    is_empty = status == "failed" and not output
    given = [] if is_empty else identified(record.input, owner=record.id)
    said = identified(output, owner=f"{record.id}.output")
    items = [
        ConversationItemRecord(
            id=id,
            tenant=record.tenant,
            conversation_id=record.conversation_id,
            response_id=record.id,
            provider=provider,
            item=item,
        )
        for provider, named in ((None, given), (record.provider, said))
        for id, item in named
    ]
    return ConversationTurn(
        conversation_id=record.conversation_id, container_id=None if is_empty else record.container_id, items=items
    )

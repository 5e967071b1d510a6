"""What a response was made of: `GET /v1/responses/{id}/input_items`.

These are the items that the model was given, oldest first: those of the conversation or chain that it goes on from, then the request's own.
"""

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from limpet.core.errors import NotFound, RequestInvalid
from limpet.responses.conversation_items import ConversationItems
from limpet.responses.history import LONGEST_CHAIN
from limpet.responses.item_resources import ItemPage, identified, item_page, shown_item
from limpet.responses.replay import replay
from limpet.store.journal import Journal
from limpet.store.records import Order
from limpet.store.responses import ResponseRecord, Responses

Json = dict[str, Any]
NamedItem = tuple[str, Json]


class InputItems:
    """Reads stored responses. What was deleted meanwhile, of a chain or of a conversation, is left out."""

    def __init__(self, responses: Responses, journal: Journal, conversations: ConversationItems) -> None:
        self._responses = responses
        self._journal = journal
        self._conversations = conversations

    async def page(
        self,
        tenant: str,
        response_id: str,
        *,
        limit: int,
        after: str | None,
        order: Order,
        include: Collection[str],
    ) -> ItemPage:
        """Raises NotFound for the response, RequestInvalid for an `after` that is not in the list."""
        record = await self._responses.get(tenant, response_id)
        if record is None:
            raise NotFound(
                f"Response with id {response_id[:80]!r} not found.", param="response_id", code="response_not_found"
            )
        items = await self._given(record)
        if order == "desc":
            items.reverse()
        begin = _behind(items, after)
        some = items[begin : begin + limit]
        shown = [shown_item(item, id, include=include) for id, item in some]
        return item_page(shown, has_more=len(items) > begin + limit)

    async def _given(self, record: ResponseRecord) -> list[NamedItem]:
        """Each item once, where it came first."""
        chain = [record]
        while (previous := chain[-1].previous_response_id) is not None and len(chain) <= LONGEST_CHAIN:
            before = await self._responses.get(record.tenant, previous)
            if before is None:
                break
            chain.append(before)
        chain.reverse()
        given: dict[str, Json] = {}
        with suppress(NotFound):
            given = {row.id: row.item for row in await self._conversations.before(chain[0]) if row.item is not None}
        for each in chain:
            for id, item in identified(each.input, owner=each.id):
                given.setdefault(id, item)
            if each is not record:
                said = (await replay(self._journal, each.id)).snapshot.items()
                for id, item in identified(said, owner=f"{each.id}.output"):
                    given.setdefault(id, item)
        return list(given.items())


def _behind(items: list[NamedItem], after: str | None) -> int:
    if after is None:
        return 0
    at = next((number for number, (id, _) in enumerate(items) if id == after), None)
    if at is None:
        raise RequestInvalid(f"after: there is no {after[:80]} in this list. Use the last id of a page.", param="after")
    return at + 1

"""What a request goes on from: its conversation or its chain, and the stored items that its input names."""

from collections.abc import Mapping
from dataclasses import replace

from limpet.responses.budgets import Spending
from limpet.responses.conversation_items import ConversationItems
from limpet.responses.history import History, conversation_history, history, spending_of
from limpet.responses.references import REFERENCE, resolved
from limpet.responses.request import ParsedRequest
from limpet.store.journal import Journal
from limpet.store.responses import ItemHolder, Responses


class EarlierItems:
    """Reads them. `characters` is how much of a command's output a model is given."""

    def __init__(
        self, responses: Responses, journal: Journal, conversations: ConversationItems, *, characters: int
    ) -> None:
        self._responses = responses
        self._journal = journal
        self._conversations = conversations
        self._characters = characters

    async def before(self, tenant: str, asked: ParsedRequest, *, provider: str, end: int | None = None) -> History:
        """The items before the request's own, as that provider is told them; of a conversation those up to the number `end`, where it is
        given. Raises NotFound, RequestInvalid."""
        if asked.conversation_id is not None:
            before = await conversation_history(
                self._conversations,
                tenant=tenant,
                conversation_id=asked.conversation_id,
                provider=provider,
                characters=self._characters,
                end=end,
            )
            spent = await self._responses.spent_in(tenant, asked.conversation_id)
            return replace(before, spent=sum((spending_of(*each) for each in spent), Spending()))
        if asked.body.previous_response_id is None:
            return History()
        return await history(
            self._responses,
            self._journal,
            self._conversations,
            kept=asked.kept,
            tenant=tenant,
            previous=asked.body.previous_response_id,
            provider=provider,
            characters=self._characters,
        )

    async def resolved(
        self, tenant: str, asked: ParsedRequest, before: History, *, provider: str
    ) -> tuple[ParsedRequest, Mapping[str, ItemHolder]]:
        """The request with the items that it names by their id, and the responses that items of its input came out of. Raises
        RequestInvalid (item_not_found)."""
        named = [item["id"] for item in asked.input if item.get("id")]
        holders = await self._responses.holding(tenant, named) if named else {}
        unknown = [item["id"] for item in asked.input if item["type"] == REFERENCE and item["id"] not in holders]
        items = await resolved(
            asked.input,
            holders=holders,
            in_conversations=await self._conversations.holding(tenant, unknown) if unknown else {},
            journal=self._journal,
            earlier=before.items,
            known=before.known,
            provider=provider,
            characters=self._characters,
        )
        return replace(asked, input=items), holders

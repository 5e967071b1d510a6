"""Items that a request names by their id (`item_reference`), looked up among what is stored for the tenant."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from limpet.core.errors import RequestInvalid
from limpet.responses.history import as_input, is_providers_alone
from limpet.responses.replay import replay
from limpet.store.conversations import ConversationItemRecord
from limpet.store.journal import Journal
from limpet.store.responses import ItemHolder

Json = dict[str, Any]
REFERENCE = "item_reference"


async def resolved(
    items: Sequence[Json],
    *,
    holders: Mapping[str, ItemHolder],
    in_conversations: Mapping[str, ConversationItemRecord],
    journal: Journal,
    earlier: Sequence[Json],
    known: Collection[str],
    provider: str | None,
    characters: int,
    place: str = "input",
) -> list[Json]:
    """The items with the stored one in place of each reference, as a model gets it back.

    `holders` are the responses that have items of those ids, `in_conversations` the items that no response holds. An item that is among
    `earlier`, whose id is `known`, or that was named before, is not told twice. Reasoning that another provider sealed is left out, where
    `provider` says who is told. Raises RequestInvalid (item_not_found) with the reference's place in
    the field `place`.
    """
    told = set(known) | {item["id"] for item in [*earlier, *items] if item.get("id") and item["type"] != REFERENCE}
    stored: dict[str, dict[str, Json]] = {}
    whole: list[Json] = []
    for position, item in enumerate(items):
        if item["type"] != REFERENCE:
            whole.append(item)
            continue
        if item["id"] in told:
            continue
        found, provider_of = await _found(item["id"], holders, in_conversations, journal, stored)
        if found is None:
            raise _not_found(item["id"], f"{place}[{position}].id")
        told.add(item["id"])
        if provider_of is None:
            whole.append(found)
        elif provider in (None, provider_of) or not is_providers_alone(found):
            whole.append(as_input(found, characters))
    return whole


async def _found(
    item_id: str,
    holders: Mapping[str, ItemHolder],
    in_conversations: Mapping[str, ConversationItemRecord],
    journal: Journal,
    stored: dict[str, dict[str, Json]],
) -> tuple[Json | None, str | None]:
    """The item, and the provider whose model said it, if one did. `stored` keeps what was read."""
    holder, row = holders.get(item_id), in_conversations.get(item_id)
    if holder is None:
        return (None, None) if row is None else (row.item, row.provider)
    if holder.id not in stored:
        said = (await replay(journal, holder.id)).snapshot.items()
        stored[holder.id] = {each["id"]: each for each in said if each.get("id")}
    return stored[holder.id].get(item_id), holder.provider


def _not_found(item_id: str, param: str) -> RequestInvalid:
    return RequestInvalid(
        f"Item with id {item_id[:80]!r} not found. It was never stored (`store: false`), or was deleted with its response; "
        "send the item itself.",
        param=param,
        code="item_not_found",
    )

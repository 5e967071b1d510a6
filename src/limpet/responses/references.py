"""Items that a request names by their id (`item_reference`), looked up among what is stored for the tenant."""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.core.errors import RequestInvalid
from limpet.responses.history import as_input
from limpet.responses.replay import replay
from limpet.store.journal import Journal
from limpet.store.responses import ResponseRecord

Json = dict[str, Any]
REFERENCE = "item_reference"


async def resolved(
    items: Sequence[Json],
    *,
    holders: Mapping[str, ResponseRecord],
    journal: Journal,
    earlier: Sequence[Json],
    provider: str,
    characters: int,
) -> list[Json]:
    """The items with the stored one in place of each reference, as a model gets it back.

    `holders` are the responses that have items of those ids. An item that is among `earlier`, or was named before, is not told
    twice; reasoning that another provider sealed is left out. Raises RequestInvalid (item_not_found) with the reference's place.
    """
    told = {item["id"] for item in [*earlier, *items] if item.get("id") and item["type"] != REFERENCE}
    stored: dict[str, dict[str, Json]] = {}
    whole: list[Json] = []
    for position, item in enumerate(items):
        if item["type"] != REFERENCE:
            whole.append(item)
            continue
        holder = holders.get(item["id"])
        if holder is not None and holder.id not in stored:
            said = (await replay(journal, holder.id)).snapshot.items()
            stored[holder.id] = {each["id"]: each for each in said if each.get("id")}
        found = stored[holder.id].get(item["id"]) if holder is not None else None
        if holder is None or found is None:
            raise _not_found(item["id"], position)
        if item["id"] in told:
            continue
        told.add(item["id"])
        if found["type"] != "reasoning" or holder.provider == provider:
            whole.append(as_input(found, characters))
    return whole


def _not_found(item_id: str, position: int) -> RequestInvalid:
    return RequestInvalid(
        f"Item with id {item_id[:80]!r} not found. It was never stored (`store: false`), or was deleted with its response; "
        "send the item itself.",
        param=f"input[{position}].id",
        code="item_not_found",
    )

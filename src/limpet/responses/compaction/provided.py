"""A compaction that is asked of the provider in a turn of its own: of its answer nothing is told but the one compaction."""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import structlog

from limpet.core import events as ev
from limpet.core.errors import UpstreamRefused
from limpet.upstreams.upstream import Emit, Turn, TurnEnded, Upstream
from limpet.upstreams.usage import Usage

log = structlog.get_logger()
Json = dict[str, Any]
TRIGGER = "compaction_trigger"
# What a server answers with that does not know the trigger.
UNKNOWN = frozenset({400, 404, 405, 422, 501})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvidedCompaction:
    """`item` is None where the provider did not understand; `usage` is what asking cost."""

    item: Json | None = None
    usage: Usage | None = None


async def provided(upstream: Upstream, turn: Turn) -> ProvidedCompaction:
    """What the provider makes of the turn with a trigger at its end. Raises UpstreamError where it fails otherwise."""
    found: list[Json] = []
    ended = TurnEnded(status="failed")
    try:
        async with aclosing(upstream.stream(replace(turn, input=[*turn.input, {"type": TRIGGER}]))) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    ended = event
                elif isinstance(event, Emit) and event.type == ev.ITEM_DONE and _is_compaction(event.data.get("item")):
                    found.append(event.data["item"])
    except UpstreamRefused as refused:
        if refused.status not in UNKNOWN:
            raise
        log.warning("trigger_not_understood", provider=upstream.name, reason=refused.message)
    return ProvidedCompaction(item=found[-1] if found else None, usage=ended.usage)


def _is_compaction(item: object) -> bool:
    return (
        isinstance(item, Mapping)
        and item.get("type") == "compaction"
        and isinstance(item.get("id"), str)
        and isinstance(item.get("encrypted_content"), str)
    )

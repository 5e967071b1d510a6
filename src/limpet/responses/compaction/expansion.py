"""A conversation with compaction items in it, as the model is told it: each item of ours opened, what it stands for left out. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from limpet.core.errors import RequestInvalid
from limpet.responses.compaction.compacted import ContextSealer, digest, is_sealed_here
from limpet.responses.compaction.plan import is_instruction
from limpet.responses.compaction.provided import TRIGGER
from limpet.upstreams.upstream import LEFT_OUT

Json = dict[str, Any]
COMPACTION = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedInput:
    """`items` are the whole conversation as the model is told it; those of them in `opened` came out of compactions of the input."""

    items: list[Json]
    opened: tuple[Json, ...] = ()


def expanded_chain(items: Sequence[Json], sealer: ContextSealer, *, takes_sealed: bool) -> list[Json]:
    """Stored items: a compaction stands for all before it. One of ours that does not open (its key is gone), and one that the provider
    did not make (`takes_sealed` says whether it makes any), is left out: what it stood for is stored too."""
    told: list[Json] = []
    for item in behind_newest(items, sealer):
        if item["type"] == COMPACTION:
            if takes_sealed and not is_sealed_here(item.get("encrypted_content")) and not _is_void(item):
                told = [*filter(is_instruction, told), item]
        elif item["type"] != TRIGGER:
            told.append(item)
    return told


def expanded_input(
    items: Sequence[Json], sealer: ContextSealer, *, earlier: Sequence[Json], takes_sealed: bool
) -> ExpandedInput:
    """What a client sent, behind `earlier` items that are told too: of what came before an item of ours only that goes which the item
    stands for. `takes_sealed`: the provider compacts by itself, and may have sealed what is not ours. Raises RequestInvalid with the
    item's place."""
    before: list[Json] = list(earlier)
    opened: list[Json] = []
    for position, item in enumerate(items):
        content = item.get("encrypted_content")
        if item["type"] == COMPACTION and (context := sealer.open(content)) is not None:
            covered = frozenset(context.covered)
            before = [*(each for each in before if _is_told_beside(each, covered)), *context.items]
            opened += context.items
        elif item["type"] == COMPACTION and (is_sealed_here(content) or not takes_sealed) and not _is_void(item):
            raise _unreadable(item, position)
        elif item["type"] != TRIGGER:
            before += [] if _is_void(item) else [_plain(item)]
    return ExpandedInput(items=before, opened=tuple(opened))


def behind_newest(items: Sequence[Json], sealer: ContextSealer) -> list[Json]:
    """What the newest compaction of ours that opens stands for, and the items that came after it; all of them where there is none."""
    for index in range(len(items) - 1, -1, -1):
        context = sealer.open(items[index].get("encrypted_content")) if items[index]["type"] == COMPACTION else None
        if context is not None:
            return [*context.items, *map(_plain, items[index + 1 :])]
    return [*map(_plain, items)]


def check_triggers(items: Sequence[Json]) -> None:
    """Raises RequestInvalid where a compaction is asked for and more items follow."""
    for position, item in enumerate(items[:-1]):
        if item["type"] == TRIGGER:
            raise RequestInvalid(
                "A `compaction_trigger` must be the last item of the input.",
                param=f"input[{position}]",
                code="invalid_value",
            )


def _plain(item: Json) -> Json:
    """Only the gateway says what was left out."""
    return {key: value for key, value in item.items() if key != LEFT_OUT} if LEFT_OUT in item else item


def _is_told_beside(item: Json, covered: frozenset[str]) -> bool:
    return item["type"] not in ("reasoning", COMPACTION) and digest(item) not in covered


def _is_void(item: Json) -> bool:
    """A compaction that broke off before there was anything in it."""
    return item["type"] == COMPACTION and item.get("encrypted_content") == ""


def _unreadable(item: Json, position: int) -> RequestInvalid:
    name = f" {item['id'][:80]}" if isinstance(item.get("id"), str) else ""
    return RequestInvalid(
        f"The encrypted content of the compaction item{name} could not be verified: it was changed, or sealed by another gateway or "
        "provider, or for another tenant. Leave it out and send the items that it stands for.",
        param=f"input[{position}].encrypted_content",
        code="invalid_encrypted_content",
    )

"""A conversation with compaction items in it, as the model is told it: each item of ours opened, what it stands for left out. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from limpet.core.errors import RequestInvalid
from limpet.responses.compaction.compacted import (
    MOST_PLAIN,
    CompactedContext,
    CompactionTooLarge,
    ContextOpener,
    ContextSealer,
    digest,
    is_sealed_here,
)
from limpet.responses.compaction.plan import is_instruction
from limpet.responses.compaction.provided import TRIGGER
from limpet.upstreams.upstream import LEFT_OUT

Json = dict[str, Any]
COMPACTION = "compaction"
MOST_COMPACTIONS = 100  # of ours in one input: each looks at all items before it


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedInput:
    """`items` are the whole conversation as the model is told it; those of them in `opened` came out of compactions of the input."""

    items: list[Json]
    opened: tuple[Json, ...] = ()


class DigestedItem:
    """An item before a compaction, whose digest is computed once for all compactions that follow."""

    def __init__(self, item: Json) -> None:
        self.item = item

    @cached_property
    def digest(self) -> str:
        return digest(self.item)

    def stays_beside(self, covered: frozenset[str]) -> bool:
        return self.item["type"] not in ("reasoning", COMPACTION) and self.digest not in covered


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
    opener, made_here = ContextOpener(sealer), 0
    before = [DigestedItem(item) for item in earlier]
    opened: list[Json] = []
    for position, item in enumerate(items):
        content = item.get("encrypted_content")
        if item["type"] != COMPACTION:
            before += [] if item["type"] == TRIGGER else [DigestedItem(_plain(item))]
            continue
        made_here += is_sealed_here(content)
        if made_here > MOST_COMPACTIONS:
            raise _too_many(position)
        if (context := _opened(opener, content, position)) is not None:
            covered = frozenset(context.covered)
            before = [*(each for each in before if each.stays_beside(covered)), *map(DigestedItem, context.items)]
            opened += context.items
        elif _is_void(item):
            continue
        elif is_sealed_here(content) or not takes_sealed:
            raise _unreadable(item, position)
        else:
            before.append(DigestedItem(_plain(item)))
    return ExpandedInput(items=[each.item for each in before], opened=tuple(opened))


def behind_newest(items: Sequence[Json], sealer: ContextSealer) -> list[Json]:
    """What the newest compaction of ours that opens stands for, and the items that came after it; all of them where there is none."""
    opener = ContextOpener(sealer)
    for index in range(len(items) - 1, -1, -1):
        if items[index]["type"] != COMPACTION:
            continue
        try:
            context = opener.open(items[index].get("encrypted_content"))
        except CompactionTooLarge:  # of an older version; what it stands for is stored too
            break
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


def _opened(opener: ContextOpener, content: object, position: int) -> CompactedContext | None:
    try:
        return opener.open(content)
    except CompactionTooLarge as problem:
        raise RequestInvalid(
            f"The compaction items of this input hold more than {MOST_PLAIN} bytes together. Send the newest of them and the items that "
            "came after it.",
            param=f"input[{position}].encrypted_content",
            code="context_length_exceeded",
        ) from problem


def _too_many(position: int) -> RequestInvalid:
    return RequestInvalid(
        f"An input may hold {MOST_COMPACTIONS} compaction items. Send the newest of them and the items that came after it.",
        param=f"input[{position}]",
        code="invalid_value",
    )

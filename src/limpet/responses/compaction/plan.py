"""Which items of a conversation a compaction leaves out. Pure.

What belongs together goes together: calls with their outputs, and reasoning with what came out of it, since providers refuse the one
without the other. Instructions, the newest items, the newest message of the user and calls that wait for an output always stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limpet.responses.compaction.marker import is_marker
from limpet.upstreams.token_estimate import tokens_of_item

Json = dict[str, Any]
INSTRUCTIONS = frozenset({"system", "developer"})
_OUTPUT = "_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The indexes of the items that go, in order; earlier markers are among them."""

    dropped: tuple[int, ...]

    def of(self, items: Sequence[Json]) -> list[Json]:
        """The items that go."""
        return [items[index] for index in self.dropped]

    def around(self, items: Sequence[Json]) -> tuple[list[Json], list[Json]]:
        """The items that stay, before and behind the place of the marker: behind the last that goes."""
        gone = set(self.dropped)
        end = self.dropped[-1] if self.dropped else -1
        stay = [(index, item) for index, item in enumerate(items) if index not in gone]
        return [item for index, item in stay if index < end], [item for index, item in stay if index > end]


def planned(items: Sequence[Json], *, recent: int, excess: int | None) -> CompactionPlan | None:
    """Drop the oldest items until `excess` tokens are gone, None for all that may go. None where nothing may go; a marker alone
    is not worth it."""
    kept = _protected(items, recent)
    dropped: list[int] = []
    left = excess
    for group in groups(items):
        if any(index in kept for index in group):
            continue
        if left is not None and left <= 0 and not all(is_marker(items[index]) for index in group):
            continue
        dropped += group
        if left is not None:
            left -= sum(tokens_of_item(items[index]) for index in group)
    if all(is_marker(items[index]) for index in dropped):
        return None
    return CompactionPlan(dropped=tuple(sorted(dropped)))


def groups(items: Sequence[Json]) -> list[list[int]]:
    """The indexes of the items in pieces that stay or go together, oldest first."""
    last_output = {item.get("call_id"): index for index, item in enumerate(items) if _is_output(item)}
    found: list[list[int]] = []
    open_until = -1
    for index, item in enumerate(items):
        behind_reasoning = index > 0 and items[index - 1].get("type") == "reasoning"
        if found and (index <= open_until or behind_reasoning):
            found[-1].append(index)
        else:
            found.append([index])
        if _is_call(item):
            open_until = max(open_until, last_output.get(item["call_id"], -1))
    return found


def _protected(items: Sequence[Json], recent: int) -> set[int]:
    kept = set(range(max(0, len(items) - recent), len(items)))
    users = [index for index, item in enumerate(items) if is_user_message(item)]
    kept.update(users[-1:])
    answered = {item.get("call_id") for item in items if _is_output(item)}
    for index, item in enumerate(items):
        if item.get("type") == "compaction" or is_instruction(item):
            kept.add(index)
        if _is_call(item) and item["call_id"] not in answered:
            kept.add(index)
    return {index for index in kept if not is_marker(items[index])}


def is_user_message(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "message" and item.get("role") == "user" and not is_marker(item)


def is_instruction(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "message" and item.get("role") in INSTRUCTIONS


def _is_output(item: Mapping[str, Any]) -> bool:
    return "call_id" in item and str(item.get("type")).endswith(_OUTPUT)


def _is_call(item: Mapping[str, Any]) -> bool:
    return item.get("call_id") is not None and not _is_output(item)

"""Whether a provider's event may be passed on: it has the fields that the event fold relies on, of the right types, for an open item.

What a provider sends is not ours to trust: an event that passes here can be numbered, stored and read again for ever. Kinds of
events that the fold does not read pass as they are. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from limpet.core import events as ev

Json = dict[str, Any]


def _text(value: object) -> bool:
    return isinstance(value, str)


def _object(value: object) -> bool:
    return isinstance(value, dict)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _item(value: object) -> bool:
    """An item whose lists, where it has them, are lists of objects."""
    if not isinstance(value, dict) or not _text(value.get("type")) or not _text(value.get("id")):
        return False
    lists = [value.get(key) or [] for key in ("content", "summary")]
    arguments = value.get("arguments")
    return all(isinstance(each, list) and all(map(_object, each)) for each in lists) and (
        arguments is None or value["type"] != "function_call" or _text(arguments)
    )


def _part(value: object) -> bool:
    if not isinstance(value, dict) or not _text(value.get("type")):
        return False
    texts = [value.get(key) for key in ("text", "refusal")]
    notes = value.get("annotations") or []
    return all(text is None or _text(text) for text in texts) and isinstance(notes, list) and all(map(_object, notes))


_NEEDS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    ev.ITEM_ADDED: {"item": _item},
    ev.ITEM_DONE: {"item": _item},
    ev.TEXT_DELTA: {"delta": _text, "content_index": _count},
    ev.TEXT_DONE: {"text": _text, "content_index": _count},
    ev.REFUSAL_DELTA: {"delta": _text, "content_index": _count},
    ev.REFUSAL_DONE: {"refusal": _text, "content_index": _count},
    ev.REASONING_DELTA: {"delta": _text, "content_index": _count},
    ev.REASONING_DONE: {"text": _text, "content_index": _count},
    ev.SUMMARY_DELTA: {"delta": _text, "summary_index": _count},
    ev.SUMMARY_DONE: {"text": _text, "summary_index": _count},
    ev.PART_ADDED: {"part": _part, "content_index": _count},
    ev.PART_DONE: {"part": _part, "content_index": _count},
    ev.SUMMARY_PART_ADDED: {"part": _part, "summary_index": _count},
    ev.SUMMARY_PART_DONE: {"part": _part, "summary_index": _count},
    ev.ANNOTATION_ADDED: {"annotation": _object, "content_index": _count, "annotation_index": _count},
    ev.ARGUMENTS_DELTA: {"delta": _text},
    ev.ARGUMENTS_DONE: {"arguments": _text},
}
_CHECKS = {kind: tuple(needs.items()) for kind, needs in _NEEDS.items()}
_PLACES = ("content_index", "summary_index")
_PLACE_OF = {kind: place for kind, needs in _NEEDS.items() for place in _PLACES if place in needs}


@dataclass(slots=True)
class _OpenItem:
    id: str
    parts: dict[str, int] = field(default_factory=dict)


class EventValidator:
    """Judges the events of one turn in their order."""

    def __init__(self) -> None:
        self._open: dict[int, _OpenItem] = {}
        self._seen: set[int] = set()

    def problem(self, kind: str, data: Json) -> str | None:
        """What keeps this event from being told; None lets it pass, and counts it as told."""
        if "output_index" not in data and kind not in _NEEDS:
            return None
        index = data.get("output_index")
        if not _count(index):
            return f"{kind} is about no item"
        for key, fits in _CHECKS.get(kind, ()):
            if not fits(data.get(key)):
                return f"{kind} has no {key} that can be read"
        return self._out_of_turn(kind, int(data["output_index"]), data)

    def _out_of_turn(self, kind: str, index: int, data: Json) -> str | None:
        if kind == ev.ITEM_ADDED:
            if index in self._seen:
                return f"the item {index} was added twice"
            self._seen.add(index)
            item = data["item"]
            counts = {
                place: len(item.get(where) or []) for place, where in zip(_PLACES, ("content", "summary"), strict=True)
            }
            self._open[index] = _OpenItem(item["id"], counts)
            return None
        if index not in self._open:
            return f"{kind} is about an item that is not open"
        if kind == ev.ITEM_DONE:
            del self._open[index]
            return None
        return self._in_a_gap(kind, self._open[index], data)

    def _in_a_gap(self, kind: str, item: _OpenItem, data: Json) -> str | None:
        """Parts come one after the other; a part that was not begun may be begun by its own first event."""
        place = _PLACE_OF.get(kind)
        if place is None:
            return None
        known, at = item.parts[place], data[place]
        if at > known or (kind == ev.ANNOTATION_ADDED and at == known):
            return f"{kind} is about a part that was not added"
        if at == known:
            item.parts[place] = at + 1
        return None

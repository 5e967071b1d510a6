"""The state of a response after some of its events: the fold that live and replayed streams share.

The journal keeps an item's text once, in its deltas. `shrink` takes out of a `done` event what the earlier events already say;
`expand` puts it back on reading. Both look only at the state before the event, so that a reader who folds the same events gets
the same answer (docs/decisions/events-are-told-once.md).
"""

from collections.abc import Iterator
from typing import Any

from limpet.core import events as ev
from limpet.responses.json_copy import json_copy

Json = dict[str, Any]

# Stored as they are sent: they repeat nothing of an earlier event.
PLAIN = frozenset({ev.TEXT_DELTA, ev.OUTPUT_DELTA, ev.ARGUMENTS_DELTA, ev.REASONING_DELTA, ev.SUMMARY_DELTA})

_TEXT_DELTAS = {
    ev.TEXT_DELTA: ("content", "content_index", "text"),
    ev.REFUSAL_DELTA: ("content", "content_index", "refusal"),
    ev.SUMMARY_DELTA: ("summary", "summary_index", "text"),
    ev.REASONING_DELTA: ("content", "content_index", "text"),
}
_TEXT_DONE = {
    ev.TEXT_DONE: ("content", "content_index", "text"),
    ev.REFUSAL_DONE: ("content", "content_index", "refusal"),
    ev.SUMMARY_DONE: ("summary", "summary_index", "text"),
    ev.REASONING_DONE: ("content", "content_index", "text"),
}
_PART_ADDED = {ev.PART_ADDED: ("content", "content_index"), ev.SUMMARY_PART_ADDED: ("summary", "summary_index")}
_PART_DONE = {ev.PART_DONE: ("content", "content_index"), ev.SUMMARY_PART_DONE: ("summary", "summary_index")}
_HEAVY = {
    "message": ("content",),
    "reasoning": ("summary", "content"),
    "function_call": ("arguments",),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "apply_patch_call_output": ("output",),
    "shell_call_output": ("output",),
}


class Snapshot:
    """The items of one response, by output index, as far as they have been told."""

    def __init__(self) -> None:
        self._items: dict[int, Json] = {}
        self._done: set[int] = set()
        self._pieces: dict[tuple[int, str, int, str], list[str]] = {}

    @property
    def next_index(self) -> int:
        return max(self._items, default=-1) + 1

    def items(self) -> list[Json]:
        """All items in order, unfinished ones as far as they are known."""
        return [self.item(index) for index in sorted(self._items)]

    def item(self, index: int) -> Json:
        """One item, with the text told so far."""
        self._settle(index)
        return self._items[index]

    def unfinished(self) -> list[int]:
        """Indexes of items that were added and not done."""
        return [index for index in sorted(self._items) if index not in self._done]

    def shrink(self, kind: str, data: Json) -> Json:
        """The payload without what the events before it already tell."""
        return dict(self._shrunk(kind, data))

    def expand(self, kind: str, data: Json) -> Json:
        """The payload as it was before `shrink`."""
        full = dict(data)
        if kind in _TEXT_DONE:
            part, key = self._part(_TEXT_DONE[kind], data)
            full.setdefault(key, part.get(key, ""))
        elif kind in _PART_DONE:
            where, position = _PART_DONE[kind]
            if "part" not in full:
                full["part"] = json_copy(self._list(data["output_index"], where)[data[position]])
        elif kind == ev.ARGUMENTS_DONE:
            full.setdefault("arguments", self._value(data["output_index"], "arguments"))
        elif kind == ev.COMMAND_DONE:
            full.setdefault("command", self._command(data))
        elif kind == ev.OUTPUT_DONE:
            full["output"] = [self._entry(data) | entry for entry in data["output"]]
        elif kind == ev.ITEM_DONE:
            known = json_copy(self.item(data["output_index"])) if data["output_index"] in self._items else {}
            full["item"] = {
                **data["item"],
                **{k: known[k] for k in _heavy(known) if k in known and k not in data["item"]},
            }
        elif kind in ev.TERMINAL and "output" not in data["response"]:
            full["response"] = {**data["response"], "output": json_copy(self.items())}
        return full

    def apply(self, kind: str, data: Json) -> None:
        """Take in one event, with its whole payload."""
        if kind in _TEXT_DELTAS:
            where, position, key = _TEXT_DELTAS[kind]
            self._add(data["output_index"], where, data.get(position, 0), key, data["delta"])
        elif kind == ev.ITEM_ADDED:
            self._items[data["output_index"]] = json_copy(data["item"])
        elif kind == ev.ITEM_DONE:
            self._forget_pieces(data["output_index"])
            self._items[data["output_index"]] = json_copy(data["item"])
            self._done.add(data["output_index"])
        elif data.get("output_index") in self._items:
            self._apply_part(kind, data)

    def _apply_part(self, kind: str, data: Json) -> None:
        index = data["output_index"]
        if kind in _PART_ADDED or kind in _PART_DONE:
            where, position = (_PART_ADDED | _PART_DONE)[kind]
            _put(self._list(index, where), data[position], json_copy(data["part"]))
        elif kind == ev.ANNOTATION_ADDED:
            part = self._list(index, "content")[data["content_index"]]
            part["annotations"] = [*(part.get("annotations") or []), json_copy(data["annotation"])]
        elif kind == ev.ARGUMENTS_DELTA:
            self._add(index, "arguments", 0, "", data["delta"])
        elif kind in (ev.COMMAND_ADDED, ev.COMMAND_DONE):
            _put(self.item(index)["action"]["commands"], data["command_index"], data["command"])
        elif kind == ev.COMMAND_DELTA:
            self._add(index, "commands", data["command_index"], "", data["delta"])
        elif kind == ev.OUTPUT_DELTA:
            for stream, text in data["delta"].items():
                self._add(index, "output", data["command_index"], stream, text)
        elif kind == ev.OUTPUT_DONE:
            _put(self._list(index, "output"), data["command_index"], json_copy(data["output"][0]))

    def _shrunk(self, kind: str, data: Json) -> Iterator[tuple[str, Any]]:
        for key, value in data.items():
            match key:
                case "text" | "refusal" if kind in _TEXT_DONE:
                    part, name = self._part(_TEXT_DONE[kind], data)
                    if part.get(name, "") == value:
                        continue
                case "part" if kind in _PART_DONE:
                    where, position = _PART_DONE[kind]
                    parts = self._list(data["output_index"], where)
                    if data[position] < len(parts) and parts[data[position]] == value:
                        continue
                case "arguments" if (
                    kind == ev.ARGUMENTS_DONE and self._value(data["output_index"], "arguments") == value
                ):
                    continue
                case "command" if kind == ev.COMMAND_DONE and self._command(data) == value:
                    continue
                case "output" if kind == ev.OUTPUT_DONE:
                    told = self._entry(data)
                    value = [{k: v for k, v in entry.items() if k not in told or told[k] != v} for entry in value]
                case "item" if kind == ev.ITEM_DONE and data["output_index"] in self._items:
                    known = self.item(data["output_index"])
                    heavy = [k for k in _heavy(value) if k in known and known[k] == value.get(k)]
                    value = {k: v for k, v in value.items() if k not in heavy}
                case "response" if kind in ev.TERMINAL and value.get("output") == self.items():
                    value = {k: v for k, v in value.items() if k != "output"}
            yield key, value

    def _add(self, index: int, where: str, position: int, key: str, text: str) -> None:
        self._pieces.setdefault((index, where, position, key), []).append(text)

    def _settle(self, index: int) -> None:
        """Move the collected deltas of an item into it."""
        for place in [place for place in self._pieces if place[0] == index]:
            _, where, position, key = place
            text = "".join(self._pieces.pop(place))
            item = self._items.get(index)
            if item is None:
                continue
            if where == "arguments":
                item["arguments"] = (item.get("arguments") or "") + text
            elif where == "commands":
                commands = item["action"]["commands"]
                _put(commands, position, (commands[position] if position < len(commands) else "") + text)
            else:
                slots = item[where] = item.get(where) or []
                if position >= len(slots):
                    _put(
                        slots, position, {"stdout": "", "stderr": ""} if where == "output" else {"type": "output_text"}
                    )
                slots[position][key] = (slots[position].get(key) or "") + text

    def _forget_pieces(self, index: int) -> None:
        for place in [place for place in self._pieces if place[0] == index]:
            del self._pieces[place]

    def _list(self, index: int, where: str) -> list[Any]:
        self._settle(index)
        item = self._items.setdefault(index, {})
        value: list[Any] = item.get(where) or []
        item[where] = value
        return value

    def _part(self, spot: tuple[str, str, str], data: Json) -> tuple[Json, str]:
        where, position, key = spot
        parts = self._list(data["output_index"], where)
        place = data.get(position, 0)
        return (parts[place] if place < len(parts) else {}), key

    def _value(self, index: int, key: str) -> str:
        self._settle(index)
        return str(self._items.get(index, {}).get(key, ""))

    def _command(self, data: Json) -> str:
        self._settle(data["output_index"])
        commands = self._items.get(data["output_index"], {}).get("action", {}).get("commands", [])
        return str(commands[data["command_index"]]) if data["command_index"] < len(commands) else ""

    def _entry(self, data: Json) -> Json:
        entries = self._list(data["output_index"], "output")
        if data["command_index"] < len(entries):
            return {key: entries[data["command_index"]].get(key, "") for key in ("stdout", "stderr")}
        return {"stdout": "", "stderr": ""}


def _heavy(item: Json) -> tuple[str, ...]:
    return _HEAVY.get(item.get("type", ""), ())


def _put(slots: list[Any], position: int, value: Any) -> None:
    """Set or append; a gap (which no well-formed stream has) is filled with empty objects."""
    while len(slots) < position:
        slots.append({})
    if len(slots) == position:
        slots.append(value)
    else:
        slots[position] = value

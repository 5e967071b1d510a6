"""Whether a provider's event may be passed on: it has the fields that the event fold relies on, of the right types, for an open item.

What a provider sends is not ours to trust: an event that passes here can be numbered, stored and read again for ever. Kinds of
events that the fold does not read pass as they are. Pure.

An event is checked by reading it into the struct of its kind, and travels on as the dict that it came as: what a provider adds to an
event stays on it, and to write a struct's event again would cost more than the check.
"""

from dataclasses import dataclass
from typing import Any

from msgspec import ValidationError, convert

from limpet.core import events as ev
from limpet.responses.event_payloads import (
    OF_PROVIDERS,
    SHELL_CALL,
    SHELL_OUTPUT,
    CommandEvent,
    ContentAnnotation,
    ContentEvent,
    ItemEvent,
    OutputEvent,
    SummaryEvent,
    WholeItem,
)

Json = dict[str, Any]


@dataclass(slots=True)
class _OpenItem:
    """How many parts of each kind were begun."""

    kind: str
    contents: int = 0
    summaries: int = 0
    commands: int = 0
    entries: int = 0


class EventValidator:
    """Judges the events of one turn in their order."""

    def __init__(self) -> None:
        self._open: dict[int, _OpenItem] = {}
        self._seen: set[int] = set()

    def problem(self, kind: str, data: Json) -> str | None:
        """What keeps this event from being told; None lets it pass, and counts it as told."""
        shape = OF_PROVIDERS.get(kind)
        if shape is None:
            if "output_index" not in data:
                return None
            shape = ItemEvent
        try:
            event = convert(data, shape)
        except ValidationError as error:
            return f"{kind} cannot be read: {error}"
        if kind == ev.ITEM_ADDED:
            return self._added(event)
        item = self._open.get(event.output_index)
        if item is None:
            return f"{kind} is about an item that is not open"
        if kind == ev.ITEM_DONE:
            del self._open[event.output_index]
            return None
        return None if _is_next(event, item) else f"{kind} is about a part that was not added"

    def _added(self, event: ItemEvent) -> str | None:
        assert isinstance(event, WholeItem)
        index, item = event.output_index, event.item
        if index in self._seen:
            return f"the item {index} was added twice"
        self._seen.add(index)
        begun = _OpenItem(item.type, len(item.content or ()), len(item.summary or ()))
        begun.commands = len(item.action["commands"]) if item.type == SHELL_CALL else 0
        begun.entries = len(item.output) if item.type == SHELL_OUTPUT else 0
        self._open[index] = begun
        return None


def _is_next(event: ItemEvent, item: _OpenItem) -> bool:
    """Parts come one after the other; a part that was not begun may be begun by its own first event, but not by an annotation."""
    if isinstance(event, ContentEvent):
        if event.content_index == item.contents and not isinstance(event, ContentAnnotation):
            item.contents += 1
        return event.content_index < item.contents
    if isinstance(event, SummaryEvent):
        if event.summary_index == item.summaries:
            item.summaries += 1
        return event.summary_index < item.summaries
    if isinstance(event, CommandEvent):
        item.commands += event.command_index == item.commands
        return item.kind == SHELL_CALL and event.command_index < item.commands
    if isinstance(event, OutputEvent):
        item.entries += event.command_index == item.entries
        return item.kind == SHELL_OUTPUT and event.command_index < item.entries
    return True

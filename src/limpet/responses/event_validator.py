"""Whether a provider's event may be passed on: it has the fields that the event fold relies on, of the right types, for an open item.

What a provider sends is not ours to trust: an event that passes here can be numbered, stored and read again for ever. Kinds of
events that the fold does not read pass as they are. Pure.

An event is checked by reading it into the struct of its kind, and travels on as the dict that it came as: what a provider adds to an
event stays on it, and to write a struct's event again would cost more than the check.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta, ValidationError, convert

from limpet.core import events as ev
from limpet.core.resources import Count, WireObject

Json = dict[str, Any]
SHELL_CALL, SHELL_OUTPUT = "shell_call", "shell_call_output"
Objects = list[Json] | Literal[""] | None  # some providers write "" for none


class ItemShape(WireObject, frozen=True, kw_only=True):
    """An output item: its lists, where it has them, are lists of objects."""

    type: str
    id: str
    content: Objects = None
    summary: Objects = None
    arguments: Any = None
    action: Any = None
    output: Any = None

    def __post_init__(self) -> None:
        if self.type == "function_call" and not isinstance(self.arguments, str | None):
            raise ValueError("the `arguments` of a function call must be a text")
        if self.type == SHELL_CALL:
            convert(self.action, ActionShape)
        if self.type == SHELL_OUTPUT:
            convert(self.output, list[EntryShape])


class ActionShape(WireObject, frozen=True, kw_only=True):
    """What a shell call asks for."""

    commands: list[str]


class EntryShape(WireObject, frozen=True, kw_only=True):
    """The result of one command."""

    stdout: str = ""
    stderr: str = ""


class PartShape(WireObject, frozen=True, kw_only=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    annotations: Objects = None


class ItemEvent(WireObject, frozen=True, kw_only=True):
    """One about an item, and no more is known of it."""

    output_index: Count


class WholeItem(ItemEvent, frozen=True, kw_only=True):
    item: ItemShape


class ArgumentsDelta(ItemEvent, frozen=True, kw_only=True):
    delta: str


class ArgumentsDone(ItemEvent, frozen=True, kw_only=True):
    arguments: str


class ContentEvent(ItemEvent, frozen=True, kw_only=True):
    content_index: Count


class ContentDelta(ContentEvent, frozen=True, kw_only=True):
    delta: str


class ContentText(ContentEvent, frozen=True, kw_only=True):
    text: str


class ContentRefusal(ContentEvent, frozen=True, kw_only=True):
    refusal: str


class ContentPart(ContentEvent, frozen=True, kw_only=True):
    part: PartShape


class ContentAnnotation(ContentEvent, frozen=True, kw_only=True):
    annotation: Json
    annotation_index: Count


class CommandEvent(ItemEvent, frozen=True, kw_only=True):
    """One about a command of a shell call."""

    command_index: Count


class CommandText(CommandEvent, frozen=True, kw_only=True):
    command: str


class CommandDelta(CommandEvent, frozen=True, kw_only=True):
    delta: str


class OutputEvent(ItemEvent, frozen=True, kw_only=True):
    """One about the output of a command."""

    command_index: Count


class OutputDelta(OutputEvent, frozen=True, kw_only=True):
    delta: dict[Literal["stdout", "stderr"], str]


class OutputWhole(OutputEvent, frozen=True, kw_only=True):
    output: Annotated[list[EntryShape], Meta(min_length=1, max_length=1)]


class SummaryEvent(ItemEvent, frozen=True, kw_only=True):
    summary_index: Count


class SummaryDelta(SummaryEvent, frozen=True, kw_only=True):
    delta: str


class SummaryText(SummaryEvent, frozen=True, kw_only=True):
    text: str


class SummaryPart(SummaryEvent, frozen=True, kw_only=True):
    part: PartShape


_SHAPES: Mapping[str, type[ItemEvent]] = {
    ev.ITEM_ADDED: WholeItem,
    ev.ITEM_DONE: WholeItem,
    ev.TEXT_DELTA: ContentDelta,
    ev.TEXT_DONE: ContentText,
    ev.REFUSAL_DELTA: ContentDelta,
    ev.REFUSAL_DONE: ContentRefusal,
    ev.REASONING_DELTA: ContentDelta,
    ev.REASONING_DONE: ContentText,
    ev.SUMMARY_DELTA: SummaryDelta,
    ev.SUMMARY_DONE: SummaryText,
    ev.PART_ADDED: ContentPart,
    ev.PART_DONE: ContentPart,
    ev.SUMMARY_PART_ADDED: SummaryPart,
    ev.SUMMARY_PART_DONE: SummaryPart,
    ev.ANNOTATION_ADDED: ContentAnnotation,
    ev.COMMAND_ADDED: CommandText,
    ev.COMMAND_DELTA: CommandDelta,
    ev.COMMAND_DONE: CommandText,
    ev.OUTPUT_DELTA: OutputDelta,
    ev.OUTPUT_DONE: OutputWhole,
    ev.ARGUMENTS_DELTA: ArgumentsDelta,
    ev.ARGUMENTS_DONE: ArgumentsDone,
}


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
        shape = _SHAPES.get(kind)
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

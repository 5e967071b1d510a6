"""What stands in each event of a response's stream beside its type and number: one struct for each kind of payload.

By these a provider's event is checked, those of the gateway's own kinds are made, and `/openapi.json` describes all of them. A provider
may add keys, and send kinds of events that are not known here.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, convert

from limpet.core import events as ev
from limpet.core.resources import Count, WireObject
from limpet.responses.resource import Response
from limpet.responses.shell_items import CommandEntry

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
    operation: Any = None

    def __post_init__(self) -> None:
        if self.type == "function_call" and not isinstance(self.arguments, str | None):
            raise ValueError("the `arguments` of a function call must be a text")
        if self.type == SHELL_CALL:
            convert(self.action, ActionShape)
        if self.type == SHELL_OUTPUT:
            convert(self.output, list[EntryShape])
        if self.type == "apply_patch_call":
            convert(self.operation, PatchShape)


class ActionShape(WireObject, frozen=True, kw_only=True):
    """What a shell call asks for."""

    commands: list[str]


class PatchShape(WireObject, frozen=True, kw_only=True):
    """What an apply_patch call asks for."""

    type: str
    path: str
    diff: str | None = None


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


class ItemPieceEvent(ItemEvent, frozen=True, kw_only=True):
    """One about something in an item. It also names the item, `item_id`, at which the fold does not look."""


class WholeItem(ItemEvent, frozen=True, kw_only=True):
    item: ItemShape


class ArgumentsDelta(ItemPieceEvent, frozen=True, kw_only=True):
    delta: str


class ArgumentsDone(ItemPieceEvent, frozen=True, kw_only=True):
    arguments: str


class ContentEvent(ItemPieceEvent, frozen=True, kw_only=True):
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


class WholeCommand(CommandEvent, frozen=True, kw_only=True):
    """The whole command at its end, none of it at its beginning."""

    command: str


class CommandDelta(CommandEvent, frozen=True, kw_only=True):
    """The next piece of a command, as the model writes it."""

    delta: str


class OutputEvent(ItemPieceEvent, frozen=True, kw_only=True):
    """One about the output of a command."""

    command_index: Count


class OutputDelta(OutputEvent, frozen=True, kw_only=True):
    """The next piece of what a command prints, by its stream."""

    delta: dict[Literal["stdout", "stderr"], str]


class OutputWhole(OutputEvent, frozen=True, kw_only=True):
    output: Annotated[list[EntryShape], Meta(min_length=1, max_length=1)]


class SummaryEvent(ItemPieceEvent, frozen=True, kw_only=True):
    summary_index: Count


class SummaryDelta(SummaryEvent, frozen=True, kw_only=True):
    delta: str


class SummaryText(SummaryEvent, frozen=True, kw_only=True):
    text: str


class SummaryPart(SummaryEvent, frozen=True, kw_only=True):
    part: PartShape


class CustomInputDelta(ItemPieceEvent, frozen=True, kw_only=True):
    delta: str


class CustomInputDone(ItemPieceEvent, frozen=True, kw_only=True):
    input: str


# --- the gateway's own ---------------------------------------------------------------------------------------------


class WholeResponse(WireObject, frozen=True, kw_only=True):
    """The response as it is then."""

    response: Response


class CommandResult(OutputEvent, frozen=True, kw_only=True):
    """All that a command printed, and how it ended."""

    item_id: str
    output: list[CommandEntry]


class CompactionBegun(ItemEvent, frozen=True, kw_only=True):
    """A model is asked to sum the conversation up."""

    item_id: str


class StreamError(WireObject, frozen=True, kw_only=True):
    """The stream cannot go on; the response may."""

    code: str
    message: str
    param: str | None


OF_PROVIDERS: Mapping[str, type[ItemEvent]] = {
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
    ev.COMMAND_ADDED: WholeCommand,
    ev.COMMAND_DELTA: CommandDelta,
    ev.COMMAND_DONE: WholeCommand,
    ev.OUTPUT_DELTA: OutputDelta,
    ev.OUTPUT_DONE: OutputWhole,
    ev.ARGUMENTS_DELTA: ArgumentsDelta,
    ev.ARGUMENTS_DONE: ArgumentsDone,
}
PAYLOADS: Mapping[str, type[WireObject]] = {
    **dict.fromkeys(
        (ev.CREATED, ev.QUEUED, ev.IN_PROGRESS, ev.COMPLETED, ev.FAILED, ev.INCOMPLETE),
        WholeResponse,
    ),
    **OF_PROVIDERS,
    ev.CUSTOM_INPUT_DELTA: CustomInputDelta,
    ev.CUSTOM_INPUT_DONE: CustomInputDone,
    ev.OUTPUT_DONE: CommandResult,
    ev.COMPACTING: CompactionBegun,
    ev.ERROR: StreamError,
}

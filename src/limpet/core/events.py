"""What happens in a response: its events, and the moves that its states allow.

Two rules. An event is a value: its type and its payload as on the wire, without `type` and `sequence_number`, which the
journal adds. A state changes only along the tables below; any other move raises.
"""

from dataclasses import dataclass
from typing import Any, Literal

from limpet.core.command import Stream

CREATED = "response.created"
QUEUED = "response.queued"
IN_PROGRESS = "response.in_progress"
COMPLETED = "response.completed"
FAILED = "response.failed"
INCOMPLETE = "response.incomplete"
ITEM_ADDED = "response.output_item.added"
ITEM_DONE = "response.output_item.done"
PART_ADDED = "response.content_part.added"
PART_DONE = "response.content_part.done"
TEXT_DELTA = "response.output_text.delta"
TEXT_DONE = "response.output_text.done"
ANNOTATION_ADDED = "response.output_text.annotation.added"
REFUSAL_DELTA = "response.refusal.delta"
REFUSAL_DONE = "response.refusal.done"
ARGUMENTS_DELTA = "response.function_call_arguments.delta"
ARGUMENTS_DONE = "response.function_call_arguments.done"
CUSTOM_INPUT_DELTA = "response.custom_tool_call_input.delta"
CUSTOM_INPUT_DONE = "response.custom_tool_call_input.done"
SUMMARY_PART_ADDED = "response.reasoning_summary_part.added"
SUMMARY_PART_DONE = "response.reasoning_summary_part.done"
SUMMARY_DELTA = "response.reasoning_summary_text.delta"
SUMMARY_DONE = "response.reasoning_summary_text.done"
REASONING_DELTA = "response.reasoning_text.delta"
REASONING_DONE = "response.reasoning_text.done"
COMMAND_ADDED = "response.shell_call_command.added"
COMMAND_DELTA = "response.shell_call_command.delta"
COMMAND_DONE = "response.shell_call_command.done"
OUTPUT_DELTA = "response.shell_call_output_content.delta"
OUTPUT_DONE = "response.shell_call_output_content.done"
COMPACTING = "response.compaction.compacting"
ERROR = "error"  # of a stream that breaks off

TERMINAL = frozenset({COMPLETED, FAILED, INCOMPLETE})
# The last event of a response that ended so. Clients know no event of its own for a cancelled one; its object has the status.
ENDING = {"completed": COMPLETED, "failed": FAILED, "incomplete": INCOMPLETE, "cancelled": INCOMPLETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    `exec_id`, `stream` and `raw_offset` are set on command output: the raw position (bytes of that stream) up to which the
    emitted text is complete; `raw_offset` only where decoder and redactor may restart empty.
    """

    type: str
    data: dict[str, Any]
    exec_id: str | None = None
    stream: Stream | None = None
    raw_offset: int | None = None


ResponseStatus = Literal["queued", "in_progress", "completed", "failed", "incomplete", "cancelled"]

RESPONSE_MOVES: dict[str, frozenset[str]] = {
    "queued": frozenset({"in_progress", "cancelled", "failed"}),
    "in_progress": frozenset({"completed", "failed", "incomplete", "cancelled"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "incomplete": frozenset(),
    "cancelled": frozenset(),
}


class IllegalMove(RuntimeError):
    """A state was asked to change in a way that its table does not hold: a fault of ours, never of a client."""


def move(table: dict[str, frozenset[str]], before: str, after: str) -> str:
    """The state `after`, if the table allows it; else raises IllegalMove."""
    if after not in table.get(before, frozenset()):
        raise IllegalMove(f"{before} -> {after} is not a move; allowed: {sorted(table.get(before, frozenset()))}")
    return after

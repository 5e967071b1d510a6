"""From what the wire says of a command back to how it ended."""

from typing import Any

from msgspec import convert

from limpet.core import exit_codes
from limpet.core.command import Exited, Lost, Outcome, TimedOut
from limpet.responses.shell_items import CommandEntry, TimeoutOutcome, WireOutcome

UNKNOWN = "It is not known how the command ended."


def outcome_of(shown: WireOutcome) -> Outcome:
    """As far as that leads back: an aborted command has exited."""
    if isinstance(shown, TimeoutOutcome):
        return TimedOut()
    return Lost(UNKNOWN) if shown.exit_code == exit_codes.LOST else Exited(shown.exit_code)


def stored_outcome(row: dict[str, Any]) -> Outcome:
    """The same of a row of the executions."""
    return outcome_of(convert(row, WireOutcome))


def is_without_result(entry: CommandEntry) -> bool:
    """Whether the command was stopped or lost."""
    return not isinstance(outcome_of(entry.outcome), Exited)

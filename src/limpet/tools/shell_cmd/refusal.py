"""The refusal of a command before anything runs. Values only."""

from dataclasses import dataclass
from typing import Literal

Code = Literal["control_syntax", "not_one_command", "inline_script", "runs_other_programs", "outside_trusted_directory"]


@dataclass(frozen=True, slots=True)
class CommandRefusal:
    """`code` is the kind of refusal, `what` the words that were found, `why` what they do, `remedy` what to write instead; why
    and remedy are clauses that begin with a verb."""

    code: Code
    what: str
    why: str
    remedy: str


def inline(what: str) -> CommandRefusal:
    """Code on the command line, whose paths cannot be checked."""
    return CommandRefusal(
        "inline_script",
        what,
        "runs an inline script",
        "write the script to a file in the trusted directory and run that file",
    )


def runs_others(what: str, remedy: str) -> CommandRefusal:
    return CommandRefusal("runs_other_programs", what, "runs other programs than the one that is named", remedy)

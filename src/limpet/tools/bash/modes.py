"""Which mode a call of `Bash` is in, by the arguments it has: every combination in one table. Decides over values; runs nothing.

docs/bash-tool.md, "Every combination", shows this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from limpet.tools.bash.schema import BashRequest

Doing = Literal["run", "start", "status", "kill", "talk"]
COLUMNS = ("command", "task_id", "run_in_background", "kill", "stdin_text", "wait", "stream")

NOTHING = "give command to run something, or task_id for what runs already (with kill, stdin_text, wait or stream; alone for its status)"
BOTH = "command starts something new and task_id means what runs already; leave one of them out"
KILL_WHAT = "kill ends what task_id names; a new command has no task to kill, so leave kill out or give task_id instead of command"
KILL_ALONE = (
    "kill ends the task, so nothing can be sent to it or streamed from it; leave stdin_text and stream out, or kill"
)


@dataclass(frozen=True, slots=True)
class ModeRefused:
    """That combination means nothing. `problem` is a clause for the model."""

    problem: str


@dataclass(frozen=True, slots=True)
class ModeRow:
    """One line of the table. `given` has a character for each of COLUMNS: x given (and true), - not given, ? either."""

    given: str
    does: Doing | ModeRefused

    def fits(self, given: Mapping[str, bool]) -> bool:
        return all(mark == "?" or given[name] == (mark == "x") for name, mark in zip(COLUMNS, self.given, strict=True))


# run: to its end, stdin_text is its whole input. start: in the background; then stream, send stdin_text and wait, where given.
# talk: stream, send stdin_text, wait, in this order, where given. A task runs in the background already, so
# run_in_background says nothing about it; waiting is what run and kill do anyway.
TABLE = (
    ModeRow("--?????", ModeRefused(NOTHING)),
    ModeRow("xx?????", ModeRefused(BOTH)),
    ModeRow("x-?x???", ModeRefused(KILL_WHAT)),
    ModeRow("x---??-", "run"),
    ModeRow("x-x-???", "start"),
    ModeRow("x---??x", "start"),
    ModeRow("-x?----", "status"),
    ModeRow("-x?x-?-", "kill"),
    ModeRow("-x?xx??", ModeRefused(KILL_ALONE)),
    ModeRow("-x?x-?x", ModeRefused(KILL_ALONE)),
    ModeRow("-x?-x??", "talk"),
    ModeRow("-x?--x?", "talk"),
    ModeRow("-x?---x", "talk"),
)


def mode_of(request: BashRequest) -> Doing | ModeRefused:
    """The one row that fits."""
    given = {
        "command": request.command is not None,
        "task_id": request.task_id is not None,
        "run_in_background": request.background,
        "kill": request.kill,
        "stdin_text": request.talks,
        "wait": request.wait,
        "stream": request.stream,
    }
    return decide(given)


def decide(given: Mapping[str, bool]) -> Doing | ModeRefused:
    """The same for bare facts, by the names of COLUMNS."""
    return next(row.does for row in TABLE if row.fits(given))

"""What `shell_cmd` returns: JSON or markdown (docs/shell-cmd-tool.md, "What comes back"). Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from limpet.core.command import Aborted, Exited, Lost, Outcome, TimedOut, exit_code
from limpet.tools.output import OutputExcerpt
from limpet.tools.tool import JsonObject

Detail = Literal["minimal", "full"]
Ending = Literal["completed", "failed", "canceled", "timed_out"]
NO_OUTPUT = "(No output)"
# Control sequences of terminals (ECMA-48): CSI, OSC, DCS and the like, and single ones.
_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x07|\x1b\\|$)|[ -/]*[0-~])", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One command that was run. `executed_at` is in microseconds UTC, `duration` in seconds."""

    line: str
    outcome: Outcome
    stdout: OutputExcerpt
    stderr: OutputExcerpt
    duration: float
    executed_at: int
    detail: Detail
    artifacts: Sequence[JsonObject] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def exit_code(self) -> int:
        return exit_code(self.outcome)

    @property
    def error(self) -> str:
        """One sentence on why it did not end well, empty where it did."""
        return how_it_ended(self.outcome)[1]

    @property
    def is_canceled(self) -> bool:
        return isinstance(self.outcome, Aborted)

    @property
    def milliseconds(self) -> int:
        return round(self.duration * 1000)


def how_it_ended(outcome: Outcome) -> tuple[Ending, str]:
    """The last state of such a command, and one sentence on why it did not end well."""
    match outcome:
        case Exited(0):
            return "completed", ""
        case Exited(code):
            return "failed", f"The command ended with exit code {code}."
        case TimedOut():
            return "timed_out", "The command was killed with everything that it had started: its timeout was over."
        case Aborted():
            return "canceled", "The command was canceled."
        case Lost(reason):
            return "failed", f"How the command ended is unknown: {reason}"


def as_json(report: Report) -> JsonObject:
    """The six fields that are always there; further ones only where they say something."""
    extra: JsonObject = {
        "stdout_truncated": report.stdout.left_out,
        "stderr_truncated": report.stderr.left_out,
        "stdout_file": report.stdout.file,
        "stderr_file": report.stderr.file,
        "canceled": report.is_canceled,
        "error": "" if isinstance(report.outcome, Exited) else report.error,
        "notes": list(report.notes),
    }
    return {
        "exit_code": report.exit_code,
        "stdout": report.stdout.text,
        "stderr": report.stderr.text,
        "timed_out": isinstance(report.outcome, TimedOut),
        "duration_ms": report.milliseconds,
        "artifacts": list(report.artifacts),
        **{name: value for name, value in extra.items() if value},
    }


def as_markdown(report: Report) -> str:
    """For people and models: headings, the status, both streams in fences that their text cannot close."""
    lines = [
        "### Command Execution",
        "",
        f"**Command:** {_code(report.line)}",
        f"**Duration:** {report.milliseconds}ms",
        f"**Status:** {_status(report)}",
    ]
    if report.detail == "full":
        lines.append(f"**Executed at:** {datetime.fromtimestamp(report.executed_at / 1e6, tz=UTC).isoformat()}")
    if report.error:
        lines.append(f"**Error:** {report.error}")
    lines += [f"*{note}*" for note in report.notes]
    preview = " (preview)" if report.detail == "minimal" else ""
    lines += _stream(f"Standard Output{preview}", report.stdout, detail=report.detail)
    lines += _stream(f"Standard Error{preview}", report.stderr, detail=report.detail)
    if not report.stdout.text and not report.stderr.text and not report.error:
        lines += ["", f"*{NO_OUTPUT}*"]
    if report.artifacts:
        lines += ["", "### Artifacts", "", *map(_artifact, report.artifacts)]
    return "\n".join(lines) + "\n"


def assistant_text(report: Report) -> str:
    """What an AI command says to the user: its clean standard output if it ended well, the formatted failure otherwise."""
    if report.error:
        return as_markdown(report)
    return _CONTROL.sub("", report.stdout.text).strip() or NO_OUTPUT


def _status(report: Report) -> str:
    if report.error:
        return "❌ Error"
    return f"✅ Exit code {report.exit_code}"


def _stream(title: str, shown: OutputExcerpt, *, detail: str) -> list[str]:
    if not shown.text:
        return []
    fence = "`" * max(3, 1 + _longest_run(shown.text))
    lines = ["", f"### {title}", "", fence, shown.text.removesuffix("\n"), fence]
    if shown.left_out:
        more = 'Use output_detail "full" for more' if detail == "minimal" else "Not all of it fits"
        where = f"; all of it is in {shown.file}" if shown.file else ""
        lines += ["", f"*Truncated: {shown.size} bytes in all. {more}{where}.*"]
    elif shown.file:
        lines += ["", f"*Not UTF-8 text; its bytes are in {shown.file}.*"]
    return lines


def _artifact(artifact: JsonObject) -> str:
    if "error" in artifact:
        return f"- {_code(artifact['path'])}: {artifact['error']}"
    digest = f"sha256 `{artifact['sha256']}`" if "sha256" in artifact else "too large to be hashed"
    return f"- {_code(artifact['path'])}: {artifact['bytes']} bytes, {digest}"


def _code(text: str) -> str:
    """As inline code that its own backticks cannot end; line breaks would."""
    text = text.replace("\r", " ").replace("\n", " ")
    run = _longest_run(text)
    space = " " if run else ""
    return f"{'`' * (run + 1)}{space}{text}{space}{'`' * (run + 1)}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)

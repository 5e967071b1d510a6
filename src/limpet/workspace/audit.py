"""The audit record: one for every call and every refusal, with session, call, command, verdict and outcome.

Everything in a record has been screened: it may be kept where logs are kept.
"""

import inspect
import json
import logging
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import anyio

from limpet.core.clock import Clock
from limpet.core.command import Argv, Command, Script
from limpet.core.errors import LimpetError
from limpet.guard.redaction.redactor import Redactor
from limpet.workspace.result import KeptOutput

MARK = "shell_audit"
LONGEST = 5.0  # seconds that a record may hold up its command
AUDIT_LOG = "limpet.shell_audit"
log = logging.getLogger(AUDIT_LOG)

Judgement = Literal["allowed", "approved", "denied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Who asks for a command, and what goes into its record.

    `action` names the tool's mode ("" is the workspace's own word: run, spawn, start). `judged` is the command as its author wrote
    it, where a tool puts words of its own around it: that is judged, approved and recorded instead of what is run.
    `stderr_bytes` counts what is the command's own of a standard error to which a tool's shell adds words; None counts all of it.
    """

    action: str = ""
    description: str = ""
    call_id: str | None = None
    task_id: str | None = None
    judged: str | Script | Argv | None = None
    stderr_bytes: Callable[[KeptOutput], int] | None = None

    def as_written(self, command: Command) -> Script | Argv:
        """The command as its author wrote it."""
        if self.judged is None:
            return command.what
        return Script(self.judged) if isinstance(self.judged, str) else self.judged

    def own_bytes(self, stderr: KeptOutput) -> int:
        """How much of a standard error the command wrote itself."""
        return stderr.size if self.stderr_bytes is None else self.stderr_bytes(stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """What happened. `timestamp` is UTC in ISO 8601, `duration` in seconds, `exit_code` None where nothing has ended.

    `verdict` "denied" says that nothing ran, `rule` then which setting refused it; "approved" that an approver said yes. `error` is a
    sentence where the call failed without an exit code.
    """

    timestamp: str
    workspace: str
    session: str
    action: str
    command: str
    description: str = ""
    cwd: str | None = None
    exit_code: int | None = None
    error: str | None = None
    verdict: Judgement = "allowed"
    rule: str | None = None
    duration: float | None = None
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    call_id: str | None = None
    task_id: str | None = None


OnAudit = Callable[[AuditRecord], Awaitable[None] | None]


class Audit:
    """Where records go: one line to the logger "limpet.shell_audit" at level INFO, then the callback.

    A callback that raises, or takes longer than LONGEST, changes nothing about the command and is not silent: that is logged at level
    ERROR with the action it was about. Records are told also where the caller was cancelled.
    """

    def __init__(self, callback: OnAudit | None = None) -> None:
        self._callback = callback

    @property
    def is_heard(self) -> bool:
        """Whether a record would reach a callback or the log."""
        return self._callback is not None or log.isEnabledFor(logging.INFO)

    async def tell(self, record: AuditRecord) -> None:
        if log.isEnabledFor(logging.INFO):
            log.info("%s %s", MARK, line_of(record), extra={MARK: asdict(record)})
        if self._callback is None:
            return
        with anyio.move_on_after(LONGEST, shield=True) as time:
            try:
                answer = self._callback(record)
                if inspect.isawaitable(answer):
                    await answer
            except (
                Exception
            ):  # the caller's own code: a command that ran is not undone by it, so it is told and the result stands
                log.exception("%s The audit callback failed for %s.", MARK, record.action)
        if time.cancelled_caught:
            log.error("%s The audit callback took longer than %g s for %s.", MARK, LONGEST, record.action)


class NoAudit(Audit):
    """No records: another part of the program writes them."""

    @property
    def is_heard(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTrail:
    """Writes the records of one session of a workspace. `directory` is where commands run that name none; `redactor` redacts all."""

    audit: Audit
    workspace: str
    session: str
    directory: str
    redactor: Redactor
    clock: Clock

    async def write(self, call: Call, command: Command | None = None, /, **facts: Any) -> None:
        """Put on record what came of a call. `facts` are fields of AuditRecord."""
        if not self.audit.is_heard:
            return
        if command is not None:
            facts = {"command": text_of(call.as_written(command)), "cwd": command.cwd, **facts}
        facts["cwd"] = facts.get("cwd") or self.directory
        redacted: dict[str, Any] = self.redactor.value(facts)
        record = AuditRecord(
            timestamp=timestamp(self.clock.now()),
            workspace=self.workspace,
            session=self.session,
            action=call.action,
            description=self.redactor.text(call.description),
            call_id=call.call_id and self.redactor.text(call.call_id),
            task_id=call.task_id,
            **redacted,
        )
        await self.audit.tell(record)


def text_of(what: Script | Argv) -> str:
    """A command as people read it: a script as it is, a program with its arguments quoted where a shell would need it."""
    return what.text if isinstance(what, Script) else shlex.join(what.args)


def sentence_of(error: BaseException) -> str:
    """Why a call had no result, for its record."""
    if isinstance(error, LimpetError):
        return error.message
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return "The caller was cancelled or gave up; nothing of the command is left."
    return f"{type(error).__name__}: {error}"


def line_of(record: AuditRecord) -> str:
    """The record as key=value pairs on one line, values in JSON; what is None is left out."""
    return " ".join(f"{key}={json.dumps(value)}" for key, value in asdict(record).items() if value is not None)


def timestamp(microseconds: int) -> str:
    """A time of `Clock.now` in ISO 8601, UTC, to the microsecond."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="microseconds")

"""The guard around every command of a workspace: judges it, asks for approval, redacts its output, records it. Runs nothing itself."""

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import anyio

from limpet.core.clock import Clock
from limpet.core.command import Argv, Command, Script
from limpet.core.errors import CommandDenied, LimpetError
from limpet.core.secret import Secret
from limpet.guard.policy.environment import NON_INTERACTIVE, judge_environment
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.rules import PolicyRules
from limpet.guard.policy.verdict import Denied, NeedsApproval, Verdict
from limpet.guard.redaction.redactor import Redaction, Redactor
from limpet.guard.redaction.stream import RedactingStream
from limpet.workspace.approvals import ApprovalRequest, Approvals, Approved, Refused, request_id
from limpet.workspace.audit import Audit, AuditRecord, Call, Judgement, timestamp
from limpet.workspace.capabilities import Capabilities
from limpet.workspace.command_redactors import CommandRedactors, together
from limpet.workspace.file_access import FileAccess, is_below
from limpet.workspace.judge_factory import JudgeFactory
from limpet.workspace.kept_outputs import KEPT
from limpet.workspace.path_resolver import BoxDirectories

DEFAULT = Redaction()
SHOWN = 2_000  # bytes of a command's input that its approver is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedPolicy:
    """One policy as it is asked: its judge, and what it says of files.

    With `places` the judge is told of every command where it begins: it would take it for the first of its roots, and that is
    another place where a view has roots of its own, or where a runtime without walls has directories of its own.
    """

    policy: Policy
    judge: Judge
    confines: FileAccess
    places: BoxDirectories | None = None

    async def verdict(self, command: Command) -> Verdict:
        """What the policy says. Variables that only make programs non-interactive are not judged."""
        env = {name: value for name, value in command.env.items() if NON_INTERACTIVE.get(name) != value}
        said = judge_environment(env, allowed=self.policy.environment)
        if isinstance(said, Denied):
            return said
        if self.places is not None:
            command = replace(command, cwd=self.places.begins(command.cwd))
        return await self.judge.judge(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandGuard:
    """All rules of a workspace, or of a view of one: every one of `ruled` must let a command pass.

    `screening` is of `redaction`, and screens output; None leaves output as it is. Records and refusals are screened in any case, then by
    `recording` (None: by the default rules). `redaction` always holds the secrets of the workspace's own variables.
    `roots` are the directories that count as the workspace's own. `own_redactors`
    are those of commands with secrets of their own; views share them.
    """

    name: str
    session: str
    clock: Clock
    surroundings: JudgeFactory
    roots: tuple[str, ...]
    approvals: Approvals
    audit: Audit
    capabilities: Capabilities
    ruled: tuple[GuardedPolicy, ...] = ()
    redaction: Redaction = DEFAULT
    recording: Redactor | None = None
    screening: Redactor | None = None
    own_redactors: CommandRedactors = field(default_factory=CommandRedactors)

    def with_more(
        self,
        *,
        policy: Policy | None = None,
        redaction: Redaction | None = None,
        roots: Sequence[str] | None = None,
        session: str | None = None,
    ) -> "CommandGuard":
        """These rules and further ones: a command must pass both."""
        rules = replace(self, roots=self.roots if roots is None else tuple(roots), session=session or self.session)
        if policy is not None:
            places = self.surroundings.places
            kept = f"{places.home}/{KEPT}"
            # A view that is confined to directories of its own can still read the outputs that were kept for it.
            known = rules.roots if any(is_below(kept, root) for root in rules.roots) else (*rules.roots, kept)
            ruled = GuardedPolicy(
                policy=policy,
                judge=self.surroundings.judge(policy, known),
                confines=confines_of(policy, [places.outside(root) for root in known]),
                places=None if places == BoxDirectories() and rules.roots[:1] == (places.data,) else places,
            )
            rules = replace(rules, ruled=(*rules.ruled, ruled))
        if redaction is not None:
            union = replace(redaction, secrets={**self.redaction.secrets, **redaction.secrets})
            both = union if self.screening is None else together(self.redaction, redaction)
            rules = replace(rules, redaction=both, screening=Redactor(both))
        return rules

    @property
    def redactor(self) -> Redactor:
        """What redacts records, and output where redaction was asked for."""
        return self.screening or self.recording or default_redactor()

    @property
    def confines(self) -> tuple[FileAccess, ...]:
        """The rules on files."""
        closed = () if self.capabilities.files else (FileAccess(closed=True),)
        return (*closed, *(one.confines for one in self.ruled))

    def screen_of(self, own: Mapping[str, Secret]) -> Callable[[], RedactingStream]:
        """Makes the screens for a command's output: `own`, what its variables hold that look like secrets, is hidden too."""
        if not own:
            return self.redactor.screen
        return self.own_redactors.redactor(self.redaction, own).screen

    @property
    def max_duration(self) -> float | None:
        """The default and the ceiling of every command, in seconds."""
        return min((one.policy.max_duration for one in self.ruled if one.policy.max_duration is not None), default=None)

    def bounded(self, timeout: float | None) -> float | None:
        """The time that a command gets which asked for this one."""
        longest = self.max_duration
        if longest is None:
            return timeout
        return longest if timeout is None else min(longest, timeout)

    async def admit(self, command: Command, call: Call) -> Judgement:
        """Let it pass, after asking where a rule wants that. Raises CommandDenied, which is on record then."""
        judged = command if call.judged is None else replace(command, what=_judged(command, call))
        try:
            verdict, refusal = await self._decide(judged, call)
        except BaseException as error:  # it was not approved, so nothing runs
            await self.record(call, judged, verdict="denied", error=sentence_of(error))
            raise
        if refusal is None:
            return verdict
        denied = CommandDenied(*(self.redactor.text(part) for part in (refusal.rule, refusal.reason, refusal.remedy)))
        await self.record(call, judged, verdict="denied", rule=refusal.rule, error=denied.message)
        raise denied

    async def _decide(self, judged: Command, call: Call) -> tuple[Judgement, Denied | None]:
        if not self.capabilities.shell:
            return "denied", _no_shell(self.name)
        if not self.ruled:
            return "allowed", None
        await self.surroundings.ready()
        said = [await one.verdict(judged) for one in self.ruled]
        denied = next((one for one in said if isinstance(one, Denied)), None)
        questions = {one.digest: one for one in said if isinstance(one, NeedsApproval)}
        if denied is not None or not questions:
            return "allowed", denied
        return "approved", await self._ask(judged, call, list(questions.values()))

    async def _ask(self, command: Command, call: Call, questions: Sequence[NeedsApproval]) -> Denied | None:
        for question in questions:
            request = ApprovalRequest(
                id=request_id(),
                workspace=self.name,
                session=self.session,
                command=self.redactor.text(text_of(command.what)),
                cwd=command.cwd,
                description=self.redactor.text(call.description),
                rule=question.rule,
                reason=self.redactor.text(question.reason),
                stdin=self.redactor.text((command.stdin or b"")[:SHOWN].decode(errors="replace")),
                digest=digest_of(question, command),
                asked_at=self.clock.now(),
                expires_at=self.approvals.expires_at(),
            )
            try:
                answer = await self.approvals.ask(request)
            except Exception as error:  # noqa: BLE001 - the approver is the caller's own code: no answer is no
                answer = Refused(f"Asking for approval failed: {type(error).__name__}: {error}")
            match answer:
                case Refused(reason):
                    return _not_approved(question, reason)
                case Approved():
                    pass
        return None

    async def record(self, call: Call, command: Command | None = None, /, **facts: Any) -> None:
        """Put on record what came of a call. `facts` are fields of AuditRecord."""
        if not self.audit.is_heard:
            return
        if command is not None:
            facts = {"command": text_of(_judged(command, call)), "cwd": command.cwd, **facts}
        # Where no directory was given, a command runs in the workspace's own.
        facts["cwd"] = facts.get("cwd") or self.surroundings.places.data
        told: dict[str, Any] = self.redactor.value(facts)
        record = AuditRecord(
            timestamp=timestamp(self.clock.now()),
            workspace=self.name,
            session=self.session,
            action=call.action,
            description=self.redactor.text(call.description),
            call_id=call.call_id and self.redactor.text(call.call_id),
            task_id=call.task_id,
            **told,
        )
        await self.audit.tell(record)


@cache
def default_redactor() -> Redactor:
    """One for everybody who asked for none, since compiling it takes milliseconds."""
    return Redactor(DEFAULT)


def confines_of(policy: Policy, roots: Sequence[str]) -> FileAccess:
    """What a policy says of the workspace's own operations on files."""
    allowed = None if policy.allowed_paths is None else tuple(dict.fromkeys((*roots, *policy.allowed_paths)))
    return FileAccess(
        roots=allowed,
        readonly=policy.readonly,
        credentials_too=policy.credential_paths_too,
        strict=PolicyRules(policy).strict,
    )


def digest_of(question: NeedsApproval, command: Command) -> str:
    """What an approval is bound to: the command as the judge knows it, and the input that it is given."""
    if command.stdin is None:
        return question.digest
    return hashlib.sha256(question.digest.encode() + b"\0" + command.stdin).hexdigest()


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


def _judged(command: Command, call: Call) -> Script | Argv:
    """The command as its author wrote it."""
    if call.judged is None:
        return command.what
    return Script(call.judged) if isinstance(call.judged, str) else call.judged


def _no_shell(name: str) -> Denied:
    return Denied(
        rule="capabilities",
        reason=f"The workspace {name} has no shell: it starts no process at all.",
        remedy='Work with its files, or open it with capabilities={"shell": True}.',
    )


def _not_approved(question: NeedsApproval, reason: str) -> Denied:
    return Denied(
        rule=question.rule,
        reason=f"{question.reason} It was not approved.",
        remedy=reason or "Find another way, or ask the person who works with you.",
    )

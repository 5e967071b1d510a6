"""The guard around every command of a workspace: whether it may run, after asking for approval where a rule wants that. Runs nothing."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from limpet.core.command import Command
from limpet.core.errors import CommandDenied
from limpet.guard.policy.environment import NON_INTERACTIVE, judge_environment
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.rules import PolicyRules
from limpet.guard.policy.verdict import Denied, NeedsApproval, Verdict
from limpet.workspace.approvals import ApprovalRequest, Approvals, Approved, Refused, request_id
from limpet.workspace.audit import AuditTrail, Call, Judgement, sentence_of, text_of
from limpet.workspace.capabilities import Capabilities
from limpet.workspace.file_access import FileAccess, is_below
from limpet.workspace.judge_factory import JudgeFactory
from limpet.workspace.kept_outputs import KEPT
from limpet.workspace.path_resolver import BoxDirectories

SHOWN = 2_000  # bytes of a command's input that its approver is shown

Begins = Callable[[str | None], str | None]


class GuardedPolicy:
    """One policy as it is asked: its judge, and what it says of files. `begins` is what the judge is told of where a command begins."""

    def __init__(self, policy: Policy, judge: Judge, *, confines: FileAccess, begins: Begins) -> None:
        self.policy = policy
        self.confines = confines
        self._judge = judge
        self._begins = begins

    async def verdict(self, command: Command) -> Verdict:
        """What the policy says. Variables that only make programs non-interactive are not judged."""
        env = {name: value for name, value in command.env.items() if NON_INTERACTIVE.get(name) != value}
        said = judge_environment(env, allowed=self.policy.environment)
        if isinstance(said, Denied):
            return said
        cwd = self._begins(command.cwd)
        return await self._judge.judge(command if cwd == command.cwd else replace(command, cwd=cwd))


class CommandGuard:
    """The rules of a workspace, or of a view of one: each of `policies` must let a command pass. `trail` records what is refused.

    `roots` are the directories that count as the workspace's own.
    """

    def __init__(
        self,
        *,
        capabilities: Capabilities,
        judges: JudgeFactory,
        roots: Sequence[str],
        approvals: Approvals,
        policies: Sequence[GuardedPolicy] = (),
    ) -> None:
        self.capabilities = capabilities
        self.roots = tuple(roots)
        self.policies = tuple(policies)
        self._judges = judges
        self._approvals = approvals

    @property
    def places(self) -> BoxDirectories:
        """The box's own directories as its commands know them."""
        return self._judges.places

    def with_more(self, policy: Policy | None, *, roots: Sequence[str] | None = None) -> "CommandGuard":
        """These rules and one more policy: a command must pass both. `roots` take the place of these."""
        own = self.roots if roots is None else tuple(roots)
        more = () if policy is None else (self._guarded(policy, own),)
        return CommandGuard(
            capabilities=self.capabilities,
            judges=self._judges,
            roots=own,
            approvals=self._approvals,
            policies=(*self.policies, *more),
        )

    def _guarded(self, policy: Policy, roots: tuple[str, ...]) -> GuardedPolicy:
        kept = f"{self.places.home}/{KEPT}"
        # A view that is confined to directories of its own can still read the outputs that were kept for it.
        known = roots if any(is_below(kept, root) for root in roots) else (*roots, kept)
        # The judge takes the first root for where a command begins that names no directory. A view with roots of its own, and a runtime
        # without walls, whose directories are elsewhere, must tell it.
        is_told = self.places != BoxDirectories() or roots[:1] != (self.places.data,)
        return GuardedPolicy(
            policy,
            self._judges.judge(policy, known),
            confines=confines_of(policy, [self.places.outside(root) for root in known]),
            begins=self.places.begins if is_told else _as_given,
        )

    @property
    def confines(self) -> tuple[FileAccess, ...]:
        """The rules on files."""
        closed = () if self.capabilities.files else (FileAccess(closed=True),)
        return (*closed, *(one.confines for one in self.policies))

    @property
    def max_duration(self) -> float | None:
        """The default and the ceiling of every command, in seconds."""
        bounds = [one.policy.max_duration for one in self.policies if one.policy.max_duration is not None]
        return min(bounds, default=None)

    def bounded(self, command: Command) -> Command:
        """The command with the time that the rules give it."""
        longest = self.max_duration
        if longest is None or (command.timeout is not None and command.timeout <= longest):
            return command
        return replace(command, timeout=longest)

    async def admit(self, command: Command, call: Call, trail: AuditTrail) -> Judgement:
        """Let it pass, after asking where a rule wants that. Raises CommandDenied, which is on record then."""
        judged = command if call.judged is None else replace(command, what=call.as_written(command))
        try:
            verdict, refusal = await self._decide(judged, call, trail)
        except BaseException as error:  # it was not approved, so nothing runs
            await trail.write(call, judged, verdict="denied", error=sentence_of(error))
            raise
        if refusal is None:
            return verdict
        denied = CommandDenied(*(trail.redactor.text(part) for part in (refusal.rule, refusal.reason, refusal.remedy)))
        await trail.write(call, judged, verdict="denied", rule=refusal.rule, error=denied.message)
        raise denied

    async def _decide(self, judged: Command, call: Call, trail: AuditTrail) -> tuple[Judgement, Denied | None]:
        if not self.capabilities.shell:
            return "denied", _no_shell(trail.workspace)
        if not self.policies:
            return "allowed", None
        if (unlike := self._judges.refuse_unlike_bash(judged.what)) is not None:
            return "denied", unlike
        await self._judges.ready()
        said = [await one.verdict(judged) for one in self.policies]
        denied = next((one for one in said if isinstance(one, Denied)), None)
        questions = {one.digest: one for one in said if isinstance(one, NeedsApproval)}
        if denied is not None or not questions:
            return "allowed", denied
        return "approved", await self._ask(judged, call, list(questions.values()), trail)

    async def _ask(
        self, command: Command, call: Call, questions: Sequence[NeedsApproval], trail: AuditTrail
    ) -> Denied | None:
        redacted = trail.redactor.text
        for question in questions:
            request = ApprovalRequest(
                id=request_id(),
                workspace=trail.workspace,
                session=trail.session,
                command=redacted(text_of(command.what)),
                cwd=command.cwd,
                description=redacted(call.description),
                rule=question.rule,
                reason=redacted(question.reason),
                stdin=redacted((command.stdin or b"")[:SHOWN].decode(errors="replace")),
                digest=digest_of(question, command),
                asked_at=trail.clock.now(),
                expires_at=self._approvals.expires_at(),
            )
            try:
                answer = await self._approvals.ask(request)
            except Exception as error:  # noqa: BLE001 - the approver is the caller's own code: no answer is no
                answer = Refused(f"Asking for approval failed: {type(error).__name__}: {error}")
            match answer:
                case Refused(reason):
                    return _not_approved(question, reason)
                case Approved():
                    pass
        return None


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


def _as_given(cwd: str | None) -> str | None:
    return cwd


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

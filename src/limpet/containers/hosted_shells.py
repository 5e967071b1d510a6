"""The shell of a container's box, behind the operator's rules for hosted shells. Without rules it is the box's shell as it is."""

from dataclasses import dataclass, replace
from typing import Self

from limpet.containers.attachments import SKILLS
from limpet.containers.shell_rules import ShellRules
from limpet.core.clock import Clock
from limpet.core.ports import Runtime, Sandbox, Walls
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redactor
from limpet.workspace.approvals import Approvals
from limpet.workspace.audit import Audit
from limpet.workspace.capabilities import Capabilities
from limpet.workspace.command_guard import DEFAULT, CommandGuard
from limpet.workspace.judge_factory import BashReader, JudgeFactory
from limpet.workspace.path_resolver import BoxDirectories, find_directories
from limpet.workspace.walls import held_walls, refuse_unheld, walls_of
from limpet.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class HostedShell:
    """The shell of one box, made once for as long as this process knows the box."""

    sandbox: Sandbox
    workspace: Workspace


class HostedShells:
    """Makes the shells of boxes. `async with` holds what reads commands; the runtime is open before. `walls` are what every box is
    built with for the policy."""

    def __init__(self, runtime: Runtime, rules: ShellRules, *, clock: Clock) -> None:
        self._runtime = runtime
        self._policy = _with_skills(rules.policy)
        self._redaction = rules.redaction
        self._redactor = None if rules.redaction is None else Redactor(rules.redaction)
        self._clock = clock
        self._reader = BashReader()
        self.walls: Walls = walls_of(self._policy)

    async def __aenter__(self) -> Self:
        """Raises OfferMissing where the policy wants walls that the runtime cannot build."""
        refuse_unheld(self._policy, self._runtime.name, self._runtime.offers, built=self.walls.digest)
        await self._reader.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._reader.__aexit__(None, None, None)

    async def open(self, sandbox: Sandbox, container_id: str, *, known: HostedShell | None) -> HostedShell:
        """The shell of this box; `known` where that is the same box's."""
        if known is not None and known.sandbox is sandbox:
            return known
        if self._policy is None and self._redactor is None:
            return HostedShell(sandbox, Workspace(sandbox, clock=self._clock))
        places = await self._places(sandbox)
        guard = self._guard(sandbox, container_id, places)
        return HostedShell(sandbox, Workspace(sandbox, rules=guard, clock=self._clock))

    async def _places(self, sandbox: Sandbox) -> BoxDirectories:
        """Only judging needs to know where they are."""
        return BoxDirectories() if self._policy is None else await find_directories(sandbox, self._runtime.offers)

    def _guard(self, sandbox: Sandbox, container_id: str, places: BoxDirectories) -> CommandGuard:
        """There is no approver here, and the record of a hosted command is the response's (`responses.shell_audit`)."""
        offers, is_built = self._runtime.offers, sandbox.ref.walls == self.walls.digest
        held = held_walls(self.walls, offers, sees_only_its_own=False) if is_built else Walls()
        guard = CommandGuard(
            name=container_id,
            session=container_id,
            clock=self._clock,
            surroundings=JudgeFactory(sandbox, places, reader=self._reader, walls=held),
            roots=(*places.roots, SKILLS),
            approvals=Approvals(None, clock=self._clock),
            audit=Audit(),
            redaction=self._redaction or DEFAULT,
            screening=self._redactor,
            capabilities=Capabilities(),
        )
        return guard.with_more(policy=self._policy)


def _with_skills(policy: Policy | None) -> Policy | None:
    """A box's skills are its own, read-only, whatever else its commands are confined to."""
    if policy is None or policy.allowed_paths is None:
        return policy
    return replace(policy, allowed_paths=(*policy.allowed_paths, SKILLS))

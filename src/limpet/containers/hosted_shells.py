"""The shell of a container's box, behind the operator's rules for hosted shells. Without rules it is the box's shell as it is."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Self

from anyio import to_thread

from limpet.containers.attachments import SKILLS
from limpet.containers.shell_rules import ShellRules
from limpet.core.clock import Clock
from limpet.core.ports import Runtime, Sandbox, Walls
from limpet.core.secret import Secret
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction, Redactor
from limpet.workspace.approvals import Approvals
from limpet.workspace.audit import AuditTrail, NoAudit
from limpet.workspace.capabilities import Capabilities
from limpet.workspace.command_guard import CommandGuard
from limpet.workspace.judge_factory import BashReader, JudgeFactory
from limpet.workspace.output_redaction import OutputRedaction
from limpet.workspace.path_resolver import BoxDirectories, find_directories
from limpet.workspace.shell import SandboxShell, Shell
from limpet.workspace.walls import held_walls, refuse_unheld, walls_of
from limpet.workspace.workspace import Workspace


class HostedShells:
    """Makes the shells of boxes. `async with` holds what reads commands; the runtime is open before. `walls` are what every box is
    built with for the policy."""

    def __init__(self, runtime: Runtime, rules: ShellRules, *, clock: Clock) -> None:
        self._runtime = runtime
        self._policy = _with_skills(rules.policy)
        self._output = _outputs(rules.redaction)
        self._has_rules = rules.policy is not None or rules.redaction is not None
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

    async def open(self, sandbox: Sandbox, container_id: str) -> Shell:
        """The shell of this box, for as long as it is entered."""
        shell = SandboxShell(sandbox, clock=self._clock)
        return await self._guarded(shell, container_id) if self._has_rules else shell

    async def hiding(self, shell: Shell, container_id: str, secrets: Mapping[str, Secret]) -> Shell:
        """The same shell, whose output shows none of these values either."""
        if isinstance(shell, SandboxShell):
            shell = await self._guarded(shell, container_id)
        assert isinstance(shell, Workspace), "made by `open`"
        # Compiling many long values takes tens of milliseconds.
        return await to_thread.run_sync(partial(shell.guarded, redaction=Redaction(secrets=secrets, families=False)))

    async def _guarded(self, shell: SandboxShell, container_id: str) -> Workspace:
        """There is no approver here, and the record of a hosted command is the response's (`responses.shell_audit`)."""
        sandbox, offers = shell.sandbox, self._runtime.offers
        # Only judging needs to know where they are.
        places = BoxDirectories() if self._policy is None else await find_directories(sandbox, offers)
        is_built = sandbox.ref.walls == self.walls.digest
        held = held_walls(self.walls, offers, sees_only_its_own=False) if is_built else Walls()
        guard = CommandGuard(
            capabilities=Capabilities(),
            judges=JudgeFactory(sandbox, places, reader=self._reader, walls=held),
            roots=(*places.roots, SKILLS),
            approvals=Approvals(None, clock=self._clock),
        )
        output = self._output()
        trail = AuditTrail(
            audit=NoAudit(),
            workspace=container_id,
            session=container_id,
            directory=places.data,
            redactor=output.redactor,
            clock=self._clock,
        )
        return Workspace(shell, guard=guard.with_more(self._policy), output=output, trail=trail)


def _outputs(redaction: Redaction | None) -> Callable[[], OutputRedaction]:
    """Makes the redaction of each box; the rules are compiled once."""
    if redaction is None:
        return partial(OutputRedaction.of_records, {})
    return partial(OutputRedaction, redaction, Redactor(redaction), screens_output=True)


def _with_skills(policy: Policy | None) -> Policy | None:
    """A box's skills are its own, read-only, whatever else its commands are confined to."""
    if policy is None or policy.allowed_paths is None:
        return policy
    return replace(policy, allowed_paths=(*policy.allowed_paths, SKILLS))

"""A shell behind rules: a command is judged, run, its output redacted, and a record of it is written."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from limpet.core.box_directories import HOME
from limpet.core.clock import Clock
from limpet.core.command import Aborted, Command, Lost
from limpet.core.errors import ConfigInvalid, LimpetError
from limpet.core.ports import Offer, Process, SandboxRef
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction, Redactor
from limpet.workspace.argument_checks import refuse_no_rules
from limpet.workspace.audit import AuditTrail, Call, sentence_of
from limpet.workspace.command_guard import CommandGuard
from limpet.workspace.delivery import Delivery, unless_aborted
from limpet.workspace.files import WorkspaceFiles
from limpet.workspace.kept_outputs import Pieces, keep_in_home, keep_in_temporary
from limpet.workspace.output_redaction import OutputRedaction
from limpet.workspace.path_resolver import BoxDirectories
from limpet.workspace.result import RunResult
from limpet.workspace.shell import SandboxShell, Shell, named
from limpet.workspace.walls import refuse_unheld

Closer = Callable[[], Awaitable[None]]


async def ends_with_its_block() -> None:
    """The closer of a workspace of an `async with`. Raises ConfigInvalid."""
    raise ConfigInvalid("workspace", "close", "it ends with its `async with`; only what `open()` gave is closed.")


class Workspace(Shell):
    """A sandbox's shell with policy, approvals, redaction and audit around each command, and the policy's rules on its files."""

    def __init__(
        self,
        shell: SandboxShell,
        *,
        guard: CommandGuard,
        output: OutputRedaction,
        trail: AuditTrail,
        closer: Closer = ends_with_its_block,
        network_note: str = "",
    ) -> None:
        self._shell = shell
        self._guard = guard
        self._output = output
        self._trail = trail
        self._closer = closer
        self._network_note = network_note

    async def close(self) -> None:
        """End what `open_workspace(…).open()` began, from any task of its event loop; twice is quiet. A view of it (`guarded`) closes
        the whole. Raises ConfigInvalid for a workspace of an `async with`, which ends with its block."""
        await self._closer()

    @property
    def ref(self) -> SandboxRef:
        return self._shell.ref

    @property
    def boot_id(self) -> str:
        return self._shell.boot_id

    @property
    def files(self) -> WorkspaceFiles:
        return self._shell.files_within(self._guard.confines)

    @property
    def name(self) -> str:
        return self._trail.workspace

    @property
    def session(self) -> str:
        """Whose commands these are: approvals, tasks and records are bound to it."""
        return self._trail.session

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories that are its own, as its commands know them; the first is where they begin."""
        return self._guard.roots

    @property
    def directory(self) -> str:
        """Where a command runs that names no directory."""
        return self.places.data

    @property
    def places(self) -> BoxDirectories:
        """The box's own directories as its commands know them: another name for `files`' only where a runtime has no walls."""
        return self._guard.places

    @property
    def network_note(self) -> str:
        """What it can reach, as a model is told; "" where that is not known."""
        return self._network_note

    @property
    def policies(self) -> tuple[Policy, ...]:
        return tuple(one.policy for one in self._guard.policies)

    @property
    def redactor(self) -> Redactor:
        """What redacts its output and records; by the default rules where no redaction was asked for."""
        return self._output.redactor

    @property
    def screens(self) -> bool:
        """Whether output of commands is redacted. If not, `run` returns the bytes as they are."""
        return self._output.screens_output

    @property
    def has_shell(self) -> bool:
        return self._guard.capabilities.shell

    @property
    def has_files(self) -> bool:
        return self._guard.capabilities.files

    @property
    def max_duration(self) -> float | None:
        """The default and the ceiling of every command, in seconds."""
        return self._guard.max_duration

    @property
    def clock(self) -> Clock:
        return self._shell.clock

    def guarded(
        self,
        *,
        policy: Policy | None = None,
        redaction: Redaction | None = None,
        roots: Sequence[str] | None = None,
        session: str | None = None,
    ) -> "Workspace":
        """The same box behind further rules, which add up: a command must pass these and those of this workspace, and what either
        redacts is redacted. `roots` are the directories that count as the view's own, for its policy.

        Raises: OfferMissing where `policy` requires walls that the box was not made with; ConfigInvalid for other types."""
        refuse_no_rules("guarded", policy=policy, redaction=redaction)
        refuse_unheld(policy, self.ref.runtime, frozenset(Offer), built=self.ref.walls)
        output = self._output if redaction is None else self._output.with_more(redaction)
        return Workspace(
            self._shell,
            guard=self._guard.with_more(policy, roots=roots),
            output=output,
            trail=replace(self._trail, session=session or self.session, redactor=output.redactor),
            closer=self._closer,
            network_note=self._network_note,
        )

    async def execute(
        self, command: Command, delivery: Delivery, *, abort: anyio.Event | None = None, call: Call | None = None
    ) -> RunResult:
        call, command = named(call, "run"), self._guard.bounded(command)
        if abort is not None and abort.is_set():
            await self._trail.write(call, command, exit_code=-1, error="It was aborted before it started.")
            return delivery.result(Aborted(), duration=0.0)
        verdict = await unless_aborted(abort, partial(self._guard.admit, command, call, self._trail))
        if verdict is None:
            return delivery.result(Aborted(), duration=0.0)
        screen = partial(self._output.of_command, command=command)
        try:
            result = await self._shell.execute_through(screen, command, delivery, abort)
        except BaseException as error:
            await self._trail.write(call, command, verdict=verdict, error=sentence_of(error))
            raise
        await self._trail.write(
            call,
            command,
            verdict=verdict,
            exit_code=result.exit_code,
            error=result.outcome.reason if isinstance(result.outcome, Lost) else None,
            duration=result.duration,
            stdout_bytes=result.kept["stdout"].size,
            stderr_bytes=call.own_bytes(result.kept["stderr"]),
        )
        return result

    async def start(self, command: Command, exec_id: str, *, call: Call | None = None) -> Process:
        call, command = named(call, "start"), self._guard.bounded(command)
        verdict = await self._guard.admit(command, call, self._trail)
        try:
            process = await self._shell.start(command, exec_id)
        except BaseException as error:
            await self._trail.write(call, command, verdict=verdict, error=sentence_of(error))
            raise
        process = self._output.of_started(process, command)
        await self._trail.write(call, command, verdict=verdict)
        return process

    async def find(self, exec_id: str) -> Process | None:
        process = await self._shell.find(exec_id)
        return None if process is None else self._output.of_found(process)

    async def judge(self, command: Command, *, call: Call | None = None) -> None:
        """Ask the rules whether a command may run, and run nothing. It asks for approval where `run` would, and records a denial.

        Raises: CommandDenied as `run` would."""
        await self._guard.admit(command, named(call, "judge"), self._trail)

    async def audit(self, action: str, **facts: Any) -> None:
        """Record what a tool did without running a command. `facts` are fields of `AuditRecord`; all of them are redacted here."""
        call = Call(
            action=action,
            description=facts.pop("description", ""),
            call_id=facts.pop("call_id", None),
            task_id=facts.pop("task_id", None),
        )
        await self._trail.write(call, **{"command": "", **facts})

    async def keep(self, name: str, pieces: Pieces, *, beside: str | None = None) -> str | None:
        """Write a file for the caller, such as the whole of an output, and return its path as commands know it; None where no place
        takes it. `pieces` begins anew at each place that is tried: the directory `beside`, as far as the rules let it be
        written; one in the box's home, which rules on writing do not bind, and of which the newest files stay; its temporary one.
        """
        if beside is not None:
            with suppress(LimpetError):
                return self.places.inside((await self.files.write(f"{beside}/{name}", pieces())).path)
        if (path := await keep_in_home(self._shell.sandbox, HOME, name, pieces)) is not None:
            return self.places.inside(path)
        return await keep_in_temporary(self._shell.sandbox, name, pieces)

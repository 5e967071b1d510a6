"""The only way to a shell: a command is judged, started, its output redacted and delivered, and a record of it is written.

Knows no runtime by name and keeps no state of its own between commands; files and processes are the sandbox's.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from limpet.core.box_directories import HOME
from limpet.core.clock import Clock, SystemClock
from limpet.core.command import Aborted, Argv, Command, Lost, Outcome, Script, Terminal
from limpet.core.errors import BadCommand, ConfigInvalid, LimpetError, SandboxClosed, SandboxGone
from limpet.core.ids import new_id
from limpet.core.ports import Offer, Process, Sandbox, SandboxRef
from limpet.guard.policy.environment import secrets_in
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction, Redactor
from limpet.workspace.argument_checks import not_a_program, refuse_no_event, refuse_no_rules, told
from limpet.workspace.audit import Call
from limpet.workspace.command_guard import CommandGuard, sentence_of
from limpet.workspace.delivery import Delivery, OnOutput, follow, unless_aborted
from limpet.workspace.files import WorkspaceFiles
from limpet.workspace.kept_outputs import Pieces, keep_in_home, keep_in_temporary
from limpet.workspace.path_resolver import BoxDirectories
from limpet.workspace.redacted_process import RedactedProcess
from limpet.workspace.result import KeptOutput, RunResult
from limpet.workspace.walls import refuse_unheld

EXEC = "exec"
LETTING_GO = 5.0  # seconds that killing a command may hold up a caller who was cancelled

What = str | Script | Argv | Sequence[str]


class Workspace:
    """One sandbox, as a caller uses it, behind its rules. Without rules nothing is judged, redacted or recorded."""

    def __init__(self, sandbox: Sandbox, *, rules: CommandGuard | None = None, clock: Clock | None = None) -> None:
        self._sandbox = sandbox
        self._rules = rules
        self._clock = clock or SystemClock()
        self._changing = anyio.Lock()
        self.closer: Callable[[], Awaitable[None]] | None = None

    async def close(self) -> None:
        """End what `open_workspace(…).open()` began, from any task of its event loop; twice is quiet. A view of it (`guarded`) closes
        the whole. Raises ConfigInvalid for a workspace of an `async with`, which ends with its block."""
        if self.closer is None:
            raise ConfigInvalid(
                "workspace", "close", "it ends with its `async with`; only what `open()` gave is closed."
            )
        await self.closer()

    @property
    def ref(self) -> SandboxRef:
        """With it another process finds the same sandbox (`attach` of its runtime)."""
        return self._sandbox.ref

    @property
    def boot_id(self) -> str:
        return self._sandbox.boot_id

    @property
    def files(self) -> WorkspaceFiles:
        """Its files, as its rules let them be used."""
        confines = () if self._rules is None else self._rules.confines
        return WorkspaceFiles(self._sandbox, confines=confines, changing=self._changing)

    @property
    def rules(self) -> CommandGuard:
        """The guard around its commands. Raises ConfigInvalid where it was made without rules (`open_workspace` gives some)."""
        if self._rules is None:
            raise ConfigInvalid("workspace", "rules", "it was made without rules; open it with open_workspace.")
        return self._rules

    @property
    def name(self) -> str:
        return self.rules.name

    @property
    def session(self) -> str:
        """Whose commands these are: approvals, tasks and records are bound to it."""
        return self.rules.session

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories that are its own, as its commands know them; the first is where they begin."""
        return self.rules.roots

    @property
    def directory(self) -> str:
        """Where a command runs that names no directory."""
        return self.places.data

    @property
    def places(self) -> BoxDirectories:
        """The box's own directories as its commands know them: another name for `files`' only where a runtime has no walls."""
        return self.rules.surroundings.places

    @property
    def policies(self) -> tuple[Policy, ...]:
        return tuple(one.policy for one in self.rules.ruled)

    @property
    def redactor(self) -> Redactor:
        """What redacts its output and records; by the default rules where no redaction was asked for."""
        return self.rules.redactor

    @property
    def screens(self) -> bool:
        """Whether output of commands is redacted. If not, `run` returns the bytes as they are."""
        return self.rules.screening is not None

    @property
    def has_shell(self) -> bool:
        return self.rules.capabilities.shell

    @property
    def has_files(self) -> bool:
        return self.rules.capabilities.files

    @property
    def max_duration(self) -> float | None:
        """The default and the ceiling of every command, in seconds."""
        return self.rules.max_duration

    @property
    def clock(self) -> Clock:
        return self._clock

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
        rules = self.rules.with_more(policy=policy, redaction=redaction, roots=roots, session=session)
        view = Workspace(self._sandbox, rules=rules, clock=self._clock)
        view._changing = self._changing
        view.closer = self.closer
        return view

    async def run(
        self,
        what: What,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        abort: anyio.Event | None = None,
        keep_output: bool = True,
        call: Call | None = None,
    ) -> RunResult:
        """Run to its end a script (text) or a program with arguments (a sequence); returns its output and how it ended.

        A failing command is a result, as are one that ran out of `timeout` seconds, one that `abort` stopped and one whose
        sandbox died. `on_stdout` and `on_stderr` are awaited chunk by chunk, never two at once, and slow the command down; what
        they raise is collected in the result. Cancelling the caller kills the command and all its descendants. `call` says who
        asks, for the record.

        Raises:
            CommandRefused: nothing ran; its subclass CommandDenied where the policy refuses it.
            OfferMissing: it asks for what this runtime never does, such as a terminal.
            SandboxFull: a limit leaves no room for one more process.
            SandboxGone, SandboxClosed: there is no such sandbox any more, or it was closed here.
        """
        command = told(
            Command(what=as_program(what), cwd=cwd, env=env or {}, stdin=stdin, timeout=timeout, read_once=True)
        )
        refuse_no_event(abort)
        delivery = Delivery({"stdout": on_stdout, "stderr": on_stderr}, keep_output=keep_output)
        if self._rules is None:
            return await self._run(command, delivery, abort)
        return await self._run_by_rules(self._rules, command, delivery, abort, _named(call, "run"))

    async def spawn(
        self,
        what: What,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        pty: bool | Terminal = False,
        call: Call | None = None,
    ) -> Process:
        """Start a command and return at once; its standard input stays open until `close_stdin`.

        The process goes on whatever becomes of the caller, until it ends, is aborted, or its sandbox ends. Raises as `run` does.
        """
        command = Command(
            what=as_program(what),
            cwd=cwd,
            env=env or {},
            keeps_stdin_open=True,
            timeout=timeout,
            terminal=Terminal() if pty is True else pty or None,
        )
        return await self.start(told(command), new_id(EXEC), call=_named(call, "spawn"))

    async def start(self, command: Command, exec_id: str, *, call: Call | None = None) -> Process:
        """Start a command under an id of the caller's, or find it: an id that is known gives the same process.

        For callers that record what they started; `run` and `spawn` make their own ids. Raises as `run` does.
        """
        rules = self._rules
        if rules is None:
            return await self._sandbox.start(command, exec_id)
        call = _named(call, "start")
        command = _within(command, rules)
        verdict = await rules.admit(command, call)
        try:
            process = await self._sandbox.start(command, exec_id)
        except BaseException as error:
            await rules.record(call, command, verdict=verdict, error=sentence_of(error))
            raise
        rules.own_redactors.remember(exec_id, command)
        await rules.record(call, command, verdict=verdict)
        return self._screened(process, command)

    async def find(self, exec_id: str) -> Process | None:
        """The process of that id, running, or ended and not yet forgotten; else None. Raises SandboxGone and SandboxClosed."""
        process = await self._sandbox.find(exec_id)
        rules = self._rules
        if process is None or rules is None or rules.screening is None:
            return process
        return RedactedProcess(process, rules.screen_of(rules.own_redactors.secrets_of(exec_id)))

    async def judge(self, command: Command, *, call: Call | None = None) -> None:
        """Ask the rules whether a command may run, and run nothing. It asks for approval where `run` would, and records a denial.

        Raises: CommandDenied as `run` would."""
        if self._rules is not None:
            await self._rules.admit(command, _named(call, "judge"))

    async def audit(self, action: str, **facts: Any) -> None:
        """Record what a tool did without running a command. `facts` are fields of `AuditRecord`; all of them are redacted here."""
        call = Call(
            action=action,
            description=facts.pop("description", ""),
            call_id=facts.pop("call_id", None),
            task_id=facts.pop("task_id", None),
        )
        await self.rules.record(call, **{"command": "", **facts})

    async def keep(self, name: str, pieces: Pieces, *, beside: str | None = None) -> str | None:
        """Write a file for the caller, such as the whole of an output, and return its path as commands know it; None where no place
        takes it. `pieces` begins anew at each place that is tried: the directory `beside`, as far as the rules let it be
        written; one in the box's home, which rules on writing do not bind, and of which the newest files stay; its temporary one.
        """
        if beside is not None:
            with suppress(LimpetError):
                return self.places.inside((await self.files.write(f"{beside}/{name}", pieces())).path)
        if (path := await keep_in_home(self._sandbox, HOME, name, pieces)) is not None:
            return self.places.inside(path)
        return await keep_in_temporary(self._sandbox, name, pieces)

    def _screened(self, process: Process, command: Command) -> Process:
        if self._rules is None or self._rules.screening is None:
            return process
        return RedactedProcess(process, self._rules.screen_of(secrets_in(command.env)))

    async def _run_by_rules(
        self, rules: CommandGuard, command: Command, delivery: Delivery, abort: anyio.Event | None, call: Call
    ) -> RunResult:
        command = _within(command, rules)
        if abort is not None and abort.is_set():
            await rules.record(call, command, exit_code=-1, error="It was aborted before it started.")
            return delivery.result(Aborted(), duration=0.0)
        verdict = await unless_aborted(abort, partial(rules.admit, command, call))
        if verdict is None:
            return delivery.result(Aborted(), duration=0.0)
        try:
            result = await self._run(command, delivery, abort)
        except BaseException as error:
            await rules.record(call, command, verdict=verdict, error=sentence_of(error))
            raise
        await rules.record(
            call,
            command,
            verdict=verdict,
            exit_code=result.exit_code,
            error=result.outcome.reason if isinstance(result.outcome, Lost) else None,
            duration=result.duration,
            stdout_bytes=result.kept["stdout"].size,
            stderr_bytes=_own_bytes(call, result.kept["stderr"]),
        )
        return result

    async def _run(self, command: Command, delivery: Delivery, abort: anyio.Event | None) -> RunResult:
        if abort is not None and abort.is_set():
            return delivery.result(Aborted(), duration=0.0)
        begun = self._clock.monotonic()
        outcome, notes = await self._run_to_end(command, delivery, abort)
        return delivery.result(outcome, duration=self._clock.monotonic() - begun, notes=notes)

    async def _run_to_end(
        self, command: Command, delivery: Delivery, abort: anyio.Event | None
    ) -> tuple[Outcome, Sequence[str]]:
        exec_id = new_id(EXEC)
        process: Process | None = None
        try:
            process = await self._sandbox.start(command, exec_id)
            outcome = await follow(self._screened(process, command), delivery, abort, timeout=command.timeout)
            notes = process.notes()
            with suppress(SandboxGone, SandboxClosed):
                await process.forget()
        except BaseException:
            # However this ends nothing of the command is left, also when the caller was cancelled while it started.
            with anyio.move_on_after(LETTING_GO, shield=True), suppress(SandboxGone, SandboxClosed):
                process = process or await self._sandbox.find(exec_id)
                if process is not None:
                    await process.abort()
                    await process.forget()
            raise
        return outcome, notes


def as_program(what: What) -> Script | Argv:
    """Text is a script for the sandbox's shell; a sequence is a program and its arguments, without a shell."""
    match what:
        case Script() | Argv():
            return what
        case str():
            return Script(what)
        case Sequence() if len(what) > 0:
            return Argv(tuple(what))
        case Sequence():
            raise BadCommand("There is nothing to run: the list is empty. Give a program, then its arguments.")
        case _:
            raise not_a_program(type(what).__name__)


def _within(command: Command, rules: CommandGuard) -> Command:
    """The command with the time that the rules give it."""
    timeout = rules.bounded(command.timeout)
    return command if timeout == command.timeout else replace(command, timeout=timeout)


def _own_bytes(call: Call, stderr: KeptOutput) -> int:
    """How much of a standard error the command wrote itself."""
    return stderr.size if call.stderr_bytes is None else call.stderr_bytes(stderr)


def _named(call: Call | None, action: str) -> Call:
    """The call with the workspace's own word for it, where it has none."""
    if call is None:
        return Call(action=action)
    return call if call.action else replace(call, action=action)

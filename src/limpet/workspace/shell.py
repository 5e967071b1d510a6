"""What every shell of a sandbox does, and the one that only does that: no policy, no redaction, no records.

Knows no runtime by name and keeps no state of its own between commands; files and processes are the sandbox's.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import anyio

from limpet.core.clock import Clock, SystemClock
from limpet.core.command import Aborted, Argv, Command, Outcome, Script, Terminal
from limpet.core.errors import BadCommand, SandboxClosed, SandboxGone
from limpet.core.ids import new_id
from limpet.core.ports import Process, Sandbox, SandboxRef
from limpet.workspace.argument_checks import not_a_program, refuse_no_event, told
from limpet.workspace.audit import Call
from limpet.workspace.delivery import Delivery, OnOutput, follow
from limpet.workspace.file_access import FileAccess
from limpet.workspace.files import WorkspaceFiles
from limpet.workspace.result import RunResult

EXEC = "exec"
LETTING_GO = 5.0  # seconds that killing a command may hold up a caller who was cancelled

What = str | Script | Argv | Sequence[str]


class Shell(Protocol):
    """A shell of one sandbox: `SandboxShell`, or `Workspace`, whose commands and files are held to rules.

    `call` says who asks, for the record; a shell that keeps no records takes no notice of it.
    """

    @property
    @abstractmethod
    def ref(self) -> SandboxRef:
        """With it another process finds the same sandbox (`attach` of its runtime)."""

    @property
    @abstractmethod
    def boot_id(self) -> str:
        """Which boot of the sandbox this is: processes of another one are gone."""

    @property
    @abstractmethod
    def files(self) -> WorkspaceFiles:
        """The sandbox's files, as far as the shell's rules let them be used."""

    @abstractmethod
    async def start(self, command: Command, exec_id: str, *, call: Call | None = None) -> Process:
        """Start a command under an id of the caller's, or find it: an id that is known gives the same process.

        For callers that record what they started; `run` and `spawn` make their own ids. Raises as `run` does.
        """

    @abstractmethod
    async def find(self, exec_id: str) -> Process | None:
        """The process of that id, running, or ended and not yet forgotten; else None. Raises SandboxGone and SandboxClosed."""

    @abstractmethod
    async def execute(
        self, command: Command, delivery: Delivery, *, abort: anyio.Event | None = None, call: Call | None = None
    ) -> RunResult:
        """`run` for a command and a delivery that are made already."""

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
        they raise is collected in the result. Cancelling the caller kills the command and all its descendants.

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
        return await self.execute(command, delivery, abort=abort, call=named(call, "run"))

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
        return await self.start(told(command), new_id(EXEC), call=named(call, "spawn"))


class SandboxShell(Shell):
    """The shell of a sandbox as it is. All shells over one sandbox are made over the same of these: it holds the lock of edits."""

    def __init__(self, sandbox: Sandbox, *, clock: Clock | None = None) -> None:
        self.sandbox = sandbox
        self.clock = clock or SystemClock()
        self._changing = anyio.Lock()

    @property
    def ref(self) -> SandboxRef:
        return self.sandbox.ref

    @property
    def boot_id(self) -> str:
        return self.sandbox.boot_id

    @property
    def files(self) -> WorkspaceFiles:
        return self.files_within(())

    def files_within(self, confines: Sequence[FileAccess]) -> WorkspaceFiles:
        """The files as far as all of these rules let them be used."""
        return WorkspaceFiles(self.sandbox, confines=confines, changing=self._changing)

    async def start(self, command: Command, exec_id: str, *, call: Call | None = None) -> Process:
        return await self.sandbox.start(command, exec_id)

    async def find(self, exec_id: str) -> Process | None:
        return await self.sandbox.find(exec_id)

    async def execute(
        self, command: Command, delivery: Delivery, *, abort: anyio.Event | None = None, call: Call | None = None
    ) -> RunResult:
        return await self.execute_through(_as_it_is, command, delivery, abort)

    async def execute_through(
        self, screen: Callable[[Process], Process], command: Command, delivery: Delivery, abort: anyio.Event | None
    ) -> RunResult:
        """The same with the output that the process has which `screen` makes of the sandbox's."""
        if abort is not None and abort.is_set():
            return delivery.result(Aborted(), duration=0.0)
        begun = self.clock.monotonic()
        outcome, notes = await self._run_to_end(screen, command, delivery, abort)
        return delivery.result(outcome, duration=self.clock.monotonic() - begun, notes=notes)

    async def _run_to_end(
        self, screen: Callable[[Process], Process], command: Command, delivery: Delivery, abort: anyio.Event | None
    ) -> tuple[Outcome, Sequence[str]]:
        exec_id = new_id(EXEC)
        process: Process | None = None
        try:
            process = await self.sandbox.start(command, exec_id)
            outcome = await follow(screen(process), delivery, abort, timeout=command.timeout)
            notes = process.notes()
            with suppress(SandboxGone, SandboxClosed):
                await process.forget()
        except BaseException:
            # However this ends nothing of the command is left, also when the caller was cancelled while it started.
            with anyio.move_on_after(LETTING_GO, shield=True), suppress(SandboxGone, SandboxClosed):
                process = process or await self.sandbox.find(exec_id)
                if process is not None:
                    await process.abort()
                    await process.forget()
            raise
        return outcome, notes


def as_program(what: What) -> Script | Argv:
    """Text is a script for the sandbox's shell; a sequence is a program and its arguments, without a shell. Raises BadCommand."""
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


def named(call: Call | None, action: str) -> Call:
    """The call with the shell's own word for it, where it has none."""
    if call is None:
        return Call(action=action)
    return call if call.action else replace(call, action=action)


def _as_it_is(process: Process) -> Process:
    return process

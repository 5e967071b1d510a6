"""The only door to a shell. A command's road: judged, started, its output screened and delivered, audited.

Knows no runtime by name and keeps no state of its own between commands; files and processes are the sandbox's.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio

from limpet.core.clock import Clock, SystemClock
from limpet.core.command import Aborted, Argv, Command, Outcome, Script, Terminal
from limpet.core.errors import BadCommand, SandboxClosed, SandboxGone
from limpet.core.ids import new_id
from limpet.core.ports import Files, Process, Sandbox, SandboxRef
from limpet.workspace.follow import Delivery, OnOutput, follow
from limpet.workspace.result import RunResult

EXEC = "exec"
LETTING_GO = 5.0  # seconds that killing a command may hold up a caller who was cancelled

What = str | Script | Argv | Sequence[str]


class Workspace:
    """One sandbox, as a caller uses it."""

    def __init__(self, sandbox: Sandbox, *, clock: Clock | None = None) -> None:
        self._sandbox = sandbox
        self._clock = clock or SystemClock()

    @property
    def ref(self) -> SandboxRef:
        """With it another process finds the same sandbox (`attach` of its runtime)."""
        return self._sandbox.ref

    @property
    def boot_id(self) -> str:
        return self._sandbox.boot_id

    @property
    def files(self) -> Files:
        return self._sandbox.files

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
    ) -> RunResult:
        """Run to its end a script (text) or a program with arguments (a sequence); returns its output and how it ended.

        A failing command is a result, as are one that ran out of `timeout` seconds, one that `abort` stopped and one whose
        sandbox died. `on_stdout` and `on_stderr` are awaited chunk by chunk, never two at once, and slow the command down; what
        they raise is collected in the result. Cancelling the caller kills the command and all its descendants. Raises
        CommandRefused (nothing ran), OfferMissing, SandboxGone, SandboxClosed. Source: seed 01.
        """
        command = Command(what=as_program(what), cwd=cwd, env=dict(env or {}), stdin=stdin, timeout=timeout)
        delivery = Delivery({"stdout": on_stdout, "stderr": on_stderr}, keep_output=keep_output)
        if abort is not None and abort.is_set():
            return delivery.result(Aborted(), duration=0.0)
        # Judged here: below this line it runs.
        begun = self._clock.monotonic()
        outcome, notes = await self._run_to_end(command, delivery, abort)
        # Audited here: all that there is to say about it is known.
        return delivery.result(outcome, duration=self._clock.monotonic() - begun, notes=notes)

    async def spawn(
        self,
        what: What,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        pty: bool | Terminal = False,
    ) -> Process:
        """Start a command and return at once; its standard input stays open until `close_stdin`.

        The process goes on whatever becomes of the caller, until it ends, is aborted, or its sandbox ends.
        """
        command = Command(
            what=as_program(what),
            cwd=cwd,
            env=dict(env or {}),
            keeps_stdin_open=True,
            timeout=timeout,
            terminal=Terminal() if pty is True else pty or None,
        )
        return await self.start(command, new_id(EXEC))

    async def start(self, command: Command, exec_id: str) -> Process:
        """Start a command under an id of the caller's, or find it: an id that is known gives the same process.

        For callers who keep records of what they started; `run` and `spawn` make their own ids.
        """
        # Judged here, as in `run`.
        return await self._sandbox.start(command, exec_id)

    async def find(self, exec_id: str) -> Process | None:
        """The process of that id, running or ended and not yet forgotten."""
        return await self._sandbox.find(exec_id)

    async def _run_to_end(
        self, command: Command, delivery: Delivery, abort: anyio.Event | None
    ) -> tuple[Outcome, Sequence[str]]:
        exec_id = new_id(EXEC)
        process: Process | None = None
        try:
            process = await self._sandbox.start(command, exec_id)
            outcome = await follow(process, delivery, abort)
            return outcome, process.notes()
        finally:
            # However this ends nothing of the command is left, also when the caller was cancelled while it started.
            with anyio.move_on_after(LETTING_GO, shield=True), suppress(SandboxGone, SandboxClosed):
                process = process or await self._sandbox.find(exec_id)
                if process is not None:
                    await process.abort()
                    await process.forget()


def as_program(what: What) -> Script | Argv:
    """Text is a script for the sandbox's shell; a sequence is a program and its arguments, without a shell."""
    match what:
        case Script() | Argv():
            return what
        case str():
            return Script(what)
        case _ if len(what) > 0:
            return Argv(tuple(what))
        case _:
            raise BadCommand("There is nothing to run: the list is empty. Give a program, then its arguments.")

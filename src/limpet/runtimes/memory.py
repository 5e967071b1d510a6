"""The runtime `memory`: bash and a file system inside this process (bashkit), for tests and where no program is needed.

Every command gets an interpreter of its own, so that neither directory nor variables of one reach the next; what they share is
the virtual file systems under /mnt/data, /home/agent and /tmp. No host program runs and no host file is in reach. bashkit knows
no processes: a command ends when its background jobs have ended.
"""

import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from typing import Self

import anyio
from anyio.abc import TaskGroup
from bashkit import Bash, ExecResult, ExecutionProfile, FileSystem

from limpet.core.box_directories import DATA, HOME, OWN
from limpet.core.command import Aborted, Argv, Command, Exited, Outcome, Script, Stream, TimedOut
from limpet.core.errors import BadCommand, BootFailed, OfferMissing, SandboxGone, WorkingDirectoryMissing
from limpet.core.ports import Held, Offer, Probe, Process, Sandbox, SandboxRef, SandboxSpec
from limpet.runtimes.impossible import refuse_impossible, refuse_impossible_spec
from limpet.runtimes.open_sandbox import OpenSandbox
from limpet.runtimes.spooled_process import SpooledProcess
from limpet.runtimes.supervisor import BoxSupervisor, InjectFault
from limpet.runtimes.virtualfiles import VirtualFiles

NAME = "memory"
OFFERS = frozenset({Offer.ARGV, Offer.STREAMING, Offer.CONCURRENT, Offer.ISOLATION})
# What of the port's promises is not kept, by the conformance case that asks for it, and why.
KNOWN_GAPS = {
    "a_reader_that_does_not_ask_slows_the_command": "bashkit cuts a stream off after 10 MiB; stderr then says so",
    "odd_names_are_names": "bashkit refuses control characters in file names",
}
# bashkit cuts what is read of these off without a word; of `yes` and `seq` it tells on stderr itself.
_ENDLESS = re.compile(r"/dev/(?:zero|full|u?random)\b")
_ENDED = "in memory a reading of /dev/zero, /dev/full, /dev/random or /dev/urandom ends after 1 MiB."
# Commands are bounded by their timeout, not by counts.
_NO_COUNT = 1 << 62


class _Sink(partial[Coroutine[object, object, None]]):
    """What bashkit calls with output, one call after the other, and awaits; but not what it got while it was being cancelled. It takes
    coroutine functions and partial ones of these."""

    _last: Coroutine[object, object, None] | None = None
    _is_closed = False

    def __call__(self, data: bytes) -> Coroutine[object, object, None]:
        self._last = last = super().__call__(data)
        if self._is_closed:
            last.close()
        return last

    def close(self) -> None:
        """Its command has ended: Python warns of a coroutine that is dropped before it ran or was closed."""
        self._is_closed = True
        if self._last is not None and getcoroutinestate(self._last) == CORO_CREATED:
            self._last.close()
        self._last = None


class MemoryProcess(SpooledProcess):
    """core.ports.Process without processes. `run` carries it; cancelling its scope stops the interpreter."""

    def __init__(self, sandbox: "MemorySandbox", exec_id: str, bash: Bash, command: Command) -> None:
        super().__init__(exec_id, sandbox.forget)
        self._bash = bash
        self._text = text_of(command)
        self._timeout = command.timeout
        self._scope = anyio.CancelScope()
        self._aborted = False
        self._sinks: list[_Sink] = []

    def leave(self, error: Exception) -> None:
        super().leave(error)
        self._close_sinks()

    async def forget(self) -> None:
        await super().forget()
        if self.has_ended:
            self._close_sinks()

    def notes(self) -> tuple[str, ...]:
        return (_ENDED,) if self.has_ended and _ENDLESS.search(self._text) else ()

    async def run(self) -> None:
        with self._scope:
            self.finish(await self._interpret())
        if self._aborted:
            self.finish(Aborted())
        self._spool.end()

    async def write(self, data: bytes) -> None:
        raise OfferMissing(NAME, Offer.STDIN.value)

    async def close_stdin(self) -> None:
        return  # standard input is empty and has ended from the start

    async def resize(self, columns: int, rows: int) -> None:
        raise OfferMissing(NAME, Offer.PTY.value)

    async def signal(self, number: int) -> None:
        raise OfferMissing(NAME, Offer.SIGNALS.value)

    async def abort(self) -> None:
        if not self.has_ended:
            self._aborted = True
            self._scope.cancel()
        await self.wait()

    async def _interpret(self) -> Outcome:
        result: ExecResult | None = None
        with anyio.move_on_after(self._timeout):
            result = await self._bash.execute(self._text, stdout=self._sink("stdout"), stderr=self._sink("stderr"))
        if result is None:
            return TimedOut()
        if result.stdout_truncated or result.stderr_truncated:
            await self._spool.append("stderr", b"limpet: the output was cut off: bashkit ends a stream after 10 MiB\n")
        if result.error is None:
            return Exited(result.exit_code)
        # bashkit's own sentence (a syntax error, a limit) reaches no sink; bash's code for a syntax error is 2.
        await self._spool.append("stderr", f"bash: {result.error}\n".encode())
        return Exited(2 if result.error.startswith("parse error") else result.exit_code)

    def _close_sinks(self) -> None:
        while self._sinks:
            self._sinks.pop().close()

    def _sink(self, stream: Stream) -> Callable[[bytes], Awaitable[None]]:
        sink = _Sink(self._spool.append, stream)
        self._sinks.append(sink)
        return sink


class MemorySandbox(OpenSandbox):
    """core.ports.Sandbox. Its runtime runs `serve` in a task."""

    def __init__(self, ref: SandboxRef, *, env: Mapping[str, str], inject_fault: InjectFault | None = None) -> None:
        self._systems = {root: empty_file_system() for root in OWN}
        super().__init__(ref, VirtualFiles(self._systems))
        self._inject_fault = inject_fault
        self._env = env
        self._processes: dict[str, MemoryProcess] = {}
        self._supervisor: BoxSupervisor | None = None
        self._failure: str | None = None
        self._serves = anyio.Event()
        self._ends = anyio.Event()
        self._served = anyio.Event()

    async def serving(self) -> None:
        """Returns once `serve` takes commands."""
        await self._serves.wait()

    async def serve(self) -> None:
        """Be there until `destroy`."""
        try:
            async with anyio.create_task_group() as tasks:
                self._supervisor = BoxSupervisor(tasks, self._ref.name, end=self.fail, inject_fault=self._inject_fault)
                self._serves.set()
                await self._ends.wait()
                tasks.cancel_scope.cancel()
        finally:
            for process in self._processes.values():
                process.leave(SandboxGone(self._failure or "it was ended."))
            self._served.set()

    async def fail(self, reason: str) -> None:
        """End it after a failure of one of its tasks; later calls raise SandboxGone with `reason`."""
        self._failure = reason
        self._ends.set()

    async def start(self, command: Command, exec_id: str) -> Process:
        self._require_open()
        known = self._processes.get(exec_id)
        if known is not None:
            return known
        refuse_impossible(command, OFFERS, NAME)
        if not all(_is_unicode(text) for text in (text_of(command), *command.env.values(), command.cwd or "")):
            raise BadCommand(
                "The command holds bytes that are not UTF-8; in memory all text is Unicode. Write it in UTF-8."
            )
        process = MemoryProcess(self, exec_id, self._interpreter(command), command)
        self._processes[exec_id] = process
        assert self._supervisor is not None
        self._supervisor.start("runs a command", process.run)
        return process

    async def find(self, exec_id: str) -> Process | None:
        self._require_open()
        return self._processes.get(exec_id)

    async def listening_ports(self) -> Sequence[int]:
        raise OfferMissing(NAME, Offer.PORTS.value)

    async def connect(self, port: int) -> socket.socket:
        raise OfferMissing(NAME, Offer.PORTS.value)

    async def touch(self) -> None:
        self._require_open()

    async def release(self) -> None:
        await self.destroy()  # it lives in this process only

    async def destroy(self) -> None:
        self._closed = True
        self._ends.set()
        with anyio.CancelScope(shield=True):
            await self._served.wait()

    def forget(self, exec_id: str) -> None:
        self._processes.pop(exec_id, None)

    def _interpreter(self, command: Command) -> Bash:
        """A fresh bash in the command's directory, over the sandbox's files. Raises WorkingDirectoryMissing."""
        cwd = working_directory(command.cwd)
        env = {"HOME": HOME, "LIMPET_DATA": DATA, "LANG": "C.UTF-8", "TERM": "dumb", **self._env, **command.env}
        bash = Bash(
            username="agent",
            hostname="limpet",
            cwd=cwd,
            env=env,
            max_commands=_NO_COUNT,
            max_loop_iterations=_NO_COUNT,
            profile=ExecutionProfile.Interactive,  # the others cut output off
        )
        for root, system in self._systems.items():
            bash.mount(root, system)
        if not bash.exists(cwd) or bash.stat(cwd)["file_type"] != "directory":
            raise WorkingDirectoryMissing(command.cwd or DATA)
        return bash

    def _require_open(self) -> None:
        super()._require_open()
        if self._failure is not None:
            raise SandboxGone(self._failure)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


class MemoryRuntime:
    """core.ports.Runtime. Its sandboxes, files included, are gone when it closes. For `inject_fault` see `supervisor`."""

    def __init__(self, *, inject_fault: InjectFault | None = None) -> None:
        self._inject_fault = inject_fault
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._living: dict[str, MemorySandbox] = {}

    @property
    def name(self) -> str:
        return NAME

    @property
    def offers(self) -> frozenset[Offer]:
        return OFFERS

    @property
    def held(self) -> Held:
        return Held()

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        for sandbox in list(self._living.values()):
            await sandbox.destroy()
        await self._stack.aclose()

    async def probe(self) -> Probe:
        result = await Bash().execute("echo works")
        if result.stdout != "works\n":
            return Probe(works=False, detail=f"bashkit did not run a first command: {result.error or result.stderr}")
        return Probe(
            works=True,
            detail="bash is interpreted in this process, over files in memory.",
            notes=(
                "No programs but bashkit's own run: no python3, no compilers, no package managers.",
                "Files are gone with the sandbox; one file may have 10 MB.",
                "Endless things end: /dev/zero and its kind after 1 MiB, yes after 10,000 lines, seq after 100,000.",
                "Nothing outlives its command: background jobs are waited for.",
            ),
        )

    async def create(self, spec: SandboxSpec) -> Sandbox:
        self._refuse(spec)
        ref = SandboxRef(runtime=NAME, name=spec.name, boot_id=secrets.token_hex(16))
        sandbox = MemorySandbox(ref, env=dict(spec.env), inject_fault=self._inject_fault)
        assert self._tasks is not None
        self._living[spec.name] = sandbox
        supervisor = BoxSupervisor(self._tasks, spec.name, end=sandbox.fail, inject_fault=self._inject_fault)
        supervisor.start("keeps it", self._keep, sandbox)
        try:
            await sandbox.serving()
        except BaseException:
            await sandbox.destroy()
            raise
        return sandbox

    async def attach(self, ref: SandboxRef) -> Sandbox:
        sandbox = self._living.get(ref.name)
        if sandbox is None or sandbox.boot_id != ref.boot_id:
            raise SandboxGone("a sandbox in memory ends with the process that created it.")
        return sandbox

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        return []  # nothing of it lies outside this process

    def _refuse(self, spec: SandboxSpec) -> None:
        refuse_impossible_spec(spec, OFFERS, NAME)
        for wanted, given in (
            ("an image", spec.image),
            ("read-only directories", spec.read_only),
        ):
            if given:
                raise OfferMissing(NAME, wanted)
        if spec.name in self._living:
            raise BootFailed(f"a sandbox named {spec.name} is living. Choose another name, or end that one.")

    async def _keep(self, sandbox: MemorySandbox) -> None:
        try:
            await sandbox.serve()
        finally:
            del self._living[sandbox.ref.name]


def empty_file_system() -> FileSystem:
    """A virtual file system with nothing in it; bashkit's own begins with a few directories."""
    system = FileSystem()
    for entry in system.read_dir("/"):
        system.remove(f"/{entry['name']}", recursive=True)
    return system


def working_directory(cwd: str | None) -> str:
    return cwd if cwd and cwd.startswith("/") else f"{DATA}/{cwd}" if cwd else DATA


def text_of(command: Command) -> str:
    """A command as a script. Every word of an argv is quoted, so that none is a keyword, an alias or an assignment."""
    match command.what:
        case Script(text):
            return text
        case Argv(args):
            return " ".join("'" + word.replace("'", "'\\''") + "'" for word in args)

"""A local sandbox: a directory, and a keeper that owns its processes. There is no wall around it."""

import itertools
import os
import socket
from collections.abc import Mapping, Sequence
from functools import partial

import anyio

from limpet.core.command import Argv, Command, Script, Stream, Terminal
from limpet.core.errors import OfferMissing, SandboxClosed, SandboxGone
from limpet.core.ports import Files, Offer, Process, SandboxRef
from limpet.runtimes.hostfiles import HostFiles
from limpet.runtimes.impossible import refuse_impossible
from limpet.runtimes.local.link import KeeperRequest, Link
from limpet.runtimes.local.paths import LocalPaths
from limpet.runtimes.piped_process import Descriptors, PipedProcess, ProcessControls, set_size
from limpet.runtimes.supervisor import BoxSupervisor, InjectFault

NAME = "local"
OFFERS = frozenset(
    {
        Offer.ARGV,
        Offer.STREAMING,
        Offer.STDIN,
        Offer.PTY,
        Offer.SIGNALS,
        Offer.CONCURRENT,
        Offer.DETACHED,
        Offer.DIRECTORY,
    }
)
# How long readers get for the rest of the output when the sandbox ends.
GRACE = 0.5


class LocalSandbox:
    """core.ports.Sandbox. Its runtime runs `serve` in a task."""

    def __init__(
        self,
        ref: SandboxRef,
        *,
        place: LocalPaths,
        link: Link,
        shell: str,
        env: Mapping[str, str],
        inject_fault: InjectFault | None = None,
    ) -> None:
        self._ref = ref
        self._place = place
        self._link = link
        self._shell = shell
        self._env = env
        self._files = HostFiles(place.files, place.owner)
        self._numbers = itertools.count(1)
        self._processes: dict[str, PipedProcess] = {}
        self._running: dict[int, PipedProcess] = {}
        self._inject_fault = inject_fault
        self._supervisor: BoxSupervisor | None = None
        self._closed = False
        self._failure: str | None = None
        self._gone = anyio.Event()
        self._serves = anyio.Event()
        self._served = anyio.Event()

    @property
    def ref(self) -> SandboxRef:
        return self._ref

    @property
    def boot_id(self) -> str:
        return self._ref.boot_id

    @property
    def files(self) -> Files:
        self._require_open()
        return self._files

    async def serving(self) -> None:
        """Returns once `serve` takes commands."""
        await self._serves.wait()

    async def serve(self) -> None:
        """Receive how commands end, until the keeper is gone."""
        try:
            async with anyio.create_task_group() as tasks:
                self._supervisor = BoxSupervisor(tasks, self._ref.name, end=self.fail, inject_fault=self._inject_fault)
                self._serves.set()
                while (said := await self._link.receive()) is not None:
                    process = self._running.pop(said["id"], None)
                    if process is not None:
                        process.shell_ended(said["code"], killed=said["killed"])
                self._gone.set()
                for process in self._running.values():
                    process.lost(self._failure or "Its sandbox ended while it ran.")
                await self._let_readers_finish()
                tasks.cancel_scope.cancel()
        finally:
            self._gone.set()
            self._leave()

    async def start(self, command: Command, exec_id: str) -> Process:
        self._require_alive()
        known = self._processes.get(exec_id)
        if known is not None:
            return known
        refuse_impossible(command, OFFERS, NAME)
        cwd = self._place.working_directory(command.cwd)
        number = next(self._numbers)
        descriptors, theirs = open_descriptors(command)
        process = self._process(number, exec_id, descriptors, command.timeout)
        self._processes[exec_id] = self._running[number] = process
        assert self._supervisor is not None
        run = partial(process.run, command.stdin, keeps_stdin_open=command.keeps_stdin_open)
        self._supervisor.start("carries a command's output", run)
        with anyio.CancelScope(shield=True):
            try:
                await self._link.start(number, self._request(command, cwd), theirs)
            except OSError:
                process.lost("Its sandbox ended before it began.")
        return process

    def _request(self, command: Command, cwd: str) -> KeeperRequest:
        program: str
        argv: tuple[str, ...]
        match command.what:
            case Script(text):
                program, argv = self._shell, ("bash", "-c", text)
            case Argv(args):
                program, argv = args[0], args
        return KeeperRequest(
            program=program,
            argv=argv,
            env=self._environment(command),
            cwd=cwd,
            user=self._place.owner,
            terminal=command.terminal is not None,
        )

    async def find(self, exec_id: str) -> Process | None:
        self._require_alive()
        return self._processes.get(exec_id)

    async def listening_ports(self) -> Sequence[int]:
        raise OfferMissing(NAME, Offer.PORTS.value)

    async def connect(self, port: int) -> socket.socket:
        raise OfferMissing(NAME, Offer.PORTS.value)

    async def touch(self) -> None:
        self._require_alive()

    async def release(self) -> None:
        await self.destroy()  # a local sandbox never outlives its owner

    async def destroy(self) -> None:
        self._closed = True
        await self._link.close()
        with anyio.CancelScope(shield=True):
            await self._served.wait()

    async def fail(self, reason: str) -> None:
        """End it after a failure of one of its tasks; later calls raise SandboxGone with `reason`."""
        self._failure = reason
        self._gone.set()
        await self._link.close()

    def _process(self, number: int, exec_id: str, descriptors: Descriptors, timeout: float | None) -> PipedProcess:
        return PipedProcess(
            exec_id,
            reins=ProcessControls(kill=partial(self._kill, number), signal=partial(self._signal, number)),
            descriptors=descriptors,
            timeout=timeout,
            forgotten=self._forget,
        )

    def _forget(self, exec_id: str) -> None:
        self._processes.pop(exec_id, None)

    async def _kill(self, number: int) -> None:
        try:
            await self._link.kill(number)
        except OSError:
            pass  # the keeper is gone, and `serve` says so to every process

    async def _signal(self, number: int, signal_number: int) -> None:
        try:
            await self._link.signal(number, signal_number)
        except OSError:
            pass

    def _environment(self, command: Command) -> dict[str, str]:
        own = self._place.environment(os.environ, terminal=command.terminal is not None)
        return {**own, **self._env, **command.env}

    async def _let_readers_finish(self) -> None:
        with anyio.move_on_after(GRACE):
            for process in list(self._processes.values()):
                await process.wait()

    def _leave(self) -> None:
        for process in self._processes.values():
            process.leave(SandboxGone(self._failure or "it was ended."))
        self._link.drop()
        self._served.set()

    def _require_open(self) -> None:
        if self._closed:
            raise SandboxClosed

    def _require_alive(self) -> None:
        self._require_open()
        if self._gone.is_set():
            raise SandboxGone(self._failure or "the process that kept its commands has ended.")


def open_descriptors(command: Command) -> tuple[Descriptors, list[int]]:
    """The host's ends, and the command's three, for a terminal or for pipes. All close-on-exec."""
    if command.terminal is not None:
        return open_terminal(command.terminal)
    ours: dict[Stream, int] = {}
    theirs: list[int] = []
    stdin = None
    if command.stdin is None and not command.keeps_stdin_open:
        theirs.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    else:
        reader, stdin = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(stdin, False)
        theirs.append(reader)
    for stream in ("stdout", "stderr"):
        ours[stream], writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours[stream], False)
        theirs.append(writer)
    return Descriptors(outputs=ours, stdin=stdin), theirs


def open_terminal(terminal: Terminal) -> tuple[Descriptors, list[int]]:
    ours, slave = os.openpty()
    set_size(ours, terminal.columns, terminal.rows)
    os.set_blocking(ours, False)
    return Descriptors(outputs={"stdout": ours}, stdin=ours, terminal=ours), [slave, slave, slave]

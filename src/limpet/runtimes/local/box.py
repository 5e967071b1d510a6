"""A local sandbox's agent: a process of this host, its descriptors, the connection to it, and the tasks that serve it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

import anyio
import anyio.lowlevel
from anyio import to_thread
from anyio.abc import Process as HostProcess
from anyio.abc import TaskGroup

from limpet.core.errors import BootFailed, SandboxGone
from limpet.core.open_files import usual_open_file_limit
from limpet.runtimes import procfs
from limpet.runtimes.agent_client.agent_process import AgentProcess, started_at
from limpet.runtimes.agent_client.client import Client
from limpet.runtimes.agent_client.payload import in_memory, payload, starter
from limpet.runtimes.agent_client.time_limits import TimeLimits
from limpet.runtimes.local.paths import LocalPaths
from limpet.runtimes.local.walls import Landlock
from limpet.runtimes.supervisor import BoxSupervisor, InjectFault

_BOOT = 10.0  # seconds for its first answer
_PATIENCE = 8.0  # seconds for its end; the agent itself gives up killing after 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is decided about a sandbox before its agent starts. `temporary` goes with the agent."""

    name: str
    boot_id: str
    place: LocalPaths
    temporary: Path | None
    shell: str
    env: Mapping[str, str]
    fence: Landlock

    def config(self) -> dict[str, object]:
        """What the agent is told."""
        return {
            "boot_id": self.boot_id,
            "ttl": None,
            "orphan_grace": 0.0,
            "bare": True,
            "temporary": str(self.temporary or ""),
            "commands": {
                "shell": self.shell,
                "directory": self.place.working_directory(None),
                "env": dict(self.env),
                "limits": {"RLIMIT_NOFILE": usual_open_file_limit()},
                "user": self.place.owner,
            },
            "sizes": {},
            "walls": {"layers": self.fence.layers, "filter": self.fence.filter} if self.fence else None,
        }


class LocalBox:
    """A running agent, below a process that ends what it leaves (`agent/bare.py`): `guardian`. It ends when its lifeline closes: at
    `end`, or with this process, however that ends. `greet` first; then `agent` and `time_limits` are there."""

    agent: AgentProcess
    time_limits: TimeLimits

    def __init__(
        self,
        plan: Plan,
        guardian: HostProcess,
        connected: socket.socket,
        lifeline: int,
        *,
        tasks: TaskGroup,
        ended: Callable[[], None],
        inject_fault: InjectFault | None,
    ) -> None:
        self._plan = plan
        self._guardian = guardian
        self._lifeline = lifeline
        self._ended = ended
        self._turn = anyio.Lock()
        self._is_cleared = False
        self.client = Client(connected)
        self._supervisor = BoxSupervisor(tasks, plan.name, end=self.end, inject_fault=inject_fault)
        self._supervisor.start("hears its agent", self._serve)
        self._supervisor.start("speaks to its agent", self.client.keep_sending)

    @property
    def has_ended(self) -> bool:
        return self._is_cleared

    async def greet(self, *, limit_grace: float) -> None:
        """Return once its agent has answered. For `limit_grace` see `TimeLimits`. Raises SandboxGone."""
        await self.client.greet(self._plan.boot_id, within=_BOOT)
        # While the agent lives it adopts what is below it, so the guardian has this child only.
        pid = next(iter(_children(self._guardian.pid)), 0)
        started = started_at(pid)
        if started is None:
            raise SandboxGone("Its agent has ended.")
        self.agent = AgentProcess(boot_id=self._plan.boot_id, pid=pid, started=started)
        self.time_limits = TimeLimits(self.agent, self.client, self._supervisor, grace=limit_grace)

    async def end(self, reason: str = "It was destroyed.") -> None:
        """End it, and with it every process of the sandbox, and wait for that. Twice is quiet."""
        self.client.close(reason)
        with anyio.CancelScope(shield=True):
            # Before a new socket can get the same descriptor number; see LiveBox of bubblewrap.
            await anyio.lowlevel.checkpoint()
            async with self._turn:
                if not self._is_cleared:
                    await self._clear()
                    self._is_cleared = True
                    self._ended()

    async def _clear(self) -> None:
        os.close(self._lifeline)
        # An agent that was stopped does not see that; once it is killed the guardian ends the rest.
        agents = _children(self._guardian.pid)
        for doomed in ([] if not any(map(_is_stopped, agents)) else agents, agents, [self._guardian.pid]):
            for pid in doomed:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with anyio.move_on_after(_PATIENCE):
                await self._guardian.wait()
                break
        if self._plan.temporary is not None:  # its agent has removed it, unless it was killed
            await to_thread.run_sync(partial(shutil.rmtree, self._plan.temporary, ignore_errors=True))

    async def _serve(self) -> None:
        if not await self.client.serve():
            await self.end()


async def start(
    plan: Plan, *, tasks: TaskGroup, ended: Callable[[], None], limit_grace: float, inject_fault: InjectFault | None
) -> LocalBox:
    """A sandbox's agent that answers; `ended` is called when it has ended. Raises BootFailed: nothing is left then."""
    with ExitStack() as stack:
        log = stack.enter_context(TemporaryFile())
        # Shielded, for it takes milliseconds: cancelled in between, it would leave a process that nothing waits for.
        with anyio.CancelScope(shield=True):
            process, connected, lifeline = await _launch(plan, log.fileno())
        box = LocalBox(plan, process, connected, lifeline, tasks=tasks, ended=ended, inject_fault=inject_fault)
        try:
            await box.greet(limit_grace=limit_grace)
        except BaseException as error:
            await box.end()
            if isinstance(error, SandboxGone):
                complaint = os.pread(log.fileno(), 2000, 0).decode(errors="replace").strip()
                raise BootFailed(complaint or "the process that owns its commands did not answer.") from error
            raise
    return box


def _children(pid: int) -> list[int]:
    """Of a process with one thread."""
    return list(procfs.numbers(procfs.read(f"/proc/{pid}/task/{pid}/children")))


def _is_stopped(pid: int) -> bool:
    stat = procfs.stat_of(pid)
    return stat is not None and stat.state in "Tt"


async def _launch(plan: Plan, log: int) -> tuple[HostProcess, socket.socket, int]:
    """The agent's process, the connection to it, and its lifeline. What was handed over is closed."""
    with ExitStack() as kept, ExitStack() as handed:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        kept.callback(ours.close)
        handed.callback(theirs.close)
        ours.setblocking(False)
        held, lifeline = os.pipe()
        kept.callback(os.close, lifeline)
        handed.callback(os.close, held)
        spool = handed.enter_context(TemporaryFile(prefix="limpet-spool-")).fileno()
        ends = {"connection": theirs.fileno(), "lifeline": held, "spool": spool}
        source = in_memory("agent", payload(plan.config(), ends))
        handed.callback(os.close, source)
        process = await anyio.open_process(
            [sys.executable, "-X", "utf8", *starter(source)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={},
            cwd="/",
            start_new_session=True,
            pass_fds=(source, *ends.values()),
        )
        kept.pop_all()
    return process, ours, lifeline

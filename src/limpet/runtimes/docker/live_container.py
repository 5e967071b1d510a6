"""A container that runs, as its runtime holds it: the connection to its agent, its lifeline, and its tasks.

Every task of a container runs under its supervisor, so that whatever one raises ends this container and no other.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.agent_client.client import connect
from limpet.runtimes.agent_client.time_limits import TimeLimits
from limpet.runtimes.bubblewrap.limits.disk_looks import WatchedDisk
from limpet.runtimes.bubblewrap.limits.disk_watch import Lanes, watch
from limpet.runtimes.bubblewrap.limits.hidden_files import HiddenFilesLedger
from limpet.runtimes.docker.settings import ContainerPaths, DockerSettings
from limpet.runtimes.procfs import children_of
from limpet.runtimes.supervisor import BoxSupervisor, InjectFault

_ANSWERS_WITHIN = 10.0
_DYING = 5.0


class LiveContainer:
    """`clear` ends the container and removes what it had. `greet` first; then it works until `end` or `leave`."""

    def __init__(
        self,
        place: ContainerPaths,
        agent: AgentProcess,
        settings: DockerSettings,
        *,
        tasks: TaskGroup,
        clear: Callable[[], Awaitable[None]],
        lifeline: int | None,
        inject_fault: InjectFault | None,
    ) -> None:
        """Connect to its agent. Raises SandboxGone."""
        self._agent = agent
        self._settings = settings
        self._clear = clear
        self._lifeline = lifeline
        self._watching = anyio.CancelScope()
        self.client = connect(place.socket)
        self.supervisor = BoxSupervisor(tasks, place.short, end=self._fail, inject_fault=inject_fault)
        self.time_limits = TimeLimits(agent, self.client, self.supervisor, grace=settings.limit_grace)
        self.supervisor.start("hears its agent", self._serve)
        self.supervisor.start("speaks to its agent", self.client.keep_sending)

    async def greet(self) -> None:
        """Return once its agent has answered, with that boot id. Raises SandboxGone; the connection is closed then."""
        await self.client.greet(self._agent.boot_id, within=_ANSWERS_WITHIN)

    async def _serve(self) -> None:
        """Serve the connection; if its container then turns out to have ended by itself, or has lied, clear what that left."""
        if await self.client.serve():
            return
        if self.client.has_lied:
            await self._clear()
            return
        with anyio.move_on_after(_DYING):
            await self._agent.has_died()
            await self._clear()

    async def _fail(self, reason: str) -> None:
        self.client.close(reason)
        with anyio.CancelScope(shield=True):
            await self._clear()

    async def watch(self, directories: tuple[Path, ...], limit: int, ledger: HiddenFilesLedger, lanes: Lanes) -> None:
        """Watch its disk until it has ended or is released. `limit` in bytes."""
        watched = WatchedDisk(
            agent=self._agent,
            directories=directories,
            limit=limit,
            floor=self._settings.disk_floor_mb << 20,
            every=self._settings.disk_every,
            ledger=ledger,
            members=lambda: children_of(self._agent.pid),
        )
        with self._watching:
            await watch(watched, self.client, lanes)

    async def leave(self) -> None:
        """Release it. It goes on running, unless its lifetime is that of its creator and that is this process."""
        if self._lifeline is not None:
            await self.end("It was let go of.")
        else:
            await self._disconnect("It was let go of.")

    async def end(self, reason: str = "It was destroyed.") -> None:
        """End it and clear all that it had. Raises RuntimeUnavailable where the engine does not answer."""
        try:
            await self._disconnect(reason)
            with anyio.CancelScope(shield=True):
                await self._clear()
        finally:  # where the engine does not answer, this ends it
            if self._lifeline is not None:
                os.close(self._lifeline)
                self._lifeline = None

    async def _disconnect(self, reason: str) -> None:
        self._watching.cancel()
        self.client.close(reason)
        # Before a new socket can get the same descriptor number; see LiveBox of bubblewrap.
        await anyio.lowlevel.cancel_shielded_checkpoint()

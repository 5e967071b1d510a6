"""A box that runs, as its runtime holds it: the connection to its agent, what must be closed with it, and its tasks.

Every task of a box runs under its supervisor, so that whatever one raises ends this box and no other.
"""

from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel
from anyio import to_thread
from anyio.abc import TaskGroup

from limpet.core.errors import SandboxClosed
from limpet.core.network import DoorListeners, DoorPlan
from limpet.core.ports import SandboxRef
from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.agent_client.client import connect
from limpet.runtimes.agent_client.time_limits import TimeLimits
from limpet.runtimes.bubblewrap import box, door_sockets, ending
from limpet.runtimes.bubblewrap.limits import bounding_helper
from limpet.runtimes.bubblewrap.limits.disk_looks import WatchedDisk
from limpet.runtimes.bubblewrap.limits.disk_watch import Lanes, watch
from limpet.runtimes.bubblewrap.limits.groups import Groups
from limpet.runtimes.bubblewrap.limits.hidden_files import HiddenFilesLedger
from limpet.runtimes.bubblewrap.settings import BoxPaths, BubblewrapSettings
from limpet.runtimes.procfs import children_of
from limpet.runtimes.supervisor import BoxSupervisor, InjectFault

_ANSWERS_WITHIN = 10.0
_DYING = 5.0


@dataclass(slots=True, kw_only=True)
class SharedResources:
    """What the boxes of one runtime share. `unbounded` says in sentences what could not be bounded of the last box."""

    settings: BubblewrapSettings
    inject_fault: InjectFault | None
    groups: Groups | None = None
    tasks: TaskGroup | None = None
    unbounded: tuple[str, ...] = ()
    bounded: anyio.Event = field(default_factory=anyio.Event)  # some box, or has tried to
    lanes: Lanes = field(default_factory=Lanes)
    ledger: HiddenFilesLedger = field(default_factory=HiddenFilesLedger)
    locks: dict[str, anyio.Lock] = field(default_factory=dict)

    def lock(self, place: BoxPaths) -> anyio.Lock:
        """Held while a box is booted or cleared, one at a time."""
        return self.locks.setdefault(place.short, anyio.Lock())

    def has_bounded(self, unbounded: tuple[str, ...]) -> None:
        """That is all of a box that could not be bounded."""
        self.unbounded = unbounded
        self.bounded.set()


class LiveBox:
    """`started` where this runtime has booted it. `greet` first; then it works until `end` or `leave`."""

    def __init__(
        self, shared: SharedResources, place: BoxPaths, agent: AgentProcess, started: box.StartedBox | None = None
    ) -> None:
        """Connect to its agent. Raises SandboxGone."""
        if shared.tasks is None:
            raise SandboxClosed
        self._shared = shared
        self._place = place
        self._agent = agent
        self._started = started
        self._watching = anyio.CancelScope()
        self._bounding = anyio.CancelScope()
        self.bounded = anyio.Event()
        self.client = connect(place.socket)
        self.supervisor = BoxSupervisor(shared.tasks, place.short, end=self._fail, inject_fault=shared.inject_fault)
        self.time_limits = TimeLimits(agent, self.client, self.supervisor, grace=shared.settings.limit_grace)
        self.supervisor.start("hears its agent", self._serve)
        self.supervisor.start("speaks to its agent", self.client.keep_sending)

    async def greet(self) -> None:
        """Return once its agent has answered, with that boot id. Raises SandboxGone; the connection is closed then."""
        await self.client.greet(self._agent.boot_id, within=_ANSWERS_WITHIN)

    async def _serve(self) -> None:
        """Serve the connection; if its box then turns out to have ended by itself, or has lied, clear what that left."""
        if await self.client.serve():
            return
        if self.client.has_lied:
            await self._clear_if_ours()
            return
        with anyio.move_on_after(_DYING):
            await self._agent.has_died()
            await self._clear_if_ours()

    async def _clear_if_ours(self) -> None:
        async with self._shared.lock(self._place):
            if AgentProcess.recorded(self._place.record) == self._agent:
                await ending.clear(self._place, self._agent, self._shared.groups)

    async def _fail(self, reason: str) -> None:
        """A task of it has failed: end it."""
        self.client.close(reason)
        with anyio.CancelScope(shield=True):
            await self._clear_if_ours()

    async def bound(self, plan: box.Plan) -> None:
        """Set from outside what only can be set there; a box that was quicker than that ends."""
        try:
            with self._bounding:
                memory = plan.settings.limits(plan.spec.limits).memory
                bounded = await bounding_helper.by_helper(plan.user_id, self._agent, memory=memory)
                if self._agent.lives():
                    self._shared.has_bounded(bounded.unbounded)
                if bounded.exceeded:
                    await ending.clear(self._place, self._agent, self._shared.groups)
        finally:
            self._shared.bounded.set()
            self.bounded.set()

    async def watch(self, ref: SandboxRef) -> None:
        """Watch its disk until it has ended or is released."""
        groups, settings = self._shared.groups, self._shared.settings
        watched = WatchedDisk(
            agent=self._agent,
            directories=(
                *map(Path, [*ref.facts["files"].values(), *ref.facts.get("counted", ())]),
                *self._place.private,
            ),
            limit=ref.facts.get("disk") or settings.disk_mb << 20,
            floor=settings.disk_floor_mb << 20,
            every=settings.disk_every,
            ledger=self._shared.ledger,
            members=lambda: children_of(self._agent.pid) if groups is None else groups.members(self._place.group),
        )
        with self._watching:
            await watch(watched, self.client, self._shared.lanes)

    async def listen(self, plan: DoorPlan) -> DoorListeners:
        """See `core.network.NetworkedSandbox.listen`."""
        return await door_sockets.listen(self._agent, plan)

    async def trust(self, certificate: bytes) -> None:
        """See `core.network.NetworkedSandbox.trust`."""
        await to_thread.run_sync(door_sockets.trust, self._place.trust, certificate)

    async def leave(self) -> None:
        """Release it. It goes on running, unless its lifetime is that of its creator and that is this process."""
        if self._started is not None and self._started.lifeline is not None:
            await self.end("It was let go of.")
            return
        await self._disconnect("It was let go of.")
        if self._started is not None:
            await self.bounded.wait()
            self._started.close()

    async def end(self, reason: str = "It was destroyed.") -> None:
        """End it and clear all that it had. Raises TimeoutError if the kernel keeps a process of it for long."""
        await self._disconnect(reason)
        self._bounding.cancel()
        with anyio.CancelScope(shield=True):
            await ending.clear(self._place, self._agent, self._shared.groups)
        if self._started is not None:
            self._started.close()

    async def _disconnect(self, reason: str) -> None:
        self._watching.cancel()
        self.client.close(reason)
        # Before a new socket can get the same descriptor number: in anyio (4.15) a task that still waits for the old one would, on
        # waking, remove the reader of the new one, and the end of the process would never be noticed.
        await anyio.lowlevel.cancel_shielded_checkpoint()

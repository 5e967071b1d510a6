"""The disk of a box, looked at while something runs in it; where a limit is reached, whoever writes is stopped.

Looked at and not enforced by the kernel: file systems that bound a directory are rare. So a box may exceed its limit by what can
be written between two looks.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from limpet.core.errors import SandboxGone
from limpet.runtimes import procfs
from limpet.runtimes.bubblewrap.client import Client
from limpet.runtimes.bubblewrap.disk import used_by
from limpet.runtimes.bubblewrap.settings import Agent
from limpet.runtimes.bubblewrap.unseen import Ledger, Unseen

_LONGER = 20  # a look may take up a twentieth of the time
_ASK_AGAIN = 0.1  # seconds between the two moments that show who writes
_AFTER_A_KILL = 0.3
_MIB = 1 << 20
_WITH_UNSEEN = " with files that have no name, and are mapped or were sent through sockets and not received"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One box. `limit` and `floor` in bytes: what it may use, and what must stay free on the host. `members` lists its processes;
    `limiter` bounds how many boxes are looked at in one moment; `ledger` is shared by all."""

    agent: Agent
    directories: tuple[Path, ...]
    limit: int
    floor: int
    every: float
    members: Callable[[], set[int]]
    limiter: anyio.CapacityLimiter
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Reached:
    """A limit that was reached: in words, and whether all who write shall go, or only the newest."""

    reason: str
    every_writer: bool


def decide(*, used: int, limit: int, free: int, floor: int, unseen: int = 0) -> Reached | None:
    """Which limit these bytes reach; `unseen` come to those that are used."""
    if free < floor:
        return Reached("the disk of the host is nearly full", True)
    if used > limit:
        return Reached(f"the disk limit of {limit // _MIB} MiB was reached", False)
    if used + unseen > limit:
        return Reached(f"the disk limit of {limit // _MIB} MiB was reached{_WITH_UNSEEN}", False)
    return None


@dataclass(slots=True)
class Looks:
    """What is known from earlier looks at a box, so that the next one costs little where nothing can have changed. Once `is_over` a
    look that is under way comes to its end."""

    watched: Watched
    used: int = 0
    unseen: int = 0
    is_over: bool = False
    _free: int = 0
    _activity: frozenset[tuple[int, ...]] = field(default_factory=frozenset)
    _not_before: float = 0.0
    _hidden: Unseen = field(default_factory=Unseen)

    def take(self) -> Reached | None:
        """Blocking. Only where something has run since the last look; and where that look took long, only after a while or when
        the disk has lost what the box had left."""
        members = self.watched.members()
        activity = _activity(members, self.watched.agent.pid)
        if activity == self._activity:
            return None
        free = _free_on(self.watched.directories[0])
        begun = time.monotonic()
        if begun >= self._not_before or self._free - free > self.watched.limit - self.used:
            self._look({*members, self.watched.agent.pid}, free)
            self._not_before = begun + _LONGER * (time.monotonic() - begun)
            self._free = free
            # Only now: what was not looked at is looked at next time.
            self._activity = activity
        watched = self.watched
        return decide(used=self.used, limit=watched.limit, free=free, floor=watched.floor, unseen=self.unseen)

    def _look(self, processes: set[int], free: int) -> None:
        watched, name = self.watched, self.watched.agent.boot_id
        usage = used_by(watched.directories, processes, goes_on=lambda: not self.is_over)
        self.used = usage.bytes
        watched.ledger.note(name, usage.bytes)
        others = watched.ledger.others(name)
        self.unseen = self._hidden.after(usage, free=free, others=others, processes=processes)

    def expect_change(self) -> None:
        """Look properly next time."""
        self._not_before = 0.0
        self._activity = frozenset()


async def watch(watched: Watched, client: Client) -> None:
    """Until the connection to the box has ended."""
    looks = Looks(watched)
    pause = watched.every
    try:
        while client.gone is None:
            await anyio.sleep(pause)
            reached = await to_thread.run_sync(looks.take, abandon_on_cancel=True, limiter=watched.limiter)
            pause = watched.every
            if reached is not None and await _stop_writers(client, reached):
                looks.expect_change()
                pause = min(_AFTER_A_KILL, watched.every)
    except SandboxGone:
        return
    finally:
        looks.is_over = True
        watched.ledger.close(watched.agent.boot_id)


async def _stop_writers(client: Client, reached: Reached) -> bool:
    """Whether there were any. Raises SandboxGone."""
    for _ in range(2):
        killed = await client.stop_writers(reached.reason, every=reached.every_writer)
        if killed is not None:
            return killed != 0
        await anyio.sleep(_ASK_AGAIN)
    return False


def _free_on(directory: Path) -> int:
    try:
        status = os.statvfs(directory)
    except OSError:
        return 1 << 62  # it goes with its box
    return status.f_bavail * status.f_frsize


def _activity(members: set[int], agent: int) -> frozenset[tuple[int, ...]]:
    """Which processes there are and how much they have computed, and how much those did that have ended: nothing writes without
    computing. The agent's own work is none of it."""
    found = {pid: procfs.stat_of(pid) for pid in {*members, agent}}
    own = {(pid, int(stat.started), *stat.times) for pid, stat in found.items() if stat and pid != agent}
    reaped = found[agent]
    return frozenset({*own, (agent, *(reaped.times_of_children if reaped else ()))})


def children_of(pid: int) -> set[int]:
    """Every process below this one, for hosts where no cgroup lists them. They may end while they are looked at."""
    found: set[int] = set()
    pending = [pid]
    while pending:
        parent = pending.pop()
        for thread in _threads(parent):
            new = set(procfs.numbers(procfs.read(f"/proc/{parent}/task/{thread}/children"))) - found
            found |= new
            pending += new
    return found


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []  # it has ended

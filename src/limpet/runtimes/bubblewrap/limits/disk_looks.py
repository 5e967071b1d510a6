"""What looks at the disk of a box have found, and what follows from it: which limit is reached, whether the box writes on, and whether
free space has gone that no look has found yet. Blocking, in slices; stops nothing.
"""

import os
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

from limpet.runtimes import procfs
from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.bubblewrap.limits.disk_usage import LEAST, Usage, counting
from limpet.runtimes.bubblewrap.limits.hidden_files import HiddenFiles, HiddenFilesLedger

SLICE = 0.05  # seconds of counting at a time; a count that needs more is a slow one
_LONGER = 20  # counts of a box may take up a twentieth of the time, where nothing asks for more
_PER_FILE = (
    16 << 10
)  # bytes of the floor for which the host must have room for one more file, as most file systems are laid out
_GROWS = 1 << 20  # bytes beyond what a box had when it was found past a limit, from which on it counts as growing
_UNNOTICED = (
    16 << 20
)  # bytes that the disk may lose before a box that seems to have done nothing is looked at all the same
_MIB = 1 << 20
_PLENTY = 1 << 62
_WITH_UNSEEN = " with files that have no name, and are mapped or were sent through sockets and not received"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedDisk:
    """One box. `limit` and `floor` in bytes: what it may use, and what must stay free on the host. `members` lists its processes;
    `ledger` is shared by all."""

    agent: AgentProcess
    directories: tuple[Path, ...]
    limit: int
    floor: int
    every: float
    members: Callable[[], set[int]]
    ledger: HiddenFilesLedger


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit that was reached: in words, and whether all who write shall go, or only the newest."""

    reason: str
    every_writer: bool


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """What a file system has left: bytes, and files and directories that can still be made."""

    bytes: int
    files: int

    def lost_since(self, before: "FreeSpace") -> int:
        """Bytes, with so many for each file as a box is charged for one."""
        return before.bytes - self.bytes + (before.files - self.files) * LEAST


def decide(*, used: int, limit: int, free: FreeSpace, floor: int, unseen: int = 0) -> LimitReached | None:
    """Which limit these bytes reach; `unseen` come to those that are used."""
    if free.bytes < floor:
        return LimitReached("the disk of the host is nearly full", True)
    if free.files < floor // _PER_FILE:
        return LimitReached("the disk of the host has room for few more files", True)
    if used > limit:
        return LimitReached(f"the disk limit of {limit // _MIB} MiB was reached", False)
    if used + unseen > limit:
        return LimitReached(f"the disk limit of {limit // _MIB} MiB was reached{_WITH_UNSEEN}", False)
    return None


@dataclass(slots=True)
class Growth:
    """Of a box that is past a limit, from look to look: its writers may have been stopped, or it may write on."""

    _least: int | None = None  # bytes that it used at its best since then

    def start_again(self) -> None:
        """A writer was stopped: the next look is the new base for growth."""
        self._least = None

    def after(self, used: int, *, is_past: bool) -> bool:
        """Whether it has grown since it was first found past its limit, or since a writer was stopped."""
        if not is_past:
            self._least = None
            return False
        self._least = used if self._least is None else min(self._least, used)
        return used - self._least > _GROWS


@dataclass(slots=True)
class DiskLooks:
    """What is known from earlier looks at a box, so that the next one costs little where nothing can have changed.

    A look is `begin`, `go_on` as often as it takes, and `judge`; one at a time. `close` may come at any moment.
    """

    watched: WatchedDisk
    used: int = 0
    unseen: int = 0
    grows: bool = False
    seconds: float = 0.0  # of the last count
    counts: int = 0  # that were finished
    free: FreeSpace = FreeSpace(0, 0)
    _activity: frozenset[tuple[int, ...]] = field(default_factory=frozenset)
    _not_before: float = 0.0
    _hidden: HiddenFiles = field(default_factory=HiddenFiles)
    _growth: Growth = field(default_factory=Growth)
    _free_then: FreeSpace = FreeSpace(0, 0)  # when the last count began, and what others used when it was done
    _others_then: int = 0
    _count: "_Count | None" = None
    _changed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_over: bool = False

    @property
    def total(self) -> int:
        """Bytes at the last count, with those that are not seen."""
        return self.used + self.unseen

    @property
    def is_slow(self) -> bool:
        """Whether counting takes long, as the last time or as far as it has come."""
        return max(self.seconds, self._count.seconds if self._count else 0.0) > SLICE

    @property
    def pause(self) -> float:
        """Seconds until the next look: less where a fast writer could soon reach the limit."""
        return self.watched.every if self.watched.limit - self.used > 64 * _MIB else self.watched.every / 2

    @property
    def suspects(self) -> bool:
        """Whether the disk has lost, since the last count, more than this box had left and the others are known to have taken."""
        if self._count is None and self.seconds == 0.0:
            return False
        lost = self.free.lost_since(self._free_then) - (self.watched.ledger.others(self._name) - self._others_then)
        return self._changed and lost > max(_UNNOTICED, self.watched.limit - self.used)

    def begin(self, *, afresh: bool = False) -> bool:
        """Whether there is something to count: only where something has run since the last look; and where that took long, only after
        a while or when much has gone from the disk. `afresh` counts in any case, and from the beginning."""
        members = self.watched.members()
        activity = _activity(members, self.watched.agent.pid)
        self.free = _free_on(self.watched.directories[0])
        self._changed = afresh or activity != self._activity or self.free.lost_since(self._free_then) > _UNNOTICED
        if self._count is not None and not afresh:
            return True
        is_due = time.monotonic() >= self._not_before or self.suspects
        if not afresh and not (self._changed and is_due):
            return False
        self._drop()
        processes = {*members, self.watched.agent.pid}
        self._count = _Count(counting(self.watched.directories, processes), processes, self.free, activity)
        return True

    def go_on(self, seconds: float) -> bool:
        """Count for so long. Whether it is done."""
        with self._lock:
            count = self._count
            if count is None or self._is_over:
                self._drop()
                return True
            usage = count.go_on(seconds)
            if usage is None:
                return False
            self._count = None
        self._note(usage, count)
        return True

    def judge(self) -> LimitReached | None:
        """Which limit is reached, as far as is known; None also where nothing has run."""
        return self._decide() if self._changed else None

    def _decide(self) -> LimitReached | None:
        watched = self.watched
        return decide(used=self.used, limit=watched.limit, free=self.free, floor=watched.floor, unseen=self.unseen)

    def expect_change(self) -> None:
        """A writer was stopped: the next look must be a full one."""
        self._growth.start_again()
        self.grows = False
        self._not_before = 0.0
        self._activity = frozenset()

    def close(self) -> None:
        self._is_over = True
        if self._lock.acquire(blocking=False):  # else the thread that counts sees it
            self._drop()
            self._lock.release()

    def _drop(self) -> None:
        if self._count is not None:
            self._count.steps.close()
            self._count = None

    def _note(self, usage: Usage, count: "_Count") -> None:
        watched = self.watched
        watched.ledger.note(self._name, usage.bytes)
        others = watched.ledger.others(self._name)
        self.used, self.seconds = usage.bytes, count.seconds
        self.counts += 1
        self.unseen = self._hidden.after(usage, free=count.free.bytes, others=others, processes=count.processes)
        self._free_then, self._others_then = count.free, others
        self._activity = count.activity
        self._not_before = time.monotonic() + _LONGER * count.seconds
        is_past = self._decide() is not None
        self.grows = self._growth.after(self.total, is_past=is_past)

    @property
    def _name(self) -> str:
        return self.watched.agent.boot_id


@dataclass(slots=True)
class _Count:
    """One that is under way: whose processes it looks into, and what was free and active when it began."""

    steps: Generator[None, None, Usage]
    processes: set[int]
    free: FreeSpace
    activity: frozenset[tuple[int, ...]]
    seconds: float = 0.0

    def go_on(self, seconds: float) -> Usage | None:
        begun = time.monotonic()
        try:
            while time.monotonic() - begun < seconds:
                next(self.steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # StopIteration has no type for what a generator returns
        finally:
            self.seconds += max(time.monotonic() - begun, 1e-6)
        return None


def _free_on(directory: Path) -> FreeSpace:
    try:
        status = os.statvfs(directory)
    except OSError:
        return FreeSpace(_PLENTY, _PLENTY)  # it goes with its box
    # A file system that makes room for files as they come counts none.
    return FreeSpace(status.f_bavail * status.f_frsize, status.f_favail if status.f_files else _PLENTY)


def _activity(members: set[int], agent: int) -> frozenset[tuple[int, ...]]:
    """Which threads there are and how long they have run, and how long the agent's children had that have ended: nothing writes
    without running. The agent's own work is none of it."""
    running = [procfs.run_times(pid) for pid in members - {agent}]
    reaped = procfs.stat_of(agent)
    return frozenset({(agent, *(reaped.times_of_children if reaped else ()))}.union(*running))

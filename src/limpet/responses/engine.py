"""Carries runs as tasks of this process, and takes over those whose process has died.

A run belongs to the process that claimed it last (`store/runs.py`). A process that carries runs sends heartbeats for them; one that was
silent for `silence` seconds has lost them, and the store refuses what it appends from then on. Where several processes share a database
they also ask each other to cancel.
"""

import itertools
import math
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Self

import anyio
import structlog
from anyio.abc import TaskGroup

from limpet.core.clock import MICROSECONDS, Clock
from limpet.core.engine import Carry, RunState
from limpet.core.errors import StoreError
from limpet.core.ids import new_id
from limpet.store.runs import LATEST, RunClaim, Runs

LOOK = 1.0  # seconds, at most, between two looks for runs that others want cancelled
BEATS = 4  # heartbeats within the silence after which a run is taken over
CLOCK = 60  # looks between two comparisons of the clocks
CANCEL = 10.0  # seconds for a process elsewhere to cancel a run
OWNER_JOINT = "/"  # between a home's id and what its process adds to be an owner's name of its own
log = structlog.get_logger()


def owner_in(home: str) -> str:
    """A new name for a process of the home with that id."""
    return f"{home}{OWNER_JOINT}{new_id('node')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews:
    """What the engine tells: each run of another process, before it is carried; each that a request elsewhere wants cancelled, which
    answers whether that may be done now."""

    claimed: Callable[[RunClaim], Awaitable[None]]
    cancelled: Callable[[str], bool]


@dataclass(slots=True)
class _RunningTask:
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


class LeaseEngine:
    """`core.engine.Engine` on the database of the journal. `owner` is an id of this process, never used before: its home's, then
    OWNER_JOINT, then one of its own. `silence` is in seconds. `carry` must not raise but for cancellation; what it raises ends the
    process's group."""

    def __init__(self, carry: Carry, *, runs: Runs, owner: str, clock: Clock, silence: float, news: RunNews) -> None:
        self._carry = carry
        self._store = runs
        self._owner = owner
        self._clock = clock
        self._news = news
        self._silence = silence
        self._runs: dict[str, _RunningTask] = {}
        self._tasks: TaskGroup
        self._group: TaskGroup | None = None  # the same, while runs are taken
        self._heartbeats = anyio.CancelScope()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._group = self._tasks
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self.close()
        finally:  # a run that raised has cancelled this task too
            self._tasks.cancel_scope.cancel()
            await self._stack.aclose()

    async def start(self, run_id: str) -> None:
        if run_id in self._runs:
            return
        if self._group is None:
            raise RuntimeError("The engine is not open.")
        self._runs[run_id] = _RunningTask()
        self._group.start_soon(self._run, run_id, name=f"run {run_id}")

    async def cancel(self, run_id: str) -> None:
        carried = self._runs.get(run_id)
        if carried is not None:
            carried.scope.cancel()
            await carried.ended.wait()
        elif self._group is not None and self._store.is_shared:
            await self._cancel_elsewhere(run_id)

    async def status(self, run_id: str) -> RunState:
        return "running" if run_id in self._runs else "unknown"

    async def recover(self) -> list[str]:
        """Take over the unfinished runs of earlier processes of this home, which is locked: none of them lives. From then on also those
        whose process falls silent, of any home. StoreFailed."""
        assert self._group is not None, "the engine is not open"
        # Whatever the clock said when they were last seen. Where no other gateway has the database, whose home it was makes no difference.
        home = self._owner.partition(OWNER_JOINT)[0] + OWNER_JOINT
        found = await self._take_over(self._silent_since() if self._store.is_shared else LATEST, predecessors=home)
        self._group.start_soon(self._keep_alive, name="heartbeats")
        return found

    async def close(self) -> None:
        for run_id in list(self._runs):
            await self.cancel(run_id)
        # Not the group's scope: in it is also the task that has opened this engine, and serves on until its clients have been answered.
        self._heartbeats.cancel()
        self._group = None

    def _silent_since(self) -> int:
        return self._clock.now() - int(self._silence * MICROSECONDS)

    async def _take_over(self, silent_since: int, *, predecessors: str | None = None) -> list[str]:
        claims = await self._store.take_over(
            self._owner, silent_since=silent_since, at=self._clock.now(), predecessors=predecessors
        )
        for claim in claims:
            await self._news.claimed(claim)
            await self.start(claim.response_id)
        return [claim.response_id for claim in claims]

    async def _keep_alive(self) -> None:
        with self._heartbeats:
            await self._beat_and_look()

    async def _beat_and_look(self) -> None:
        watched_since, beaten_at = -math.inf, self._clock.monotonic()
        beat = self._silence / BEATS
        pause = min(LOOK, beat)
        for look in itertools.count(1):
            await anyio.sleep(pause)
            try:
                if look % int(beat / pause) == 0:
                    await self._beat()
                    before, beaten_at = beaten_at, self._clock.monotonic()
                    if beaten_at - before > 2 * beat:
                        watched_since = beaten_at  # the database was away, or this process: others may have been silent through no fault
                    if beaten_at - watched_since >= self._silence:
                        await self._take_over(self._silent_since())
                if self._store.is_shared:
                    if look % CLOCK == 0:
                        await self._store.read_clock()
                    await self._cancel_what_others_want()
            except StoreError as problem:
                log.warning("heartbeat_failed", reason=problem.message)

    async def _beat(self) -> None:
        """And let go of what others have taken over, as after a sleep: its commands end."""
        carried = list(self._runs)
        if not carried:
            return
        await self._store.beat(carried, owner=self._owner, at=self._clock.now())
        for run_id in await self._store.lost(carried, owner=self._owner) if self._store.is_shared else ():
            if run_id in self._runs:
                log.warning("run_was_taken_over", response_id=run_id)
                self._runs[run_id].scope.cancel()

    async def _cancel_what_others_want(self) -> None:
        if not self._runs:
            return
        for run_id in await self._store.to_cancel(self._owner):
            if run_id in self._runs and self._news.cancelled(run_id):
                self._runs[run_id].scope.cancel()

    async def _cancel_elsewhere(self, run_id: str) -> None:
        """Returns when the process that carries it has, or after CANCEL seconds."""
        if not await self._store.ask_to_cancel(run_id, at=self._clock.now()):
            return
        for _ in range(int(CANCEL / LOOK * 4)):
            await anyio.sleep(LOOK / 4)
            if not await self._store.is_unfinished(run_id):
                return

    async def _run(self, run_id: str) -> None:
        carried = self._runs[run_id]
        try:
            with carried.scope:
                await self._carry(run_id)
        finally:
            del self._runs[run_id]
            carried.ended.set()

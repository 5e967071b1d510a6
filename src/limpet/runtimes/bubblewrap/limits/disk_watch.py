"""Watches the disk of a box while something runs in it; where a limit is reached, the writing commands are stopped.

Looked at and not enforced by the kernel: file systems that bound a directory are rare. So a box may exceed its limit by what can
be written between two looks. Who writes is asked of the agent, newest first. Where that names no one and the box grows all the same, the
growth itself is judged: the box is halted, counted while nothing in it can change, and its commands end.
"""

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
from anyio import CapacityLimiter, to_thread

from limpet.core.errors import SandboxGone
from limpet.runtimes import procfs
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client.client import Client
from limpet.runtimes.agent_client.events import Answer, WritersStopped
from limpet.runtimes.bubblewrap.limits.disk_looks import SLICE, DiskLooks, LimitReached, WatchedDisk

_ASK_AGAIN = 0.1  # seconds between the two moments that show who writes
_AFTER_A_KILL = 0.2
_ANSWERS_WITHIN = 1.0  # an agent; then it is starved, and what starves it is stopped from here
_STARVED_ANSWERS_WITHIN = 5.0
_HALTED_AT_MOST = wire.HALTED_AT_MOST * 2 / 3
_LEFT_ALONE = 5  # times as long as it took to count
_ONE_BY_ONE, _ALL_WRITERS = 1, 2  # rounds after which not only the newest writer goes, and then not only writers
_ROUNDS = 50
_NOTE: dict[str, object] = {"reason": "", "every": False}  # what STOP_WRITERS compares with


@dataclass(frozen=True, slots=True)
class Lanes:
    """Threads for looks at boxes, so that no box waits for another whose files are many: `quick` looks never queue behind `slow` ones,
    which take turns, slice by slice; `halted` boxes queue behind neither."""

    quick: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(2))
    slow: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))
    halted: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))


async def watch(watched: WatchedDisk, client: Client, lanes: Lanes) -> None:
    """Until the connection to the box has ended."""
    enforcer = _DiskLimitEnforcer(DiskLooks(watched), client, lanes)
    pause = watched.every
    try:
        while client.gone is None:
            await anyio.sleep(pause)
            pause = await enforcer.round()
    except SandboxGone:
        return
    finally:
        enforcer.looks.close()
        watched.ledger.close(watched.agent.boot_id)


@dataclass(slots=True)
class _DiskLimitEnforcer:
    looks: DiskLooks
    client: Client
    lanes: Lanes
    _rounds: int = 0  # in which a writer was stopped and the box grew on
    _was_stopped: bool = False  # before this look
    _is_current: bool = False  # this look has counted, and at once
    _left_alone_until: float = 0.0  # what makes room shall get on with it between two counts

    async def round(self) -> float:
        """One look and what follows from it. Returns the seconds until the next one. Raises SandboxGone."""
        counts = self.looks.counts
        reached = await self._look()
        self._is_current = self.looks.counts > counts and not self.looks.is_slow
        if reached is None:
            self._rounds, self._was_stopped = 0, False
            return self.looks.pause
        if not self._was_stopped and not self.looks.grows:
            self._rounds = 0
        self._was_stopped = await self._stop(reached)
        if self._was_stopped:
            self._rounds += 1
            self.looks.expect_change()
        return min(_AFTER_A_KILL, self.looks.watched.every)

    async def _look(self) -> LimitReached | None:
        """What has been reached. Where many files are to be counted, as far as the time until the next round goes."""
        looks = self.looks
        if not await to_thread.run_sync(looks.begin, limiter=self.lanes.quick):
            return looks.judge()
        if looks.suspects and looks.is_slow:
            return await self._look_at_halted()
        if not looks.is_slow and await to_thread.run_sync(looks.go_on, SLICE, limiter=self.lanes.quick):
            return looks.judge()
        with anyio.move_on_after(max(looks.watched.every, 2 * SLICE)):
            while not await to_thread.run_sync(looks.go_on, SLICE, limiter=self.lanes.slow):  # noqa: ASYNC110 - a rest, no wait
                # The rest of this process has the processor as long.
                await anyio.sleep(SLICE)
        return looks.judge()

    async def _look_at_halted(self) -> LimitReached | None:
        async with self._halted():
            return await self._count_halted()

    async def _count_halted(self) -> LimitReached | None:
        with anyio.move_on_after(_HALTED_AT_MOST):
            await to_thread.run_sync(lambda: self.looks.begin(afresh=True), limiter=self.lanes.halted)
            while not await to_thread.run_sync(self.looks.go_on, SLICE, limiter=self.lanes.halted):
                pass
        return self.looks.judge()

    async def _stop(self, reached: LimitReached) -> bool:
        """Stop the writers; returns whether there was one."""
        if time.monotonic() < self._left_alone_until and not self.looks.suspects:
            return False
        if self._rounds < _ALL_WRITERS or not self.looks.grows:
            every = reached.every_writer or (self._rounds >= _ONE_BY_ONE and self.looks.grows)
            if await self._stop_writers(reached.reason, every=every):
                return True
        if not self.looks.grows:
            return False
        async with self._halted():
            still = await self._count_halted()
            if still is None or not self.looks.grows:
                return False
            await self._ask(wire.END_COMMANDS, {"reason": still.reason})
        return True

    async def _stop_writers(self, reason: str, *, every: bool) -> bool:
        """Stop who writes, unless the box has less afterwards: what removes very many names writes too, and makes room."""
        before = self.looks.total
        if not await self._is_writing():
            return False
        if self._is_current:
            grew = await self._count_at_once() and self.looks.total >= before
            return await self._kill_writers(reason, every=every) if grew else self._leave_alone()
        return await self._stop_writers_of_slow(reason, every=every)

    async def _stop_writers_of_slow(self, reason: str, *, every: bool) -> bool:
        """The same where counting takes time: halted but for the tenth of a second in which it is seen who writes."""
        async with self._halted():
            if await self._count_halted() is None:
                return self._leave_alone()
            before = self.looks.total
            await self._ask(wire.STOP_WRITERS, _NOTE)
        await anyio.sleep(_ASK_AGAIN)
        async with self._halted():
            if not _has_seen_writers(await self._ask(wire.STOP_WRITERS, _NOTE)):
                return False
            if await self._count_halted() is None or self.looks.total < before:
                return self._leave_alone()
            return await self._kill_writers(reason, every=every)

    async def _is_writing(self) -> bool:
        """Whether something in the box is seen to write in the next tenth of a second."""
        await self._ask(wire.STOP_WRITERS, _NOTE)
        await anyio.sleep(_ASK_AGAIN)
        return _has_seen_writers(await self._ask(wire.STOP_WRITERS, _NOTE))

    async def _kill_writers(self, reason: str, *, every: bool) -> bool:
        stopped = await self._ask(wire.STOP_WRITERS, {"reason": reason, "every": every})
        return isinstance(stopped, WritersStopped) and bool(stopped.killed)

    def _leave_alone(self) -> bool:
        self._left_alone_until = time.monotonic() + _LEFT_ALONE * self.looks.seconds
        return False

    async def _count_at_once(self) -> bool:
        """Whether a limit is reached still."""
        looks = self.looks
        await to_thread.run_sync(lambda: looks.begin(afresh=True), limiter=self.lanes.quick)
        if await to_thread.run_sync(looks.go_on, 2 * SLICE, limiter=self.lanes.quick):
            return looks.judge() is not None
        return await self._look_at_halted() is not None

    @asynccontextmanager
    async def _halted(self) -> AsyncIterator[None]:
        """Nothing in the box runs meanwhile."""
        await self._ask(wire.HALT, {})
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), suppress(SandboxGone):
                await self._ask(wire.RESUME, {})

    async def _ask(self, kind: int, values: dict[str, object]) -> Answer | None:
        """The agent's answer; None where even one that is no longer starved gives none. Raises SandboxGone."""
        with anyio.move_on_after(_ANSWERS_WITHIN):
            return await self.client.ask(kind, values)
        stopped = await to_thread.run_sync(self._stop_from_outside, limiter=self.lanes.quick)
        try:
            with anyio.move_on_after(_STARVED_ANSWERS_WITHIN):
                return await self.client.ask(kind, values)
        finally:
            _send(stopped, signal.SIGCONT)
        return None

    def _stop_from_outside(self) -> dict[int, str]:
        """Stop all of the box but its agent and bubblewrap's own process. Returns their start times."""
        watched = self.looks.watched
        agent = procfs.stat_of(watched.agent.pid)
        if agent is None or agent.started != watched.agent.started:
            return {}
        stopped: dict[int, str] = {}
        for _ in range(_ROUNDS):
            found = {pid: procfs.stat_of(pid) for pid in watched.members() - {watched.agent.pid, agent.parent}}
            new = {
                pid: stat.started
                for pid, stat in found.items()
                if stat and stat.state not in "TtZX" and stopped.get(pid) != stat.started
            }
            if not new:
                break
            _send(new, signal.SIGSTOP)
            stopped |= new
        return stopped


def _has_seen_writers(answer: Answer | None) -> bool:
    return isinstance(answer, WritersStopped) and answer.killed is None


def _send(processes: dict[int, str], number: signal.Signals) -> None:
    for pid, started in processes.items():
        stat = procfs.stat_of(pid)
        if stat is not None and stat.started == started:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

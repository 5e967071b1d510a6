"""Carries runs as tasks of this process, and takes over those whose process has died.

A run belongs to the process that claimed it last (`store/runs.py`). A process that carries runs sends heartbeats for them; one that was
silent for SILENT seconds has lost them, and the store refuses what it appends from then on.
"""

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
from limpet.store.runs import RunClaim, Runs

BEAT = 5.0  # seconds between two heartbeats
EVER = 2**63 - 1
SILENT = 15.0  # seconds after which a run is taken over
log = structlog.get_logger()


@dataclass(slots=True)
class _RunningTask:
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


class LeaseEngine:
    """`core.ports.Engine` on the database of the journal. `owner` is an id of this process, never used before. `carry` must not raise but
    for cancellation; what it raises ends the process's group. `claimed` is called with each run of another process before it is carried."""

    def __init__(
        self, carry: Carry, *, runs: Runs, owner: str, clock: Clock, claimed: Callable[[RunClaim], Awaitable[None]]
    ) -> None:
        self._carry = carry
        self._store = runs
        self._owner = owner
        self._clock = clock
        self._claimed = claimed
        self._runs: dict[str, _RunningTask] = {}
        self._group: TaskGroup | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._group = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
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
        if carried is None:
            return
        carried.scope.cancel()
        await carried.ended.wait()

    async def status(self, run_id: str) -> RunState:
        return "running" if run_id in self._runs else "unknown"

    async def recover(self) -> list[str]:
        """Take over all unfinished runs of earlier processes of this home, which is locked: none of them lives. From then on also those
        whose process falls silent. StoreFailed."""
        assert self._group is not None, "the engine is not open"
        found = await self._take_over(EVER)  # whatever the clock said when they were last seen
        self._group.start_soon(self._keep_alive, name="heartbeats")
        return found

    async def close(self) -> None:
        for run_id in list(self._runs):
            await self.cancel(run_id)
        if self._group is not None:
            self._group.cancel_scope.cancel()
        self._group = None

    async def _take_over(self, silent_since: int) -> list[str]:
        claims = await self._store.take_over(self._owner, silent_since=silent_since, at=self._clock.now())
        for claim in claims:
            await self._claimed(claim)
            await self.start(claim.response_id)
        return [claim.response_id for claim in claims]

    async def _keep_alive(self) -> None:
        while True:
            await anyio.sleep(BEAT)
            try:
                if self._runs:
                    await self._store.beat(list(self._runs), owner=self._owner, at=self._clock.now())
                await self._take_over(self._clock.now() - int(SILENT * MICROSECONDS))
            except StoreError as problem:
                log.warning("heartbeat_failed", reason=problem.message)

    async def _run(self, run_id: str) -> None:
        carried = self._runs[run_id]
        try:
            with carried.scope:
                await self._carry(run_id)
        finally:
            del self._runs[run_id]
            carried.ended.set()

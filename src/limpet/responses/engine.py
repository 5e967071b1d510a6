"""The engine of one process: runs are tasks of this process and end with it. Durable engines take the same place later."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Self

import anyio
from anyio.abc import TaskGroup

from limpet.core.engine import Carry, RunState


@dataclass(slots=True)
class _RunningTask:
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


class InProcessEngine:
    """Carries runs as tasks of one group. `carry` must not raise but for cancellation; what it raises ends the process's group."""

    def __init__(self, carry: Carry) -> None:
        self._carry = carry
        self._runs: dict[str, _RunningTask] = {}
        self._ended: set[str] = set()
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
        """Nothing of an earlier process is carried on here: the service ends such runs as failed."""
        return []

    async def close(self) -> None:
        for run_id in list(self._runs):
            await self.cancel(run_id)
        self._group = None

    async def _run(self, run_id: str) -> None:
        carried = self._runs[run_id]
        try:
            with carried.scope:
                await self._carry(run_id)
        finally:
            del self._runs[run_id]
            carried.ended.set()

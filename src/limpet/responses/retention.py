"""Deletes responses that ended long ago, where the operator says how long they are kept."""

from contextlib import AsyncExitStack
from typing import Self

import anyio
import structlog

from limpet.core.clock import MICROSECONDS, Clock
from limpet.core.errors import StoreError
from limpet.store.responses import Responses

DAY = 86_400
AT_ONCE = 5  # responses of one transaction, each with all its events: other writers wait for it
PAUSE = 0.05  # seconds between two of them, in which others write
EVERY = 3600.0  # seconds between two sweeps
log = structlog.get_logger()


class RetentionSweep:
    """Sweeps while it is open, at once first. Without `days` it does nothing."""

    def __init__(self, responses: Responses, *, days: float | None, clock: Clock) -> None:
        self._responses = responses
        self._days = days
        self._clock = clock
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._days is not None:
            tasks = await self._stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(self._sweep_often, name="retention")
            self._stack.callback(tasks.cancel_scope.cancel)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def sweep(self) -> int:
        """Delete all that are older, and say how many. StoreFailed."""
        if self._days is None:
            return 0
        before, count = self._clock.now() - int(self._days * DAY * MICROSECONDS), 0
        while (deleted := await self._responses.delete_ended(before=before, limit=AT_ONCE)) > 0:
            count += deleted
            await anyio.sleep(PAUSE)
        return count

    async def _sweep_often(self) -> None:
        while True:
            try:
                if count := await self.sweep():
                    log.info("responses_deleted", count=count, older_than_days=self._days)
            except StoreError as problem:
                log.warning("retention_failed", reason=problem.message)
            await anyio.sleep(EVERY)

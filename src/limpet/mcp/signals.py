"""The signals that end a program as a cancellation, so that boxes end before it does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from limpet.core.signals import signalled


@asynccontextmanager
async def stopped_by_signal() -> AsyncIterator[None]:
    """The block is cancelled at the first signal."""
    async with signalled() as stopping, anyio.create_task_group() as tasks:

        async def cancel() -> None:
            await stopping.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(cancel)
        yield
        tasks.cancel_scope.cancel()

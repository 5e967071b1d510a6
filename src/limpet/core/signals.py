"""SIGTERM and SIGINT as an event, for programs that close what they opened before they end."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus


@asynccontextmanager
async def signalled() -> AsyncIterator[anyio.Event]:
    """Set at the first signal. Held for the whole block: a second signal must not end the program while it cleans up."""
    stopping = anyio.Event()

    async def listen(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                stopping.set()

    async with anyio.create_task_group() as tasks:
        await tasks.start(listen)
        yield stopping
        tasks.cancel_scope.cancel()

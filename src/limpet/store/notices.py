"""News of other gateways on the same database: that a journal has grown.

A hint and no more: it may be lost with its connection, so callers look again by themselves after POLL seconds at most.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import anyio
import structlog
from sqlalchemy.exc import SQLAlchemyError

from limpet.core.errors import StoreFailed
from limpet.store.backend import Backend

CHANNEL = "limpet"
# What a payload begins with; the response's id follows.
JOURNAL = "journal:"
POLL = 1.0  # seconds
RECONNECT = 1.0
log = structlog.get_logger()


class Notices:
    """What the database tells. `async with` listens, where the database has news to tell; `heard` is called with each payload."""

    def __init__(self, backend: Backend, heard: Callable[[str], object]) -> None:
        self._backend = backend
        self._heard = heard
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._backend.is_shared:
            tasks = await self._stack.enter_async_context(anyio.create_task_group())
            self._stack.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(self._listen_for_ever, name="news of the database")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _listen_for_ever(self) -> None:
        is_said = False
        while True:
            try:
                await self._listen()
            except (SQLAlchemyError, StoreFailed, OSError) as error:
                if not is_said:
                    log.warning(
                        "database_tells_no_news", reason=self._backend.explain(getattr(error, "orig", None) or error)
                    )
                is_said = True
            await anyio.sleep(RECONNECT)

    async def _listen(self) -> None:
        engine = self._backend.listener()
        assert engine is not None, "a shared database tells news"
        async with engine.connect() as connection:
            pooled = await connection.get_raw_connection()
            driver: Any = pooled.driver_connection
            await driver.set_autocommit(True)
            try:
                await driver.execute(f"LISTEN {CHANNEL}")
                async for notice in driver.notifies():
                    self._heard(notice.payload)
            except engine.dialect.loaded_dbapi.Error as error:
                raise StoreFailed(self._backend.explain(error)) from error


class Bell:
    """Wakes who waits for news of one response. Each `waiting` is for one look: take it before looking."""

    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}

    def waiting(self, response_id: str) -> anyio.Event:
        return self._events.setdefault(response_id, anyio.Event())

    def ring(self, response_id: str) -> None:
        event = self._events.pop(response_id, None)
        if event is not None:
            event.set()

    def ring_all(self) -> None:
        for response_id in list(self._events):
            self.ring(response_id)

    def drop(self, response_id: str, event: anyio.Event) -> None:
        """A look is over. Another one that waits for the same response looks again by itself after POLL."""
        if self._events.get(response_id) is event:
            del self._events[response_id]

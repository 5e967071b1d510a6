"""How long a foreground response lives without a reader.

With OpenAI the end of the connection is the cancel. Here connections may break and be taken up again: the response goes on for a grace
time, in which any reader renews it. A response in the background has no lease, and never ends by being left.

Where several gateways have one database, a reader may be at another one than the run: it writes down that it reads, and the run's gateway
looks there before it gives the run up.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Self

import anyio
import structlog
from anyio.abc import TaskGroup

from limpet.core.clock import Clock
from limpet.core.errors import StoreError
from limpet.store.responses import UNFINISHED, ResponseRecord
from limpet.store.runs import Runs

NOTES = 4  # of a reader at another gateway, in a grace time
LEAST_PAUSE = 0.1  # seconds between two of them
log = structlog.get_logger()


@dataclass(slots=True)
class _Lease:
    """`left_at` is when the last reader left, on the event loop's clock; `alone` is set while there is none."""

    left_at: float
    readers: int = 0
    alone: anyio.Event = field(default_factory=anyio.Event)
    watch: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class ReaderLeases:
    """The leases of the runs of this process. `grace` is in seconds; `expired` is awaited with the id of a response that had no reader for
    so long, and must not raise. `async with` holds the tasks that watch."""

    def __init__(self, grace: float, *, runs: Runs, clock: Clock, expired: Callable[[str], Awaitable[None]]) -> None:
        self._grace = grace
        self._runs = runs
        self._clock = clock
        self._expired = expired
        self._leases: dict[str, _Lease] = {}
        self._tasks: TaskGroup | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        self._tasks = None
        await self._stack.aclose()

    def begin(self, response_id: str) -> None:
        """It lives by its readers from now on, for a grace time without any."""
        assert self._tasks is not None, "the leases are not open"
        lease = self._leases[response_id] = _Lease(anyio.current_time())
        lease.alone.set()
        self._tasks.start_soon(self._watch, response_id, lease, name=f"readers of {response_id}")

    def end(self, response_id: str) -> None:
        """It has ended; quiet if it has no lease."""
        lease = self._leases.pop(response_id, None)
        if lease is not None:
            lease.watch.cancel()

    async def renew(self, record: ResponseRecord) -> None:
        """A client has looked at it: the grace time begins anew."""
        if (lease := self._leases.get(record.id)) is not None:
            lease.left_at = anyio.current_time()
        elif self._is_elsewhere(record):
            await self._note(record.id)

    def come(self, response_id: str) -> None:
        """A reader more, until as many have left."""
        if (lease := self._leases.get(response_id)) is None:
            return
        lease.readers += 1
        if lease.readers == 1:
            lease.alone = anyio.Event()

    def leave(self, response_id: str) -> None:
        if (lease := self._leases.get(response_id)) is None or lease.readers == 0:
            return
        lease.readers -= 1
        lease.left_at = anyio.current_time()
        if lease.readers == 0:
            lease.alone.set()

    @contextmanager
    def reading(self, record: ResponseRecord) -> Iterator[None]:
        """A reader more, for the time of the block."""
        response_id, lease = record.id, self._leases.get(record.id)
        if lease is None and self._is_elsewhere(record):
            with self._noting(response_id):
                yield
            return
        self.come(response_id)
        try:
            yield
        finally:
            if lease is not None and self._leases.get(response_id) is lease:
                self.leave(response_id)

    async def _watch(self, response_id: str, lease: _Lease) -> None:
        with lease.watch:
            while True:
                await lease.alone.wait()
                remaining = lease.left_at + self._grace - anyio.current_time()
                if remaining > 0:
                    await anyio.sleep(remaining)
                elif not (lease.readers or await self._is_read_elsewhere(response_id, lease) or lease.readers):
                    break  # asked again behind the look: a reader may have come meanwhile
            await self._expired(response_id)

    def _is_elsewhere(self, record: ResponseRecord) -> bool:
        return self._runs.is_shared and not record.background and record.status in UNFINISHED

    async def _is_read_elsewhere(self, response_id: str, lease: _Lease) -> bool:
        """Then the grace time goes on from there."""
        if not self._runs.is_shared:
            return False
        try:
            ago = await self._runs.seconds_since_read(response_id, now=self._clock.now())
        except StoreError as problem:
            log.warning("readers_unknown", response_id=response_id, reason=problem.message)
            ago = 0.0
        if ago is not None and ago < self._grace:
            lease.left_at = max(lease.left_at, anyio.current_time() - ago)
        return lease.left_at + self._grace > anyio.current_time()

    @contextmanager
    def _noting(self, response_id: str) -> Iterator[None]:
        assert self._tasks is not None, "the leases are not open"
        scope = anyio.CancelScope()
        self._tasks.start_soon(self._note_often, response_id, scope, name=f"reader of {response_id}")
        try:
            yield
        finally:
            scope.cancel()

    async def _note_often(self, response_id: str, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                await self._note(response_id)
                await anyio.sleep(max(self._grace / NOTES, LEAST_PAUSE))

    async def _note(self, response_id: str) -> None:
        try:
            await self._runs.note_read(response_id, at=self._clock.now())
        except StoreError as problem:  # the next one may be written down
            log.warning("reader_not_noted", response_id=response_id, reason=problem.message)

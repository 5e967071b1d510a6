"""The database: opened, checked and migrated before its first use. Where that fails the error says why in one sentence.

On SQLite one writer works at a time. `writing` waits in line for its turn, so that the journal's stream of commits and a single
row never starve each other; readers never wait (WAL).

`read` and `write` pass between threads once, however many statements they make; `reading` and `writing` do so at each statement.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from anyio import to_thread
from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from limpet.core.errors import StoreFailed
from limpet.store.schema import prepare
from limpet.store.settings import DatabaseSettings
from limpet.store.sqlite import BUSY_SECONDS, PRAGMAS, DatabaseFile, connect, locate, why

READERS = 4
T = TypeVar("T")


class Database:
    """One open database. `async with` opens, checks and migrates it, or raises DatabaseUnusable and leaves it as it was."""

    def __init__(self, settings: DatabaseSettings, *, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._turn = anyio.Lock()
        self._place: DatabaseFile | None = None
        self._keeper: Any = None
        self._engine: AsyncEngine | None = None
        self._direct: Engine | None = None
        self._reader_threads = anyio.CapacityLimiter(READERS)
        self._writer_thread = anyio.CapacityLimiter(1)

    async def __aenter__(self) -> Self:
        place = locate(self._settings.url or "", home=self._home)
        self._keeper = await to_thread.run_sync(prepare, place)
        self._place = place
        self._engine = _engine(place)
        self._direct = _direct_engine(place)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            if self._engine is not None:
                await self._engine.dispose()
            if self._direct is not None:
                await to_thread.run_sync(self._direct.dispose)
            if self._keeper is not None:
                await to_thread.run_sync(self._keeper.close)
        self._engine = self._direct = self._keeper = None

    @property
    def engine(self) -> AsyncEngine:
        assert self._engine is not None, "the database is not open"
        return self._engine

    @property
    def place(self) -> DatabaseFile:
        """Where the data lies, for the journal's own connection."""
        assert self._place is not None, "the database is not open"
        return self._place

    @property
    def turn(self) -> anyio.Lock:
        """Who holds it may write; given in the order of asking."""
        return self._turn

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` gives, which runs whole in a thread with a connection to read by. Not cancelled once it began."""
        async with _failures_translated():
            return await to_thread.run_sync(self._read, work, limiter=self._reader_threads)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """The same as one transaction, committed when this returns and undone when `work` raises."""
        async with self._turn, _failures_translated():
            return await to_thread.run_sync(self._write, work, limiter=self._writer_thread)

    def _read(self, work: Callable[[Connection], T]) -> T:
        assert self._direct is not None, "the database is not open"
        with self._direct.connect() as connection:
            return work(connection)

    def _write(self, work: Callable[[Connection], T]) -> T:
        assert self._direct is not None, "the database is not open"
        with self._direct.connect() as connection:
            connection.execution_options(limpet_writes=True)
            with connection.begin():
                return work(connection)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read by; each statement sees one state of the data. For short use: hold it over no wait for anything
        else. Not cancelled once it began."""
        # A statement that is cancelled half-way costs its connection, and those are few.
        with anyio.CancelScope(shield=True):
            async with _failures_translated(), self.engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """One transaction, committed when the block ends and undone when it raises. Once it began it is not cancelled. Hold it over
        no wait for anything else; the journal cannot write meanwhile."""
        async with self._turn:
            with anyio.CancelScope(shield=True):
                async with _failures_translated(), self.engine.connect() as connection:
                    await connection.execution_options(limpet_writes=True)
                    async with connection.begin():
                        yield connection


@asynccontextmanager
async def _failures_translated() -> AsyncIterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreFailed(why(getattr(error, "orig", None) or error)) from error


def _engine(place: DatabaseFile) -> AsyncEngine:
    engine = create_async_engine(
        place.engine_url,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=READERS,
        max_overflow=0,
        # `reading` and `writing` end what they begin.
        pool_reset_on_return=None,
        # The driver opens no transactions of its own; `_begin` does, so that a writer never has to upgrade a reader's lock.
        connect_args={"isolation_level": None, "timeout": BUSY_SECONDS},
    )
    event.listen(engine.sync_engine, "connect", _connected)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _direct_engine(place: DatabaseFile) -> Engine:
    """For those who pass between threads by themselves. One connection more than readers: the writer's."""
    engine = create_engine(
        "sqlite://",
        creator=partial(connect, place),
        poolclass=QueuePool,
        pool_size=READERS + 1,
        max_overflow=0,
        pool_reset_on_return=None,
    )
    event.listen(engine, "begin", _begin)
    return engine


def _connected(connection: Any, record: object) -> None:
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin(connection: Connection) -> None:
    # Reading needs no transaction around it: one statement sees one state of the data as it is.
    if connection.get_execution_options().get("limpet_writes", False):
        connection.exec_driver_sql("BEGIN IMMEDIATE")

"""The database: opened, checked and migrated before its first use. Where that fails the error says why in one sentence.

One writer of a process works at a time, as SQLite wants it: `writing` waits in line for its turn, so that the journal's stream of
commits and a single row never starve each other. Readers never wait. On PostgreSQL the writers of other processes work beside it; what they
could do in between two statements of a transaction is excluded by row locks.

`read` and `write` pass between threads once, however many statements they make; `reading` and `writing` do so at each statement.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import anyio
from anyio import to_thread
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from limpet.core.clock import SystemClock
from limpet.core.errors import StoreFailed
from limpet.store.backend import Backend, Engines
from limpet.store.postgres import locate_server, names_postgres
from limpet.store.postgres_backend import PostgresBackend
from limpet.store.settings import DatabaseSettings
from limpet.store.sqlite import locate
from limpet.store.sqlite_backend import SqliteBackend

READERS = 4
OUTAGE_SECONDS = 10.0  # so long a caller waits for a server that is gone
PAUSE = 0.1
T = TypeVar("T")


def backend_of(settings: DatabaseSettings, *, home: Path) -> Backend:
    """The kind of database that the settings name, and where. Raises DatabaseUnusable."""
    url = settings.url or ""
    return PostgresBackend(locate_server(url)) if names_postgres(url) else SqliteBackend(locate(url, home=home))


def may_exist(settings: DatabaseSettings, *, home: Path) -> bool:
    """False where opening it would make a new file. Raises DatabaseUnusable."""
    url = settings.url or ""
    if names_postgres(url):
        return True
    path = locate(url, home=home).path
    return path is not None and path.exists()


class Database:
    """One open database. `async with` opens, checks and migrates it, or raises DatabaseUnusable and leaves it as it was."""

    def __init__(self, settings: DatabaseSettings, *, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._turn = anyio.Lock()
        self._backend: Backend | None = None
        self._ahead = 0  # the database's clock, less this machine's monotonic one
        self._release: Callable[[], None] | None = None
        self._engines: Engines | None = None
        self._reader_threads = anyio.CapacityLimiter(READERS)
        self._writer_thread = anyio.CapacityLimiter(1)

    async def __aenter__(self) -> Self:
        backend = backend_of(self._settings, home=self._home)
        self._release = await to_thread.run_sync(backend.prepare)
        self._backend = backend
        self._engines = backend.engines(readers=READERS)
        await self.read_clock()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            if self._engines is not None:
                await self._engines.reading.dispose()
                await to_thread.run_sync(self._engines.direct_reading.dispose)
            if self._release is not None:
                await to_thread.run_sync(self._release)
        self._engines = self._release = None

    @property
    def engine(self) -> AsyncEngine:
        return self._open.reading

    @property
    def backend(self) -> Backend:
        """What kind of database it is, and where."""
        assert self._backend is not None, "the database is not open"
        return self._backend

    @property
    def is_shared(self) -> bool:
        """Whether other gateways may write to it as well."""
        return self.backend.is_shared

    @property
    def turn(self) -> anyio.Lock:
        """Who holds it may write; given in the order of asking."""
        return self._turn

    @property
    def clock_offset(self) -> int:
        """What must be added to this machine's clock, as it is now, to have that of all who share the database, in microseconds. Follows a
        clock that was set."""
        return self._ahead + _monotonic() - SystemClock().now() if self.is_shared else 0

    async def read_clock(self) -> None:
        """Compare the clocks again: the database's may have been set, or run at another pace."""
        if self.is_shared:
            query = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
            now = await self.read(lambda connection: int(connection.execute(query).scalar_one()))
            self._ahead = now - _monotonic()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` gives, which runs whole in a thread with a connection to read by. Not cancelled once it began."""
        async with self._failures_translated():
            return await to_thread.run_sync(self._read, work, limiter=self._reader_threads)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """The same as one transaction, committed when this returns and undone when `work` raises."""
        async with self._turn, self._failures_translated():
            return await to_thread.run_sync(self._write, work, limiter=self._writer_thread)

    def _read(self, work: Callable[[Connection], T]) -> T:
        with self._connected(self._open.direct_reading) as connection:
            return work(connection)

    def _write(self, work: Callable[[Connection], T]) -> T:
        with self._connected(self._open.direct_writing) as connection, connection.begin():
            return work(connection)

    def _connected(self, engine: Engine) -> Connection:
        """A connection; a server that is being started again is waited for."""
        until = time.monotonic() + OUTAGE_SECONDS
        while True:
            try:
                return engine.connect()
            except DBAPIError as error:
                self._raise_unless_lost(error, until)
                time.sleep(PAUSE)

    @asynccontextmanager
    async def _connected_here(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        until = time.monotonic() + OUTAGE_SECONDS
        while True:
            try:
                connection = await engine.connect()
                break
            except DBAPIError as error:
                self._raise_unless_lost(error, until)
                await anyio.sleep(PAUSE)
        try:
            yield connection
        finally:
            await connection.close()

    def _raise_unless_lost(self, error: DBAPIError, until: float) -> None:
        if time.monotonic() >= until or error.orig is None or not self.backend.is_lost(error.orig):
            raise error

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read by; each statement sees one state of the data. For short use: hold it over no wait for anything
        else. Not cancelled once it began."""
        # A statement that is cancelled half-way costs its connection, and those are few.
        with anyio.CancelScope(shield=True):
            async with self._failures_translated(), self._connected_here(self._open.reading) as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """One transaction, committed when the block ends and undone when it raises. Once it began it is not cancelled. Hold it over
        no wait for anything else; the journal cannot write meanwhile."""
        async with self._turn:
            with anyio.CancelScope(shield=True):
                async with (
                    self._failures_translated(),
                    self._connected_here(self._open.writing) as connection,
                    connection.begin(),
                ):
                    yield connection

    @property
    def _open(self) -> Engines:
        assert self._engines is not None, "the database is not open"
        return self._engines

    @asynccontextmanager
    async def _failures_translated(self) -> AsyncIterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise StoreFailed(self.backend.explain(getattr(error, "orig", None) or error)) from error


def _monotonic() -> int:
    """Microseconds on the clock that no one sets (clock_gettime(2))."""
    return time.monotonic_ns() // 1_000

"""PostgreSQL as a backend of the store. Several gateways may write to one database at once."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from limpet.core.errors import DatabaseUnusable
from limpet.store.backend import Engines
from limpet.store.postgres import DatabaseServer, is_lost, why
from limpet.store.postgres_journal import PostgresJournalWriter
from limpet.store.postgres_schema import filling, migrate, snapshot, version

POOL_SECONDS = 30.0  # how long a call waits for a connection of a pool


class PostgresBackend:
    """See `store.backend.Backend`."""

    is_shared = True

    def __init__(self, server: DatabaseServer) -> None:
        self.server = server
        self.shown = server.shown

    def prepare(self) -> Callable[[], None]:
        engine = self._engine()
        migrate(engine, self.server)
        return engine.dispose

    def version(self) -> str | None:
        return version(self._engine(), self.server)

    def snapshot(self) -> AbstractContextManager[Connection]:
        return snapshot(self._engine(), self.server)

    def filling(self) -> AbstractContextManager[Connection]:
        return filling(self._engine(), self.server)

    def engines(self, *, readers: int) -> Engines:
        direct = create_engine(
            self.server.url,
            connect_args=dict(self.server.options),
            poolclass=QueuePool,
            pool_size=readers + 1,
            max_overflow=0,
            pool_timeout=POOL_SECONDS,
            pool_pre_ping=True,  # a server that was started again is no error of the next caller
        )
        asynchronous = create_async_engine(
            self.server.url,
            connect_args=dict(self.server.options),
            poolclass=AsyncAdaptedQueuePool,
            pool_size=readers,
            max_overflow=0,
            pool_timeout=POOL_SECONDS,
            pool_pre_ping=True,
        )
        # Reading opens no transaction: each statement sees one state of the data, and leaves none open behind it.
        return Engines(
            direct_reading=direct.execution_options(isolation_level="AUTOCOMMIT"),
            direct_writing=direct,
            reading=asynchronous.execution_options(isolation_level="AUTOCOMMIT"),
            writing=asynchronous,
        )

    def journal_writer(self) -> PostgresJournalWriter:
        return PostgresJournalWriter(self._engine())

    def is_lost(self, error: BaseException) -> bool:
        return is_lost(error)

    def explain(self, error: BaseException) -> str:
        return why(error)

    def listener(self) -> AsyncEngine:
        return create_async_engine(self.server.url, connect_args=dict(self.server.options), poolclass=NullPool)

    def _engine(self) -> Engine:
        try:
            return create_engine(self.server.url, connect_args=dict(self.server.options), poolclass=NullPool)
        except ModuleNotFoundError as error:
            remedy = 'Install it: pip install "limpet[postgres]".'
            raise DatabaseUnusable(self.shown, f"The package {error.name} is missing.", remedy) from error

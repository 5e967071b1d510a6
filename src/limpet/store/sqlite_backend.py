"""SQLite as a backend of the store. One writer works at a time; readers never wait (WAL)."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from limpet.store.backend import Engines
from limpet.store.schema import filling, prepare, snapshot, version
from limpet.store.sqlite import BUSY_SECONDS, PRAGMAS, DatabaseFile, connect, why
from limpet.store.sqlite_journal import SqliteJournalWriter


class SqliteBackend:
    """See `store.backend.Backend`."""

    is_shared = False

    def __init__(self, place: DatabaseFile) -> None:
        self.place = place
        self.shown = place.url

    def prepare(self) -> Callable[[], None]:
        # A database in memory lives as long as a connection to it does.
        return prepare(self.place).close

    def version(self) -> str | None:
        return version(self.place)

    def snapshot(self) -> AbstractContextManager[Connection]:
        return snapshot(self.place)

    def filling(self) -> AbstractContextManager[Connection]:
        return filling(self.place)

    def engines(self, *, readers: int) -> Engines:
        direct, asynchronous = _direct_engine(self.place, readers), _engine(self.place, readers)
        return Engines(
            direct_reading=direct,
            direct_writing=direct.execution_options(limpet_writes=True),
            reading=asynchronous,
            writing=asynchronous.execution_options(limpet_writes=True),
        )

    def journal_writer(self) -> SqliteJournalWriter:
        return SqliteJournalWriter(self.place)

    def is_lost(self, error: BaseException) -> bool:
        return False

    def explain(self, error: BaseException) -> str:
        return why(error)

    def listener(self) -> None:
        return None


def _engine(place: DatabaseFile, readers: int) -> AsyncEngine:
    engine = create_async_engine(
        place.engine_url,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=readers,
        max_overflow=0,
        # `reading` and `writing` end what they begin.
        pool_reset_on_return=None,
        # The driver opens no transactions of its own; `_begin` does, so that a writer never has to upgrade a reader's lock.
        connect_args={"isolation_level": None, "timeout": BUSY_SECONDS},
    )
    event.listen(engine.sync_engine, "connect", _connected)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _direct_engine(place: DatabaseFile, readers: int) -> Engine:
    """For those who pass between threads by themselves. One connection more than readers: the writer's."""
    engine = create_engine(
        "sqlite://",
        creator=partial(connect, place),
        poolclass=QueuePool,
        pool_size=readers + 1,
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

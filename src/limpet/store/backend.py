"""What a kind of database must offer, so that the rest of the store need not know which one it is. One file below for each kind."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from limpet.store.entries import Row

TAKEN_OVER = "Another process carries this response now; what this one appends to it is refused."


class Engines(NamedTuple):
    """`direct` for work that passes between threads by itself, the others for the loop; each once for reading, where every statement stands
    by itself, and once for writing in transactions."""

    direct_reading: Engine
    direct_writing: Engine
    reading: AsyncEngine
    writing: AsyncEngine


class TakenOver(Exception):
    """A batch was written under an epoch that is not the newest of its run: nothing of it was kept."""


class JournalWriter(Protocol):
    """The journal's own connection. Used by one thread at a time."""

    failures: tuple[type[Exception], ...]
    """What `commit` raises for what cannot be kept, and for a value that fits in no column."""

    def commit(
        self, rows: Sequence[Row], *, epochs: Mapping[str, int], checkpoints: Sequence[tuple[str, bytes]]
    ) -> None:
        """Keep all of it in one transaction, or nothing. `epochs` says under which each response's run is carried: TakenOver where one of
        them is not the newest. `checkpoints` belong to runs; of several of one the last one holds."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """A kind of database, at one place."""

    shown: str
    """Where it is, for a person; without a password."""
    is_shared: bool
    """Whether other processes may write to it as well, on other machines too."""

    def prepare(self) -> Callable[[], None]:
        """Check and migrate it; what is given back is called when the database closes. DatabaseUnusable leaves it as it was."""
        ...

    def version(self) -> str | None:
        """Of its tables; None where it has none, or where there is no database yet. Changes nothing. DatabaseUnusable."""
        ...

    def snapshot(self) -> AbstractContextManager[Connection]:
        """A connection that sees one state of the data for as long as it is held, while others write. DatabaseUnusable."""
        ...

    def filling(self) -> AbstractContextManager[Connection]:
        """A connection to an empty database, which is ours when the block ends, or empty where it raises. DatabaseUnusable for one that
        has tables."""
        ...

    def engines(self, *, readers: int) -> Engines:
        """New pools, each for so many at once."""
        ...

    def journal_writer(self) -> JournalWriter:
        """A new connection for the journal. Raises one of the driver's errors."""
        ...

    def is_lost(self, error: BaseException) -> bool:
        """Whether the way to the database is gone, for now: a new connection may be had soon."""
        ...

    def explain(self, error: BaseException) -> str:
        """What happened and what can be done, for a person, of an error of the driver while running."""
        ...

    def listener(self) -> AsyncEngine | None:
        """An engine whose connections can be told of news (`store/notices.py`); None where there is nothing to hear."""
        ...

"""The journal's connection to SQLite: the statements that put its rows there, without SQLAlchemy, since every event passes here."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from limpet.store.backend import TakenOver
from limpet.store.entries import COLUMNS, Row
from limpet.store.sqlite import DatabaseFile, connect
from limpet.store.tables import journal, runs

# Rows of one statement, tried from the largest: the driver releases the GIL once per statement, not once per row, and
# in a busy process getting it back is what takes the time.
SIZES = (64, 16, 4, 1)

_EPOCH = f"SELECT epoch FROM {runs.name} WHERE response_id = ?"
_CHECKPOINT = f"UPDATE {runs.name} SET checkpoint = ? WHERE response_id = ?"


class SqliteJournalWriter:
    """See `store.backend.JournalWriter`. Raises sqlite3.Error where it cannot connect."""

    failures: tuple[type[Exception], ...] = (sqlite3.Error, ValueError, OverflowError)

    def __init__(self, place: DatabaseFile) -> None:
        self._connection = connect(place)

    def commit(
        self, rows: Sequence[Row], *, epochs: Mapping[str, int], checkpoints: Sequence[tuple[str, bytes]]
    ) -> None:
        with _transaction(self._connection) as connection:
            for response_id, epoch in epochs.items():
                found = connection.execute(_EPOCH, (response_id,)).fetchone()
                if found is None or found[0] != epoch:
                    raise TakenOver
            for some in _in_sizes(rows):
                connection.execute(_insert_of(len(some)), [value for row in some for value in row])
            for response_id, checkpoint in checkpoints:
                connection.execute(_CHECKPOINT, (checkpoint, response_id))

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All that is written in the block, or nothing where it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        # SQLite may have undone it already, as it does when the disk is full.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _in_sizes(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = 0
    for size in SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


@cache
def _insert_of(count: int) -> str:
    row = f"({', '.join('?' * len(COLUMNS))})"
    return f"INSERT INTO {journal.name} ({', '.join(COLUMNS)}) VALUES {', '.join([row] * count)}"

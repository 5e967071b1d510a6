"""One numbered event as the journal keeps it, and the statements that put such rows into SQLite and read them back."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import msgspec
from sqlalchemy import select

from limpet.store.database import Database
from limpet.store.tables import journal, runs

COLUMNS = ("response_id", "seq", "tenant", "step", "type", "data", "exec_id", "stream", "raw_offset")
PAGE = 256
# Rows of one statement, tried from the largest: the driver releases the GIL once per statement, not once per row, and
# in a busy process getting it back is what takes the time.
SIZES = (64, 16, 4, 1)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One event. `data` is a JSON object in its stored form; `exec_id`, `stream` and `raw_offset` (bytes) are those of
    `core.events.Event`."""

    seq: int
    step: int
    type: str
    data: bytes
    exec_id: str | None = None
    stream: str | None = None
    raw_offset: int | None = None


_EPOCH = f"SELECT epoch FROM {runs.name} WHERE response_id = ?"
_CHECKPOINT = f"UPDATE {runs.name} SET checkpoint = ? WHERE response_id = ?"

Row = tuple[str, int, str, int, str, bytes, str | None, str | None, int | None]


def row_of(response_id: str, tenant: str, entry: Entry) -> Row:
    """In the order of COLUMNS."""
    return (
        response_id,
        entry.seq,
        tenant,
        entry.step,
        entry.type,
        entry.data,
        entry.exec_id,
        entry.stream,
        entry.raw_offset,
    )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
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


def insert_rows(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    for some in _in_sizes(rows):
        connection.execute(_insert_of(len(some)), [value for row in some for value in row])


def epoch_of(connection: sqlite3.Connection, response_id: str) -> int | None:
    """Of the response's run, as it is in this transaction; None where it has none."""
    row = connection.execute(_EPOCH, (response_id,)).fetchone()
    return None if row is None else int(row[0])


def keep_checkpoint(connection: sqlite3.Connection, response_id: str, checkpoint: bytes) -> None:
    connection.execute(_CHECKPOINT, (checkpoint, response_id))


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


async def read_entries(db: Database, response_id: str, *, after: int, limit: int = PAGE) -> list[Entry]:
    """The next committed entries behind `after`, oldest first; none where there are no more."""
    wanted = [journal.c[name] for name in COLUMNS if name not in ("response_id", "tenant")]
    query = (
        select(*wanted)
        .where(journal.c.response_id == response_id, journal.c.seq > after)
        .order_by(journal.c.seq)
        .limit(limit)
    )
    rows = await db.read(lambda connection: connection.execute(query).all())
    return [Entry(*row) for row in rows]

"""All rows of a database as a stream that any database can be filled from, of either kind: for backups, and to move from one to the other.

A backup is a file of gzip (RFC 1952). In it are frames: four bytes for the length, then MessagePack. The first one is a map with what the
file is; then for each table one with its name and columns, and lists of its rows; the last one counts all rows. Bytes that are kept in
files or in a bucket are not in it.
"""

import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, MetaData, Table, insert, select, text

from limpet.core.errors import StoreError
from limpet.store.backend import Backend
from limpet.store.schema import VERSIONS, upgrade

FORMAT = 1
ROWS_AT_ONCE = 200
FRAME_BYTES = 16 * 1024 * 1024  # of rows; the last one of a frame may go beyond
MOST = 1 << 30  # bytes of a frame, which one row may have
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


Work = Callable[[str], int]  # given the id of a home


class BackupUnreadable(StoreError):
    """A file is no backup, or not a whole one."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(f"The backup {file} cannot be used: {reason}")


class BackupImpossible(StoreError):
    """A row is larger than a backup can hold."""

    def __init__(self) -> None:
        super().__init__(f"A row has more than {MOST} bytes, which no backup can hold. Copy the database itself.")


class Rows(NamedTuple):
    """Some rows of one table."""

    table: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Contents(NamedTuple):
    """A database's: the version of its tables, and their rows, those that others refer to first."""

    version: str
    rows: Iterable[Rows]


def contents_of(connection: Connection) -> Contents:
    """As they are in this connection's transaction."""
    version = connection.exec_driver_sql(f"SELECT version_num FROM {VERSIONS}").scalar_one()
    return Contents(version, _rows_of(connection))


def _rows_of(connection: Connection) -> Iterator[Rows]:
    for table in _tables(connection):
        key = [*table.primary_key.columns]
        found = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(select(table).order_by(*key))
        for some in found.partitions():
            yield Rows(str(table.name), list(map(str, table.columns.keys())), [list(row) for row in some])


def fill(connection: Connection, contents: Contents, *, home: str) -> int:
    """Make the tables in an empty database, fill them and bring them up to date; how many rows. Where several gateways may share it,
    containers that lie in no home yet lie in this one."""
    upgrade(connection, to=contents.version)
    tables = {table.name: table for table in _tables(connection)}
    count = 0
    for some in contents.rows:
        table = tables[some.table]
        values = [dict(zip(some.columns, map(_kept_by(connection), row), strict=True)) for row in some.rows]
        connection.execute(insert(table), values)
        count += len(values)
    upgrade(connection)
    if connection.dialect.name == "postgresql":
        _continue_numbers(connection, tables.values())
        connection.execute(text("UPDATE containers SET home = :home WHERE home IS NULL"), {"home": home})
    return count


def write(contents: Contents, file: Path) -> int:
    """Returns how many rows there are. The file is made anew, for this user alone, and is on disk then. FileExistsError where something
    has its name; BackupImpossible."""
    count, table = 0, None
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as plain:
        with gzip.open(plain, "wb", compresslevel=6) as out:
            _put(out, _encode({"limpet_backup": FORMAT, "version": contents.version}))
            for some in contents.rows:
                if some.table != table:
                    table = some.table
                    _put(out, _encode({"table": table, "columns": list(some.columns)}))
                for frame in _frames_of(some.rows):
                    _put(out, frame)
                count += len(some.rows)
            _put(out, _encode({"rows": count}))
        plain.flush()
        os.fsync(descriptor)
    return count


def _frames_of(rows: Sequence[Sequence[Any]]) -> Iterator[bytes]:
    """Lists of them, in MessagePack, each ended by its bytes."""
    some: list[bytes] = []
    size = 0
    for row in rows:
        some.append(_encode(row))
        size += len(some[-1])
        if size >= FRAME_BYTES:
            yield _list_of(some)
            some, size = [], 0
    if some:
        yield _list_of(some)


def _list_of(encoded: Sequence[bytes]) -> bytes:
    """Of values that are encoded already: MessagePack's array 32."""
    return b"".join((b"\xdd", len(encoded).to_bytes(4, "big"), *encoded))


def read(file: Path) -> Contents:
    """Raises BackupUnreadable, also while its rows are read."""
    frames = _frames(file)
    header = next(frames, None)
    if not isinstance(header, dict) or header.get("limpet_backup") != FORMAT:
        raise BackupUnreadable(file, "it is no backup that this program knows.")
    return Contents(header["version"], _rows_in(frames, file))


def backed_up(backend: Backend, file: Path) -> int:
    """Write a backup of a database, which may be written to meanwhile: what it has now. How many rows."""
    with backend.snapshot() as connection:
        return write(contents_of(connection), file)


def restored(backend: Backend, file: Path, *, home: str) -> int:
    """Fill an empty database from a backup, or leave it empty. How many rows. DatabaseUnusable, BackupUnreadable."""
    contents = read(file)
    with backend.filling() as connection:
        return fill(connection, contents, home=home)


def moved(source: Backend, target: Backend, *, home: str) -> int:
    """Fill an empty database from another one, which stays as it is. How many rows. DatabaseUnusable."""
    with source.snapshot() as connection, target.filling() as filled:
        return fill(filled, contents_of(connection), home=home)


def _tables(connection: Connection) -> list[Table]:
    found = MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != VERSIONS]


def _kept_by(connection: Connection) -> Any:
    """Turns a value into one that the database can keep."""
    if connection.dialect.name != "postgresql":
        return lambda value: value
    return lambda value: value.replace("\0", "\u2400") if isinstance(value, str) else value


def _continue_numbers(connection: Connection, tables: Iterable[Table]) -> None:
    """New rows are numbered behind these."""
    for table in tables:
        if "number" in table.primary_key.columns and len(table.primary_key.columns) == 1:
            connection.exec_driver_sql(
                f"SELECT setval(pg_get_serial_sequence('{table.name}', 'number'), max(number)) FROM {table.name} HAVING count(*) > 0"
            )


def _put(out: gzip.GzipFile, data: bytes) -> None:
    if len(data) > MOST:
        raise BackupImpossible
    out.write(len(data).to_bytes(4, "big"))
    out.write(data)


def _frames(file: Path) -> Iterator[Any]:
    try:
        with gzip.open(file, "rb") as data:
            while prefix := data.read(4):
                length = int.from_bytes(prefix, "big")
                frame = data.read(length) if length <= MOST else b""
                if len(prefix) < 4 or len(frame) < length:
                    raise BackupUnreadable(file, "it is damaged, or ends too early.")
                yield _decode(frame)
    except (EOFError, gzip.BadGzipFile, msgspec.DecodeError) as error:
        raise BackupUnreadable(file, "it is damaged, or ends too early.") from error
    except OSError as error:
        raise BackupUnreadable(file, f"{error.strerror or error}.") from error


def _rows_in(frames: Iterator[Any], file: Path) -> Iterator[Rows]:
    table, count = "", 0
    columns: list[str] = []
    for frame in frames:
        if isinstance(frame, list):
            yield Rows(table, columns, frame)
            count += len(frame)
        elif "rows" in frame:
            # Behind it there is the file's own checksum, which is read where nothing else comes.
            if frame["rows"] == count and next(frames, None) is None:
                return
            break
        else:
            table, columns = frame["table"], frame["columns"]
    raise BackupUnreadable(file, "it is damaged, or ends too early.")

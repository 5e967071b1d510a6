"""Opening a database file: checks that it is SQLite, ours and not newer than this program, and migrates it, all or nothing.

What holds for every kind of database: the steps, their newest one, and the refusal of what a newer program wrote.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from limpet.core.errors import DatabaseUnusable
from limpet.store.sqlite import DatabaseFile, connect, primary_code

MIGRATIONS = Path(__file__).parent / "migrations"
# SQLite's own mark for whose file it is: "LMPT".
APPLICATION_ID = 0x4C4D5054
OPEN_SECONDS = 2.0
VERSIONS = "alembic_version"  # the table that says how new the others are


def prepare(place: DatabaseFile, *, migrations: Path = MIGRATIONS) -> sqlite3.Connection:
    """Make it ready and return a connection to it. DatabaseUnusable otherwise, and then it holds what it held."""
    _make_file(place)
    connection: sqlite3.Connection | None = None
    try:
        connection = connect(place, wait=OPEN_SECONDS)
        _check_it_is_ours(connection, place, migrations)
        _write_ahead(connection, place)
        _migrate(connection, place, migrations)
    except BaseException as error:
        if connection is not None:
            connection.close()
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, sqlite3.Error):
            raise _unusable(place, cause) from cause
        raise
    return connection


def _make_file(place: DatabaseFile) -> None:
    """Create it readable by us alone: SQLite itself would let others read, and its side files follow this one's mode."""
    if place.path is None:
        return
    try:
        os.close(os.open(place.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except IsADirectoryError as error:
        raise DatabaseUnusable(place.url, "It is a directory.", "Name a file.") from error
    except OSError as error:
        remedy = f"Make {place.path} and its directory readable and writable for this user, or set [database] url."
        raise DatabaseUnusable(place.url, f"{error.strerror}.", remedy) from error


def _check_it_is_ours(connection: sqlite3.Connection, place: DatabaseFile, migrations: Path) -> str | None:
    """The version of its tables; None where there are none."""
    tables = _tables_of(connection)
    if not tables:
        return None
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID or VERSIONS not in tables:
        raise DatabaseUnusable(place.url, "It belongs to another program.", "Set [database] url to another file.")
    versions = [version for (version,) in connection.execute(f"SELECT version_num FROM {VERSIONS}")]
    return refuse_newer(versions, place.url, migrations)


def head(migrations: Path = MIGRATIONS) -> str | None:
    """The newest version that this program knows."""
    return ScriptDirectory(str(migrations)).get_current_head()


def refuse_newer(versions: Sequence[str], shown: str, migrations: Path = MIGRATIONS) -> str:
    """The version of a database's tables. DatabaseUnusable where this program does not know it."""
    steps = ScriptDirectory(str(migrations))
    if (version := ", ".join(versions)) not in {step.revision for step in steps.walk_revisions()}:
        reason = f"A newer Limpet wrote it (tables {version}; this one knows them up to {steps.get_current_head()})."
        raise DatabaseUnusable(shown, reason, "Run that Limpet or a newer one, or restore a backup from before.")
    return version


def _write_ahead(connection: sqlite3.Connection, place: DatabaseFile) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if place.path is not None and mode != "wal":
        reason = "Its file system cannot share memory between programs, as networked ones cannot."
        raise DatabaseUnusable(place.url, reason, "Put it on a local disk.")


def _migrate(connection: sqlite3.Connection, place: DatabaseFile, migrations: Path) -> None:
    # Rebuilding a table would otherwise delete the rows that refer to it; the keys are checked before the commit.
    connection.execute("PRAGMA foreign_keys=OFF")
    engine = create_engine("sqlite://", poolclass=StaticPool, creator=lambda: connection)
    event.listen(engine, "begin", lambda wrapped: wrapped.exec_driver_sql("BEGIN IMMEDIATE"))
    with engine.begin() as transaction:
        _check_it_is_ours(connection, place, migrations)
        upgrade(transaction, migrations)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        if broken := connection.execute("PRAGMA foreign_key_check").fetchall():
            reason = f"{len(broken)} rows refer to rows that are missing."
            raise DatabaseUnusable(place.url, reason, "Restore a backup.")
    connection.execute("PRAGMA foreign_keys=ON")


def upgrade(connection: Connection, migrations: Path = MIGRATIONS, *, to: str = "head") -> None:
    """All steps that are missing, or those up to a version, in the transaction of this connection."""
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def refuse_full(shown: str) -> DatabaseUnusable:
    return DatabaseUnusable(shown, "It has tables already.", "Name a new, empty one.")


@contextmanager
def translated(place: DatabaseFile) -> Iterator[None]:
    """What the driver raises in the block is DatabaseUnusable."""
    try:
        yield
    except (sqlite3.Error, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, sqlite3.Error):
            raise
        raise _unusable(place, cause) from cause


@contextmanager
def snapshot(place: DatabaseFile) -> Iterator[Connection]:
    """See `store.backend.Backend.snapshot`; the same checks as `prepare`."""
    with translated(place), closing(connect(place, wait=OPEN_SECONDS)) as driver:
        _check_it_is_ours(driver, place, MIGRATIONS)
        engine = create_engine("sqlite://", poolclass=StaticPool, creator=lambda: driver)
        event.listen(engine, "begin", lambda wrapped: wrapped.exec_driver_sql("BEGIN"))
        with engine.begin() as connection:
            yield connection


@contextmanager
def filling(place: DatabaseFile) -> Iterator[Connection]:
    """See `store.backend.Backend.filling`."""
    _make_file(place)
    with translated(place), closing(connect(place, wait=OPEN_SECONDS)) as driver:
        _write_ahead(driver, place)
        driver.execute("PRAGMA foreign_keys=OFF")  # as in `_migrate`; rows come in the order of their references
        engine = create_engine("sqlite://", poolclass=StaticPool, creator=lambda: driver)
        event.listen(engine, "begin", lambda wrapped: wrapped.exec_driver_sql("BEGIN IMMEDIATE"))
        with engine.begin() as connection:
            if _tables_of(driver):
                raise refuse_full(place.url)
            yield connection
            driver.execute(f"PRAGMA application_id={APPLICATION_ID}")


def version(place: DatabaseFile) -> str | None:
    """See `store.backend.Backend.version`."""
    if place.path is None or not place.path.exists():
        return None
    with translated(place), closing(connect(place, wait=OPEN_SECONDS)) as connection:
        return _check_it_is_ours(connection, place, MIGRATIONS)


def _tables_of(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _unusable(place: DatabaseFile, error: sqlite3.Error) -> DatabaseUnusable:
    match primary_code(error):
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            reason = "It is damaged, or not a database."
            remedy = "Restore a backup, or set [database] url to another file."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            reason = "Another program holds it locked."
            remedy = "Stop that program, or set [database] url to another file."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            reason = f"It cannot be written ({error})."
            remedy = (
                f"Make {place.path} and its directory writable for this user, or set [database] url to another file."
            )
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            reason = f"Its disk is full or refuses to write ({error})."
            remedy = "Make room on it, or set [database] url to a file on another disk."
        case _:
            reason, remedy = f"{error}.", ""
    return DatabaseUnusable(place.url, reason, remedy)

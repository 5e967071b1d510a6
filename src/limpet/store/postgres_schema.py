"""Opening a database of PostgreSQL: checks that it is ours and not newer than this program, and migrates it, all or nothing.

Of several gateways that start at once one migrates; the others wait for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.exc import DBAPIError

from limpet.core.errors import DatabaseUnusable
from limpet.store.postgres import OLDEST, DatabaseServer, is_lost
from limpet.store.schema import MIGRATIONS, VERSIONS, head, refuse_full, refuse_newer, upgrade

# Whose tables these are, as a comment on Alembic's own.
MARK = "limpet"
# Of the advisory lock, "limpet" in numbers: any program may use such locks, so it is no small one.
LOCK = 0x6C696D706574
WAIT_SECONDS = 60


def migrate(engine: Engine, server: DatabaseServer, *, migrations: Path = MIGRATIONS) -> None:
    """Make it ready. DatabaseUnusable otherwise, and then it holds what it held."""
    with _translated(server), engine.begin() as connection:
        _check_server(connection, server)
        if check_it_is_ours(connection, server, migrations) == head(migrations):
            return
        _hold(connection)
        check_it_is_ours(connection, server, migrations)
        upgrade(connection, migrations)
        _mark(connection)


@contextmanager
def filling(engine: Engine, server: DatabaseServer) -> Iterator[Connection]:
    """See `store.backend.Backend.filling`."""
    with _translated(server), engine.begin() as connection:
        _check_server(connection, server)
        _hold(connection)
        if inspect(connection).get_table_names():
            raise refuse_full(server.shown)
        yield connection
        _mark(connection)


@contextmanager
def snapshot(engine: Engine, server: DatabaseServer) -> Iterator[Connection]:
    """See `store.backend.Backend.snapshot`."""
    one_state = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    with _translated(server), one_state.begin() as connection:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        if check_it_is_ours(connection, server) is None:
            raise DatabaseUnusable(server.shown, "It is empty.", "Name the one that has the data.")
        yield connection


def version(engine: Engine, server: DatabaseServer) -> str | None:
    """See `store.backend.Backend.version`."""
    with _translated(server), engine.connect() as connection:
        _check_server(connection, server)
        return check_it_is_ours(connection, server)


def _hold(connection: Connection) -> None:
    """Until the transaction ends no other gateway makes or changes tables."""
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")


def _mark(connection: Connection) -> None:
    connection.exec_driver_sql(f"COMMENT ON TABLE {VERSIONS} IS '{MARK}'")


@contextmanager
def _translated(server: DatabaseServer) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise _unusable(server, error.orig) from error


def check_it_is_ours(connection: Connection, server: DatabaseServer, migrations: Path = MIGRATIONS) -> str | None:
    """The version of its tables; None where there are none. DatabaseUnusable."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    mark = None
    if VERSIONS in tables:
        mark = inspect(connection).get_table_comment(VERSIONS)["text"]
    if mark != MARK:
        remedy = "Make a database for Limpet alone, and name it in [database] url."
        raise DatabaseUnusable(server.shown, "It belongs to another program.", remedy)
    versions = connection.exec_driver_sql(f"SELECT version_num FROM {VERSIONS}").scalars().all()
    return refuse_newer(versions, server.shown, migrations)


def _check_server(connection: Connection, server: DatabaseServer) -> None:
    settings = ("server_version_num", "server_encoding", "transaction_read_only")
    version, encoding, read_only = (connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in settings)
    if int(version) < OLDEST:
        reason, remedy = f"Its server is version {int(version) // 10000}.", "Limpet needs PostgreSQL 13 or newer."
    elif encoding != "UTF8":
        reason, remedy = f"Its encoding is {encoding}.", "Make one with the encoding UTF8."
    elif read_only == "on":
        reason, remedy = "It can only be read.", "Name the server that writes, not a standby."
    else:
        return
    raise DatabaseUnusable(server.shown, reason, remedy)


def _unusable(server: DatabaseServer, error: Any) -> DatabaseUnusable:
    text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip()).rstrip(".")
    match getattr(error, "sqlstate", None):
        case "55P03":
            reason, remedy = "Another program migrates it, or holds its tables.", "Try again when that has ended."
        case "42501":
            reason, remedy = (
                f"{text}.",
                "Let the user of [database] url create tables there: make it the database's owner.",
            )
        case "53100":
            reason, remedy = "The disk of its server is full.", "Make room on it."
        case _ if is_lost(error):
            reason = f"{text}."
            remedy = "Look whether the server runs, and at host, port, user, password and database of [database] url."
        case _:
            reason, remedy = f"{text}.", ""
    return DatabaseUnusable(server.shown, reason, remedy)

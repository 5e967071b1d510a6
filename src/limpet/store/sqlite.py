"""SQLite as we use it: where the file is, how each connection is configured, and what its errors mean to a person."""

import secrets
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL

from limpet.core.errors import DatabaseUnusable

BUSY_SECONDS = 5.0
PRAGMAS = (
    "PRAGMA foreign_keys=ON",
    # In WAL mode this loses the last commits when the power fails, never when the process dies; the file stays whole.
    "PRAGMA synchronous=NORMAL",
    "PRAGMA journal_size_limit=67108864",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseFile:
    """Where the data lies. `path` is None for a database in memory; `uri` is SQLite's; `url` what the operator wrote."""

    url: str
    path: Path | None
    uri: str

    @property
    def engine_url(self) -> URL:
        database, _, options = self.uri.partition("?")
        query = dict(option.split("=") for option in options.split("&") if option)
        return URL.create("sqlite+aiosqlite", database=database, query={**query, "uri": "true"})


def locate(url: str, *, home: Path) -> DatabaseFile:
    """Where `url` points. Raises DatabaseUnusable for a database of another kind."""
    shown = url or f"sqlite:///{home / 'limpet.db'}"
    if not url:
        return _file(home / "limpet.db", shown)
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite":
        raise DatabaseUnusable(
            _without_password(url),
            f"{scheme!r} is not a kind of database.",
            'Write "sqlite:///path" or "postgresql://…".',
        )
    path = rest.removeprefix("///")
    if path == ":memory:":
        # A database of that VFS is shared by this process's connections and gone with the last of them.
        return DatabaseFile(url=shown, path=None, uri=f"file:/limpet-{secrets.token_hex(8)}?vfs=memdb")
    if not path or path.endswith("/"):
        raise DatabaseUnusable(shown, "It names no file.", 'Write it as "sqlite:///path/to/limpet.db".')
    return _file(Path(path), shown)


def _file(path: Path, url: str) -> DatabaseFile:
    path = path.expanduser().absolute()
    return DatabaseFile(url=url, path=path, uri=f"file:{quote(str(path))}")


def _without_password(url: str) -> str:
    scheme, slashes, rest = url.partition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2]}"


def connect(place: DatabaseFile, *, wait: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection of the driver itself; transactions are opened by hand."""
    connection = sqlite3.connect(place.uri, timeout=wait, uri=True, isolation_level=None, check_same_thread=False)
    try:
        for pragma in PRAGMAS:
            connection.execute(pragma)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def primary_code(error: BaseException) -> int:
    """SQLite's result code without its extension; 0 where the error carries none."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def why(error: BaseException) -> str:
    """What happened and what can be done, for a person, of an error of the driver while running."""
    text = str(error)
    match primary_code(error):
        case sqlite3.SQLITE_FULL:
            return "The disk is full. Make room on it; what was not acknowledged was not written."
        case sqlite3.SQLITE_IOERR:
            return f"The disk refused a read or write ({text}). Look at its space, quota and health."
        case sqlite3.SQLITE_READONLY:
            return "The database became read-only. Look at the file's permissions and how the disk is mounted."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"Another program held the database for more than {BUSY_SECONDS:g} s. Stop it, or try again."
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return f"The database file is damaged ({text}). Restore a backup."
        case _:
            return text.rstrip(".") + "."

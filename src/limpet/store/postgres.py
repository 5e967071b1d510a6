"""PostgreSQL as we use it: which server, how each connection is configured, and what its errors mean to a person.

The driver is psycopg, loaded by SQLAlchemy where a URL names PostgreSQL; nothing here imports it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from limpet.core.errors import DatabaseUnusable

SCHEMES = ("postgresql", "postgres")
OLDEST = 130000  # of a server, as it counts its versions
CONNECT_SECONDS = 5
# A process that is stopped in mid-transaction gives its locks back after this, so that others may take over what it carries.
IDLE_MILLISECONDS = 5000
LOST = "The connection to the database server was lost"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseServer:
    """Where the data lies. `shown` is what the operator wrote without the password."""

    shown: str
    url: URL

    @property
    def options(self) -> Mapping[str, Any]:
        """Of each connection: a server that is gone is noticed within 20 s also where no packet comes back."""
        given = self.url.query.get("options", "")
        return {
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "limpet",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            "tcp_user_timeout": 20_000,
            "options": f"{given} -c idle_in_transaction_session_timeout={IDLE_MILLISECONDS}".strip(),
        }


def names_postgres(url: str) -> bool:
    return url.partition(":")[0] in SCHEMES


def locate_server(url: str) -> DatabaseServer:
    """Which server and database `url` names. Raises DatabaseUnusable."""
    shown = without_password(url)
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise _misspelt(shown) from error
    if not parsed.database:
        raise _misspelt(shown)
    return DatabaseServer(shown=shown, url=parsed.set(drivername="postgresql+psycopg"))


def _misspelt(shown: str) -> DatabaseUnusable:
    return DatabaseUnusable(
        shown, "It names no database.", 'Write it as "postgresql://user:password@host:5432/database".'
    )


def without_password(url: str) -> str:
    """As messages may show it: everything between the user and the last @ of the address is left out, and what comes behind `password=`."""
    scheme, slashes, rest = url.partition("://")
    user, at, address = rest.rpartition("@")
    address, question, query = address.partition("?")
    kept = "&".join(part for part in query.split("&") if part and "password" not in part)
    return f"{scheme}{slashes}{user.partition(':')[0]}{at}{address}{question if kept else ''}{kept}"


def is_lost(error: BaseException) -> bool:
    """Whether the server or the way to it is gone, for now; a new connection may be had later."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return type(error).__name__ in ("OperationalError", "InterfaceError", "ConnectionTimeout", "PoolTimeout")
    return state.startswith("08") or state in ("57P01", "57P02", "57P03", "25P03")


def why(error: BaseException) -> str:
    """What happened and what can be done, for a person, of an error of the driver while running."""
    lines = str(error).splitlines() or [type(error).__name__]
    text = lines[0].rstrip(".")
    if is_lost(error):
        return f"{LOST} ({text}). Look at the server; it is asked again at the next request."
    match getattr(error, "sqlstate", None):
        case "53100":
            return (
                "The disk of the database server is full. Make room on it; what was not acknowledged was not written."
            )
        case "53300":
            return f"The database server takes no more connections ({text}). Raise its max_connections, or run fewer gateways."
        case "25006":
            return "The database became read-only. Look whether [database] url names a standby."
        case "40P01" | "40001" | "55P03":
            return f"Other writers of the database were in the way ({text}). Try again."
        case _:
            return f"{text}."

"""A PostgreSQL server of the tests' own, from the system's package: one for all workers of a run, with a database for each test.

`server` starts it on a free port for the first that asks and ends it, by its process id, with the last. Nothing is synced.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from limpet.core.ids import new_id
from limpet.store.postgres import locate_server
from limpet.store.postgres_backend import PostgresBackend

READY_SECONDS = 30.0
OWNER, PASSWORD = "limpet", "never-shown-pa55"
TEMPLATE = "limpet_template"
UNSAFE_AND_FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "shared_buffers": "16MB",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "fatal",
}


@dataclass(frozen=True, slots=True)
class Server:
    """`pid` is its first process; `directory` holds its data and log."""

    port: int
    pid: int
    directory: str
    programs: str

    def url(self, database: str) -> str:
        return f"postgresql://{OWNER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def administer(self, *statements: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def query(self, database: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows; what was written is committed."""
        with psycopg.connect(self.url(database)) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def dump(self, database: str) -> str:
        """Schema and rows, as text."""
        words = [f"{self.programs}/pg_dump", "--no-owner", self.url(database)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    @contextmanager
    def database(self, *, migrated: bool = True) -> Iterator[str]:
        """The URL of a new one, which is gone after the block; with today's tables, or with none."""
        name = new_id("db")
        self.administer(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE if migrated else 'template0'}")
        try:
            yield self.url(name)
        finally:
            self.administer(f"DROP DATABASE {name} WITH (FORCE)")


def found_programs() -> str | None:
    """The directory with initdb and postgres; None where there is none."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name))
    places += [Path(place) for place in os.get_exec_path()]
    return next(
        (str(place) for place in places if (place / "initdb").is_file() and (place / "postgres").is_file()), None
    )


@contextmanager
def server(shared: Path) -> Iterator[Server]:
    """The server of all that name the same directory, for the time of the block."""
    record = shared / "postgres.json"
    with _locked(shared):
        kept = json.loads(record.read_text()) if record.exists() else None
        if kept is None:
            kept = {"server": _started(), "users": 0}
        kept["users"] += 1
        record.write_text(json.dumps(kept))
    try:
        yield Server(**kept["server"])
    finally:
        with _locked(shared):
            kept = json.loads(record.read_text())
            kept["users"] -= 1
            if kept["users"]:
                record.write_text(json.dumps(kept))
            else:
                record.unlink()
                _stop(Server(**kept["server"]))


@contextmanager
def _locked(shared: Path) -> Iterator[None]:
    with (shared / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _started() -> dict[str, Any]:
    programs = found_programs()
    assert programs is not None
    directory = Path(tempfile.mkdtemp(prefix="limpet-pg-"))
    as_user: list[str] = []
    if os.geteuid() == 0:  # which PostgreSQL refuses to run as
        directory.chmod(0o700)
        os.chown(directory, 65534, 65534)
        as_user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    data, log = directory / "data", directory / "log"
    made = [f"{programs}/initdb", "--no-sync", "-D", str(data), "-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C"]
    subprocess.run([*as_user, *made], check=True, stdout=subprocess.DEVNULL, cwd="/")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = [f"--{name}={value}" for name, value in UNSAFE_AND_FAST.items()]
    words = [f"{programs}/postgres", "-D", str(data), "-k", str(directory), "-p", str(port), *settings]
    if (
        "PYTEST_XDIST_WORKER" not in os.environ
    ):  # where no other process uses it, it ends with this one, however that ends
        as_user = [*(as_user or ["setpriv"]), "--pdeathsig", "QUIT"]
    with log.open("wb") as written:
        # setpriv becomes the server: the process id is its own. A session of its own keeps a terminal's signals away.
        process = subprocess.Popen([*as_user, *words], stdout=written, stderr=written, cwd="/", start_new_session=True)
    made_server = {"port": port, "pid": process.pid, "directory": str(directory), "programs": programs}
    try:
        _prepare(Server(**made_server), process)
    except BaseException:
        process.kill()
        raise
    return made_server


def _prepare(made: Server, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + READY_SECONDS
    while True:
        try:
            made.administer(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0")
            break
        except psycopg.OperationalError:
            said = Path(made.directory, "log").read_text(errors="replace")
            assert process.poll() is None, f"PostgreSQL did not start: {said}"
            assert time.monotonic() < until, f"PostgreSQL does not answer: {said}"
            time.sleep(0.02)
    PostgresBackend(locate_server(made.url(TEMPLATE))).prepare()()


def _stop(started: Server) -> None:
    """At once: there is nothing to be kept. Its other processes end with the first."""
    os.kill(started.pid, signal.SIGQUIT)
    until = time.monotonic() + READY_SECONDS
    while _lives(started.pid) and time.monotonic() < until:
        time.sleep(0.02)
    shutil.rmtree(started.directory, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    except ChildProcessError:
        pass  # another worker's
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state != b"Z"


@contextmanager
def restarted(down: Server, shared: Path) -> Iterator[None]:
    """It ends all its connections and itself, and is started again on its data when the block ends. Of a test's own server, which no other
    one uses."""
    words = Path(f"/proc/{down.pid}/cmdline").read_bytes().rstrip(b"\0").decode().split("\0")
    os.kill(down.pid, signal.SIGINT)  # not SIGQUIT: it loses what it has not written, and said that it had
    until = time.monotonic() + READY_SECONDS
    while _lives(down.pid) and time.monotonic() < until:
        time.sleep(0.02)
    yield
    with Path(down.directory, "log").open("ab") as written:
        process = subprocess.Popen(
            [*_as_user(), *words], stdout=written, stderr=written, cwd="/", start_new_session=True
        )
    record = shared / "postgres.json"
    kept = json.loads(record.read_text())
    kept["server"]["pid"] = process.pid
    record.write_text(json.dumps(kept))


def _as_user() -> list[str]:
    """PostgreSQL refuses to run as root; where no other process uses it, it ends with this one, however that ends."""
    other = ["--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    dying = [] if "PYTEST_XDIST_WORKER" in os.environ else ["--pdeathsig", "QUIT"]
    return ["setpriv", *other, *dying] if other or dying else []

"""What this machine has of a gateway: the processes of its boxes, its rows, and waiting for something to become true."""

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
BOUND = 5.0


def eventually(look: Callable[[], T], *, within: float = BOUND, says: str = "it never became true") -> T:
    """The first true value of `look`, asked again and again for at most `within` seconds."""
    until = time.monotonic() + within
    while not (value := look()):
        assert time.monotonic() < until, f"{says} (within {within:g} s)"
        time.sleep(0.02)
    return value


def processes_of(name: str) -> list[int]:
    """The living processes of this machine that have to do with `name` (a container's id, a home directory): it stands in
    their arguments, their environment, or among what is mounted for them. Zombies are dead."""
    return [pid for pid in _pids() if _is_alive(pid) and _mentions(pid, name.encode())]


def processes_with(argument: str) -> list[int]:
    """The living processes that have exactly this argument."""
    wanted = argument.encode()
    return [pid for pid in _pids() if _is_alive(pid) and wanted in _read(pid, "cmdline").split(b"\0")]


def rows(database: Path, query: str, *values: object) -> list[dict[str, Any]]:
    """What a query finds, read beside the gateway that writes."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=BOUND)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(query, values)]
    finally:
        connection.close()


def stored_ref(database: Path, container_id: str) -> dict[str, Any] | None:
    """The reference of the container's box, as its row holds it; None before its first command."""
    (row,) = rows(database, "SELECT ref FROM containers WHERE id = ?", container_id)
    return None if row["ref"] is None else json.loads(row["ref"])


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _is_alive(pid: int) -> bool:
    state = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")


def _mentions(pid: int, name: bytes) -> bool:
    return any(name in _read(pid, file) for file in ("cmdline", "environ", "mountinfo"))


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""  # it ended in between, or is not ours to look at

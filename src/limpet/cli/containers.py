"""`limpet containers`: lists and removes containers, lists and fetches their files.

Asks a gateway as any client does; where none answers it looks into the home itself. What a box named is never written to a
terminal as it is.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from limpet.cli.containers_home import HomePlace
from limpet.cli.containers_http import GatewayPlace
from limpet.cli.terminal import Screen, shown
from limpet.config import load_config
from limpet.containers.changes import safe_name
from limpet.core.box_directories import DATA
from limpet.core.clock import SystemClock, seconds
from limpet.core.errors import ConfigInvalid, LimpetError
from limpet.store.home import gateway_of, home_id

STATUSES = ("running", "expired")
STDOUT = Path("-")
_UNITS = (("t", 1 << 40), ("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10))
Json = dict[str, Any]


class NotThere(LimpetError):
    """A container has no such file."""


class ContainerSource(Protocol):
    """Where containers are looked for. Objects are those of the wire; every call raises LimpetError."""

    def containers(self) -> list[Json]: ...

    def remove(self, container_id: str) -> None: ...

    def files(self, container_id: str) -> list[Json]: ...

    def fetch(self, container_id: str, file_id: str, write: Callable[[bytes], object]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPath:
    """What the command line says of the place."""

    url: str | None = None
    config: Path | None = None
    tenant: str | None = None


def listed(where: ContainerPath, *, status: str | None, as_json: bool) -> None:
    """Prints a line for each container, or one JSON array."""
    if status is not None and status not in STATUSES:
        raise ConfigInvalid("limpet containers ls", "--status", f"{status!r} is not one of {', '.join(STATUSES)}")
    found = [each for each in place_of(where).containers() if status is None or each["status"] == status]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    has_tenants = any("tenant" in each for each in found)
    head = ("ID", *(("TENANT",) if has_tenants else ()), "NAME", "STATUS", "CREATED", "EXPIRES", "MEMORY")
    now = seconds(SystemClock().now())
    print_table([head, *(_container_row(each, now, has_tenants=has_tenants) for each in found)])


def removed(ids: Iterable[str], where: ContainerPath) -> int:
    """Removes each with its box and its files. Exits 1 where one could not be; the others are."""
    place, failed = place_of(where), False
    for container_id in ids:
        try:
            place.remove(container_id)
            print(container_id, flush=True)
        except LimpetError as error:
            failed = True
            Screen().note(error.message)
    return 1 if failed else 0


def files_listed(container_id: str, where: ContainerPath, *, as_json: bool) -> None:
    """Prints a line for each file, or one JSON array."""
    found = place_of(where).files(container_id)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print_table([("ID", "BYTES", "SOURCE", "CREATED", "PATH"), *map(_file_row, found)])


def fetched(container_id: str, file: str, output: Path | None, where: ContainerPath) -> None:
    """Downloads one file, whole or not at all. `file` is its id or its path; without `output` it is written here under its own name
    where nothing has that name yet; "-" is standard output."""
    place = place_of(where)
    row = _chosen(place.files(container_id), container_id, file)
    if output == STDOUT:
        place.fetch(container_id, row["id"], sys.stdout.buffer.write)
        sys.stdout.buffer.flush()
        return
    target = output or Path(safe_name(row["filename"]))
    if output is None and target.exists():
        raise ConfigInvalid("limpet containers files", "--get", f"{target} is here already; name another with -o PATH")
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".limpet-", delete=False) as partial:
        try:
            place.fetch(container_id, row["id"], partial.write)
            partial.flush()
            os.chmod(partial.name, 0o666 & ~_umask())
            os.replace(partial.name, target)
        except BaseException:
            os.unlink(partial.name)
            raise
    Screen().note(f"{row['bytes']} bytes are in {target}")


def place_of(where: ContainerPath) -> ContainerSource:
    """The home where its settings or one of its tenants are named; else the gateway that is named, or the one that serves this home and
    no other; else the home."""
    is_home_named = where.config is not None or where.tenant is not None
    if where.url is not None and not is_home_named:
        return GatewayPlace(where.url)
    config = load_config(where.config)
    if not is_home_named and (address := gateway_of(config.home)) is not None:
        gateway = GatewayPlace(address)
        gateway.check_home(config.home, home_id(config.home))
        return gateway
    home = HomePlace(config, tenant=where.tenant)
    Screen().hint(f"As they are in {home.path}")
    return home


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as they must be; the first row is the head."""
    clean = [tuple(shown(cell).replace("\n", "\ufffd").replace("\t", "\ufffd") for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in clean) for column in range(len(clean[0]))]
    for row in clean:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _container_row(each: Json, now: int, *, has_tenants: bool) -> tuple[str, ...]:
    left = _span(each["expires_at"] - now)
    expires = f"in {left}" if each["status"] == "running" else _moment(each["expires_at"])
    tenant = (each["tenant"],) if has_tenants else ()
    memory = each.get("memory_limit") or amount(each.get("memory_limit_bytes"))
    return each["id"], *tenant, each["name"], each["status"], _moment(each["created_at"]), expires, memory


def _file_row(each: Json) -> tuple[str, ...]:
    size = f"{each['bytes']}{' (too large)' if each.get('too_large') else ''}"
    return each["id"], size, each["source"], _moment(each["created_at"]), each["path"]


def _chosen(files: list[Json], container_id: str, file: str) -> Json:
    for each in files:
        if file in (each["id"], each["path"]) or f"{DATA}/{file}" == each["path"]:
            return each
    raise NotThere(
        f"The container {container_id} has no file {file}. `limpet containers files {container_id}` lists them."
    )


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def amount(size: int | None) -> str:
    """Bytes in the largest unit that they are whole in, as a request may write them: 512m."""
    if size is None:
        return "-"
    unit, factor = next((each for each in _UNITS if size % each[1] == 0), ("", 1))
    return f"{size // factor}{unit}"


def _span(left: int) -> str:
    if left < 120:
        return f"{max(0, left)} s"
    return f"{left // 60} min" if left < 7200 else f"{left // 3600} h"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

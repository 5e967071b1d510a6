"""What an attack is: one file of attacks/, and what it is given to attack with.

Each file has a docstring whose first line is its title, and either

- COMMAND: a script that the attacking tenant runs in its container, or
- `def attack(target)`: requests that it sends, in a process of its own,

and may have SECONDS (how long it runs; then it is stopped), MCP (True: an MCP server stands beside the gateway, `target.mcp`),
and `def holds(target)`, asked afterwards: a claim of the attack's own, as an AssertionError in words where it is broken, or TooSlow
where it is a claim on time.
"""

import importlib
import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

ATTACKS = Path(__file__).parent / "attacks"
SOURCE = "127.0.9.9"  # attacks come from another address than the other tenants
SECONDS = 3.0
TOO_SLOW = "too slow: "


class TooSlow(Exception):
    """A claim on time that did not hold, in words. It counts where it does not hold each time: the machine may have been busy."""


def names() -> list[str]:
    return sorted(path.stem for path in ATTACKS.glob("*.py"))


def load(name: str) -> ModuleType:
    return importlib.import_module(f"tests.siege.attacks.{name}")  # noqa: TID251 - attacks are data, found by their names


def title(name: str) -> str:
    return (load(name).__doc__ or name).strip().splitlines()[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the attacking tenant attacks: the gateway, its own key and container there, an MCP server where one is asked for, and
    the directory where the gateway keeps the files of that container."""

    url: str
    key: str
    container: str
    mcp: str = ""
    home: str = ""

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 80

    def connection(self, url: str = "", *, timeout: float = 60.0) -> HTTPConnection:
        """A new one, from the attacker's address."""
        return HTTPConnection(urlsplit(url or self.url).netloc, timeout=timeout, source_address=(SOURCE, 0))

    def socket(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60, source_address=(SOURCE, 0))

    def ask(self, method: str, path: str, body: Any = None, *, timeout: float = 60.0) -> tuple[int, Any]:
        """The status and the JSON of an answer. `body` is sent as JSON, or as it is where it is (content type, bytes)."""
        headers = {"Authorization": f"Bearer {self.key}"}
        data: bytes | None = None
        if isinstance(body, tuple):
            headers["Content-Type"], data = body
        elif body is not None:
            headers["Content-Type"], data = "application/json", json.dumps(body).encode()
        connection = self.connection(timeout=timeout)
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def run(self, script: str, *, container: str = "", timeout: float = 60.0, **more: Any) -> tuple[int, Any]:
        """A response in which the built-in model runs this script in the attacker's container."""
        environment = {"type": "container_reference", "container_id": container or self.container}
        return self.ask("POST", "/v1/responses", turn(script, environment, **more), timeout=timeout)


def used_mb(target: Target, container: str) -> int:
    """MiB that the files of a container take up on the host."""
    found = [where for where in Path(target.home).rglob(f"*{container}*") if where.is_dir()]
    assert found, f"the files of {container} are nowhere below {target.home}"
    inside = (os.path.join(where, name) for top in found for where, _, names in os.walk(top) for name in names)
    return sum(os.lstat(path).st_blocks * 512 for path in inside) >> 20


def turn(script: str, environment: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "model": "limpet/script",
        "input": f"```sh\n{script}\n```",
        "tools": [{"type": "shell", "environment": environment}],
        **more,
    }


def is_alive(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/livez", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def main() -> None:
    """The attacking process: `python -m tests.siege.attack NAME URL KEY CONTAINER MCP HOME`."""
    name, url, key, container, mcp, home = sys.argv[1:]
    target = Target(url=url, key=key, container=container, mcp=mcp, home=home)
    module = load(name)
    until = time.monotonic() + getattr(module, "SECONDS", SECONDS)
    while time.monotonic() < until:
        try:
            if hasattr(module, "COMMAND"):
                target.run(module.COMMAND, timeout=until - time.monotonic())
                return
            module.attack(target)
        except TooSlow as late:
            sys.exit(f"{TOO_SLOW}{late}")
        except OSError:  # refused or cut off: a good answer to an attack, which tries again
            time.sleep(0.05)


if __name__ == "__main__":
    main()

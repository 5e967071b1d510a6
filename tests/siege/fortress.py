"""The gateway under siege: a process of its own, ten tenants with a key and a container each, and what of it can be counted."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.siege.attack import Target, is_alive
from tests.support.gateway import LIMPET, Gateway
from tests.support.homes import home_apart
from tests.support.host import eventually, processes_with, stored_ref

DEFENDERS = 9
DISK_MB = 60
COMMAND_SECONDS = 6
CONFIG = f"""
[auth]
mode = "keys"

[features.shell]
type = "bubblewrap"
disk_mb = {DISK_MB}

[features.server_tools.shell_limits]
command_timeout_secs = {COMMAND_SECONDS}

[features.quotas]
max_containers = 3
"""
_MCP_ADDRESS = re.compile(r"(http://\S+/mcp)")


@dataclass(slots=True)
class Fortress:
    """`targets[0]` is the attacker's, the others are those of the nine tenants at work."""

    gateway: Gateway
    targets: list[Target] = field(default_factory=list)
    watched: dict[str, int] = field(default_factory=dict)

    def settle_in(self) -> None:
        """Make the tenants' keys and containers, and start in each of the nine boxes a process that must live on."""
        for number in range(DEFENDERS + 1):
            key = self._key(f"tenant-{number}")
            self.targets.append(self._container(key))
        self.watched = {"the gateway": self.pid}
        for number, target in enumerate(self.targets[1:]):
            mark = f"8640{number}.{os.getpid()}"
            status, body = target.run(f"sleep {mark} >/dev/null 2>&1 &")
            assert (status, body.get("status")) == (200, "completed"), body
            eventually(lambda mark=mark: processes_with(mark), says="a tenant's process never began")
            self.watched[f"a process of tenant {number + 1}"] = processes_with(mark)[-1]
            self.watched[f"the box of tenant {number + 1}"] = self._agent(target)

    def fresh_attacker(self) -> Target:
        """A tenant of its own for each attack, so that none inherits another's quotas."""
        self.targets[0] = self._container(self._key(f"attacker-{time.monotonic_ns()}"))
        return self.targets[0]

    def ended(self) -> list[str]:
        return [name for name, pid in self.watched.items() if not _is_running(pid)]

    @property
    def pid(self) -> int:
        assert self.gateway.process is not None
        return self.gateway.process.pid

    def memory(self) -> int:
        """Bytes that the gateway holds; 0 once it has ended."""
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
            return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) << 10
        return 0

    def log_size(self) -> int:
        return self.gateway.log.stat().st_size

    def _agent(self, target: Target) -> int:
        ref = stored_ref(self.gateway.home / "limpet.db", target.container)
        assert ref is not None
        return _first_number(ref, "pid")

    def _key(self, tenant: str) -> str:
        environment = {"PATH": os.environ["PATH"], "LIMPET_HOME": str(self.gateway.home)}
        done = subprocess.run(
            [LIMPET, "keys", "create", tenant, "--tenant", tenant],
            env=environment, capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def _container(self, key: str) -> Target:
        empty = Target(url=self.gateway.url, key=key, container="", home=str(self.gateway.home))
        status, body = empty.ask("POST", "/v1/containers", {"name": "siege"})
        assert status == 200, body
        return Target(url=self.gateway.url, key=key, container=body["id"], home=empty.home)


@contextmanager
def besieged() -> Iterator[Fortress]:
    """A fortress with its tenants settled in; all of it ends with the block, also where an attack has ended it before."""
    with tempfile.TemporaryDirectory(prefix="limpet-siege-") as directory, home_apart() as home:
        gateway = Gateway(Path(directory), home=home, config=CONFIG, arguments=("--stop-boxes",)).start()
        fortress = Fortress(gateway)
        try:
            fortress.settle_in()
            yield fortress
        finally:
            if gateway.process is not None and gateway.process.poll() is None and is_alive(gateway.url):
                gateway.stop()
            else:
                gateway.kill()
                gateway.start().stop()


@contextmanager
def mcp_server() -> Iterator[tuple[str, int]]:
    """`limpet mcp` over HTTP: its address and its process."""
    with tempfile.TemporaryDirectory(prefix="limpet-siege-mcp-") as directory, home_apart() as home:
        log = Path(directory) / "log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [LIMPET, "mcp", "--http", "127.0.0.1:0"],
                stdout=errors, stderr=errors, env={"PATH": os.environ["PATH"], "LIMPET_HOME": str(home)}, cwd=directory,
            )  # fmt: skip
        try:
            said = eventually(lambda: _MCP_ADDRESS.search(log.read_text(errors="replace")), within=20.0)
            yield said[1], process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def assault(name: str, target: Target) -> "subprocess.Popen[bytes]":
    """The attack, from a process of its own."""
    words = [name, target.url, target.key, target.container, target.mcp, target.home]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.siege.attack", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _first_number(found: object, key: str) -> int:
    """The number of this name, wherever in the reference it stands."""
    if isinstance(found, dict):
        if isinstance(found.get(key), int):
            return int(found[key])
        for inner in found.values():
            if number := _first_number(inner, key):
                return number
    return 0

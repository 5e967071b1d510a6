"""A gateway as its users have it: the program itself, in a process of its own, on a free port, with a home of its own. See `prepared`."""

import functools
import os
import re
import signal
import ssl
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai

from tests.support.homes import home_apart
from tests.support.kill_points import KillPoint
from tests.support.local_names import LocalNames
from tests.support.prepared import Started, Surroundings, started

READY_SECONDS = 60.0
LIMPET = Path(sys.executable).parent / "limpet"
_ADDRESS = re.compile(r"limpet serves (http://\S+)")


@functools.cache
def system_trust() -> ssl.SSLContext:
    """What clients trust, for all clients of a run: to read it for each takes longer than most of what they ask."""
    return ssl.create_default_context()


@dataclass
class Gateway:
    """Start it with `start`, end it with `stop` (SIGTERM) or `kill` (SIGKILL), start it again on the same home.

    `home` is below `directory` unless it is given (see `home_apart`).
    `config` is the text of its limpet.toml beside the runtime's section; `env` is added to a small environment of its own; `names` are
    those that its host's resolver knows; `user` is whose process it is, which must be able to reach `directory` and to make `home`.
    """

    directory: Path
    home: Path = Path()
    runtime: str = "bubblewrap"
    config: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    kill_point: KillPoint | None = None
    names: LocalNames | None = None
    user: int | None = None
    process: Started | None = None
    url: str = ""

    def __post_init__(self) -> None:
        if self.home == Path():
            self.home = self.directory / "home"

    @property
    def log(self) -> Path:
        return self.directory / "gateway.log"

    def start(self) -> "Gateway":
        """Returns when it answers; raises with its own words if it does not start."""
        file = self.directory / "limpet.toml"
        unsafe = "unsafe_local = true" if self.runtime == "local" else ""
        shell = "" if "[features.shell]" in self.config else f'[features.shell]\ntype = "{self.runtime}"\n{unsafe}\n'
        file.write_text(f"{self.config}\n{shell}")
        self.log.write_bytes(b"")
        arguments = ["serve", "--config", str(file), "--port", "0", *self.arguments]
        self.process = started(
            arguments,
            Surroundings(
                env=self._environment(),
                directory=Path.cwd(),
                output=self.log,
                errors=self.log,
                kill_point=self.kill_point,
                names=self.names,
                user=self.user,
            ),
        )
        until = time.monotonic() + READY_SECONDS
        while not (said := _ADDRESS.search(self.log.read_text(errors="replace"))):
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise AssertionError(f"The gateway did not start: {self.log.read_text(errors='replace')}")
            time.sleep(0.02)
        self.url = said[1]
        return self

    def stop(self) -> int:
        """Ask it to end, as a service manager does. Returns its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        return self._end(signal.SIGKILL)

    def client(self, **options: Any) -> openai.OpenAI:
        """The official client, which refuses every answer that is not to the letter."""
        return openai.OpenAI(
            base_url=f"{self.url}/v1",
            **{
                "_strict_response_validation": True,
                "api_key": "none needed",
                "max_retries": 0,
                "timeout": 60.0,
                "http_client": openai.DefaultHttpxClient(verify=system_trust()),
                **options,
            },
        )

    def http(self) -> httpx2.Client:
        """A plain client, for what no official client would send."""
        return httpx2.Client(base_url=self.url, timeout=60.0, trust_env=False, verify=system_trust())

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ", "DOCKER_HOST") if name in os.environ}
        return {**kept, "LIMPET_HOME": str(self.home), **self.env}

    def _end(self, number: int) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=20)
        self.process = None
        return code


@contextmanager
def running(directory: Path, **settings: Any) -> Iterator[Gateway]:
    """A gateway for the time of the block; its boxes end with it. `directory` holds its configuration and its log."""
    arguments = ("--stop-boxes", *settings.pop("arguments", ()))
    with home_apart() as home:
        gateway = Gateway(directory, home=home, arguments=arguments, **settings).start()
        try:
            yield gateway
        finally:
            if gateway.process is None:
                gateway.start()
            gateway.stop()


@contextmanager
def lasting(directory: Path, **settings: Any) -> Iterator[Gateway]:
    """As `running`, for tests that restart it: its boxes live on when it stops, as they do by default. They end with the block."""
    with home_apart() as home:
        if (user := settings.get("user")) is not None:
            os.chown(home.parent, user, user)
        gateway = Gateway(directory, home=home, **settings).start()
        try:
            yield gateway
        finally:
            gateway.kill()
            gateway.arguments = ("--stop-boxes",)
            gateway.start().stop()

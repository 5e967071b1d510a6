"""What an operator may choose about containers of the engine, and where their things lie on the host."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from limpet.core.box_settings import BoxSettings
from limpet.runtimes.agent_client.time_limits import LIMIT_GRACE

NAME = "docker"
DEFAULT_IMAGE = "python:3.12-slim"
DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
HOME_LABEL = "limpet.home"
NAME_LABEL = "limpet.sandbox"
OWNED_LABEL = "limpet.ends-with-owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings(BoxSettings):
    """`home` is LIMPET_HOME; `address` is the engine's, as in DOCKER_HOST ("": that variable, else Docker's own socket).

    The engine must run on this host: a container's files are directories of it. A first command has `boot_timeout` seconds, after an
    image that is missing was pulled. The others are as in `BubblewrapSettings`.
    """

    home: Path
    address: str = ""
    disk_every: float = 1.0
    uid_first: int = 2_000_000_000
    uid_count: int = 1_000_000
    boot_timeout: float = 30.0
    limit_grace: float = LIMIT_GRACE
    orphan_grace: float = 30.0

    @property
    def engine_address(self) -> str:
        return self.address or os.environ.get("DOCKER_HOST") or DEFAULT_ADDRESS

    @property
    def home_digest(self) -> str:
        """Tells the containers of this home from those of another on the same engine."""
        return hashlib.sha256(str(self.home.absolute()).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ContainerPaths:
    """Where the things of one container lie below `home`. Found from its name alone, so that leftovers can be found too."""

    home: Path
    short: str

    @classmethod
    def of(cls, home: Path, name: str) -> "ContainerPaths":
        return cls(home, hashlib.sha256(name.encode()).hexdigest()[:16])

    @property
    def directory(self) -> Path:
        """All that goes with the container."""
        return self.home / "docker" / self.short

    @property
    def agent(self) -> Path:
        """Of the agent alone: what it is started with, its socket, its lifeline."""
        return self.directory / "agent"

    @property
    def socket(self) -> Path:
        return self.agent / "socket"

    @property
    def lifeline(self) -> Path:
        """A fifo that this process holds open as long as the container shall live."""
        return self.agent / "lifeline"

    @property
    def payload(self) -> Path:
        return self.agent / "payload"

    @property
    def settings(self) -> Path:
        """Files of its /etc that are ours."""
        return self.directory / "etc"

    @property
    def trust(self) -> Path:
        """The authorities that its programs trust, alone in their directory."""
        return self.directory / "trust" / "ca-certificates.crt"

    @property
    def empty(self) -> Path:
        """A directory with nothing in it, shown where an image has a volume."""
        return self.directory / "empty"

    @property
    def temporary(self) -> Path:
        return self.directory / "tmp"

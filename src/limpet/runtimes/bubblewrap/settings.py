"""What an operator may choose about boxes, and where their things lie on the host."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from limpet.core.box_settings import BoxSettings
from limpet.core.ports import SandboxRef, SandboxSpec
from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.agent_client.time_limits import LIMIT_GRACE

NAME = "bubblewrap"
ENDS_WITH_OWNER = "ends_with_owner"  # in the record of a box that lives no longer than its creator
TERMINALS = 64  # that a box may have; the kernel has about 3,000 for all boxes together


@dataclass(frozen=True, slots=True, kw_only=True)
class BubblewrapSettings(BoxSettings):
    """`home` is LIMPET_HOME: for root, every directory on its way must let other users pass (mode o+x).

    A box without an image sees the host's /usr. The use of the disk is looked at every `disk_every` seconds. Boxes
    without a `user_id` of their own
    get one from the upper half of the range of uids. A command whose time is up and that the box's agent has not ended `limit_grace`
    seconds later is ended from outside. A box with a time to live ends with the commands in it once nothing was connected to it for that
    time and `orphan_grace` seconds more.
    """

    home: Path
    disk_every: float = 1.0
    uid_first: int = 2_000_000_000
    uid_count: int = 1_000_000
    boot_timeout: float = 20.0
    limit_grace: float = LIMIT_GRACE
    orphan_grace: float = 30.0


@dataclass(frozen=True, slots=True)
class BoxPaths:
    """Where the things of one box lie below `home`. Found from its name alone, so that leftovers can be found too."""

    home: Path
    short: str

    @classmethod
    def of(cls, home: Path, name: str) -> "BoxPaths":
        return cls(home, hashlib.sha256(name.encode()).hexdigest()[:16])

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def socket(self) -> Path:
        return self.run / f"{self.short}.sock"

    @property
    def record(self) -> Path:
        """What a later process needs to end the box: name, boot id, pid and start time."""
        return self.run / f"{self.short}.json"

    @property
    def directory(self) -> Path:
        """Its /tmp and, where it has no lasting directory, its files. Goes with it."""
        return self.home / "boxes" / self.short

    @property
    def shared(self) -> Path:
        """What all boxes of this home are shown and none can write."""
        return self.home / "shared"

    @property
    def private(self) -> tuple[Path, Path]:
        """Its /tmp and its /dev/shm."""
        return self.directory / "tmp", self.directory / "shm"

    @property
    def trust(self) -> Path:
        """The authorities that its programs trust, alone in their directory, where the box has a file of its own."""
        return self.directory / "trust" / "ca-certificates.crt"

    @property
    def group(self) -> str:
        """The name of its cgroup; two homes on one host never share one."""
        return f"{hashlib.sha256(str(self.home).encode()).hexdigest()[:8]}-{self.short}"


def _is_own(spec: SandboxSpec, shown: Path) -> bool:
    return spec.directory is not None and shown.is_relative_to(spec.directory)


def reference(
    spec: SandboxSpec,
    agent: AgentProcess,
    place: BoxPaths,
    files: Mapping[str, Path],
    *,
    shell: str,
    owner: int | None,
    disk: int | None,
) -> SandboxRef:
    """From this another process finds the box, its files, and how much disk it may use."""
    facts = {
        **agent.facts(spec.name),
        "socket": str(place.socket),
        "files": {path: str(directory) for path, directory in files.items()},
        "owner": owner,
        "disk": disk,
        # What lies in the box's own directory on the host is its disk, also where the box cannot write.
        "counted": [str(shown) for shown in spec.read_only.values() if _is_own(spec, shown)],
    }
    return SandboxRef(
        runtime=NAME, name=spec.name, boot_id=agent.boot_id, walls=spec.walls.digest, shell=shell, facts=facts
    )

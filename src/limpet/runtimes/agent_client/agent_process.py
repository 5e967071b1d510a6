"""The process of a sandbox's agent: how another process finds it again, and whether it lives."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from limpet.core.errors import SandboxGone
from limpet.runtimes import procfs


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProcess:
    """A sandbox's agent as the host sees it. The start time, in the kernel's ticks, tells it from a later process with the same pid."""

    boot_id: str
    pid: int
    started: str

    def facts(self, name: str) -> dict[str, Any]:
        return {"name": name, "boot_id": self.boot_id, "pid": self.pid, "started": self.started}

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> "AgentProcess":
        """The agent that `facts` speak of. Raises SandboxGone if they are not ours."""
        try:
            return cls(boot_id=str(facts["boot_id"]), pid=int(facts["pid"]), started=str(facts["started"]))
        except (KeyError, TypeError, ValueError) as error:
            raise SandboxGone("What was kept of it cannot be read.") from error

    @classmethod
    def recorded(cls, record: Path) -> "AgentProcess | None":
        """The one of that file; None where there is none, or it cannot be read."""
        try:
            return cls.read(json.loads(record.read_bytes()))
        except (OSError, ValueError, SandboxGone):
            return None

    def lives(self) -> bool:
        """Whether that very process is there."""
        return self.pid > 0 and started_at(self.pid) == self.started

    async def has_died(self) -> None:
        """Return when it has."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except (ProcessLookupError, ValueError):
            return
        try:
            if self.lives():
                await anyio.wait_readable(descriptor)
        finally:
            os.close(descriptor)


def started_at(pid: int) -> str | None:
    """When that process started, in the kernel's ticks; None if there is none, or only its remains."""
    stat = procfs.stat_of(pid)
    return None if stat is None or stat.is_dead else stat.started

"""What this process may do beyond an ordinary user (capabilities(7))."""

from functools import cache
from pathlib import Path

SYS_ADMIN = 21
SYS_RESOURCE = 24


@cache
def has(capability: int) -> bool:
    """Whether it is in effect here (proc_pid_status(5))."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> capability & 1)

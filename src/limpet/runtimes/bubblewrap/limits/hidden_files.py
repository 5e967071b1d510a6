"""What a box may keep in files that no look finds (`disk.Usage.hidden`): under way through sockets, or mapped, and without a name.

Their size can only be concluded: from what the disk has lost beyond what was found, here and in the other boxes, as far as the box's
processes have written as much meanwhile. It is forgotten as soon as there is nothing of the kind; so a program that passes
descriptors to one that receives them is never blamed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from limpet.runtimes import procfs
from limpet.runtimes.bubblewrap.limits.disk_usage import Usage

_LOOKS = 3  # in a row that find something of the kind


@dataclass(slots=True)
class HiddenFilesLedger:
    """What the boxes of a runtime were found to use, by name; what those that have ended used stays."""

    _used: dict[str, int] = field(default_factory=dict)
    _past: int = 0

    def note(self, name: str, used: int) -> None:
        self._used[name] = used

    def close(self, name: str) -> None:
        self._past += self._used.pop(name, 0)

    def others(self, name: str) -> int:
        """Bytes of all but that one."""
        return self._past + sum(self._used.copy().values()) - self._used.get(name, 0)


@dataclass(slots=True)
class HiddenFiles:
    """Of one box, from look to look."""

    _bytes: int = 0
    _looks: int = 0
    _lost: int | None = None
    _written: dict[int, int] = field(default_factory=dict)

    def after(self, usage: Usage, *, free: int, others: int, processes: Iterable[int]) -> int:
        """Bytes, after one more look that found this; 0 until three looks in a row found something of the kind."""
        lost = -free - usage.bytes - others  # beyond what was found, but for a constant
        written, self._written = self._written, written_by(processes)
        grown = sum(max(0, now - written.get(pid, 0)) for pid, now in self._written.items())
        if usage.hidden and self._lost is not None:
            self._bytes += min(lost - self._lost, grown)
        self._lost = lost
        if not usage.hidden:
            self._bytes = self._looks = 0
            return 0
        self._looks += 1
        return max(0, self._bytes) if self._looks >= _LOOKS else 0


def written_by(processes: Iterable[int]) -> dict[int, int]:
    """Bytes that each wrote so far, with those of its children that it has waited for, and most of them twice: to disks, and to
    anything, since not every file system counts the first (proc_pid_io(5)). Without those that hide."""
    found = {}
    for pid in processes:
        if values := procfs.values(f"/proc/{pid}/io"):
            found[pid] = values.get(b"wchar", 0) + values.get(b"write_bytes", 0)
    return found

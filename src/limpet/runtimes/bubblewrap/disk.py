"""How much disk a box uses. Reads only; its files may change under it at any moment, by somebody who wants to be overlooked."""

import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from limpet.runtimes import procfs
from limpet.runtimes.beneath import DIRECTORY

_LONGEST = 30.0  # seconds; then what was found counts
_BLOCK = 512  # of st_blocks, whatever the file system's own are


@dataclass(frozen=True, slots=True)
class Usage:
    """`bytes` that were found, and how many ways there were to files without a name whose size nobody sees: descriptors under way
    through sockets (SCM_RIGHTS, unix(7)), and mappings."""

    bytes: int
    hidden: int


def used_by(
    directories: Iterable[Path], processes: Iterable[int] = (), *, goes_on: Callable[[], bool] = lambda: True
) -> Usage:
    """Bytes that files below `directories` take up: blocks that are allocated, so holes count nothing, and each file once however
    many names it has. To these come files without any name that `processes` hold open there.

    Not seen are files without a name that are mapped and not open, or under way through sockets (`Usage.hidden`); and, where
    this process isn't root, a directory that its own owner has closed, and what processes hold that hide, as the agent with its
    spool does. Half a minute is spent at most, and no more once `goes_on` says no.
    """
    tally = _Tally(goes_on)
    for directory in directories:
        with suppress(OSError):
            tally.walk(directory)
    for pid in processes:
        tally.look_into(pid)
    return Usage(tally.bytes, tally.hidden)


class _Tally:
    def __init__(self, goes_on: Callable[[], bool]) -> None:
        self.bytes = 0
        self.hidden = 0
        self._goes_on = goes_on
        self._shared: set[tuple[int, int]] = set()  # files that may be met again
        self._devices: set[int] = set()
        self._until = time.monotonic() + _LONGEST

    def walk(self, top: Path) -> None:
        """Count a whole tree, however deep it is and however long its paths are."""
        steps = _Steps(top)
        try:
            self._devices.add(steps.status.st_dev)
            pending = [self._count_in(steps.here)]
            while pending and time.monotonic() < self._until and self._goes_on():
                if pending[-1]:
                    if steps.down(pending[-1].pop()):
                        pending.append(self._count_in(steps.here))
                else:
                    del pending[steps.up() :]
        finally:
            os.close(steps.here)

    def _count_in(self, directory: int) -> list[str]:
        """Count what lies in it, without the directories, whose names come back."""
        below = []
        with os.scandir(directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    self._count(status)
                    if stat.S_ISDIR(status.st_mode):
                        below.append(entry.name)
        return below

    def _count(self, status: os.stat_result) -> None:
        if not stat.S_ISDIR(status.st_mode) and status.st_nlink != 1:
            identity = (status.st_dev, status.st_ino)
            if identity in self._shared:
                return
            self._shared.add(identity)
        self.bytes += status.st_blocks * _BLOCK

    def look_into(self, pid: int) -> None:
        """Count the files without a name that a process has open on the same file systems, and how it may hold further ones."""
        self.hidden += sum(device in self._devices for device in procfs.mapped_without_a_name(pid))
        directory = f"/proc/{pid}/fd"
        with suppress(OSError):
            for name in os.listdir(directory):
                with suppress(OSError):
                    status = os.stat(f"{directory}/{name}")
                    if status.st_nlink == 0 and status.st_dev in self._devices:
                        self._count(status)
                    elif stat.S_ISSOCK(status.st_mode):
                        # Descriptors that wait in it (Linux 5.6); in one that listens, also those in its connections.
                        self.hidden += procfs.values(f"/proc/{pid}/fdinfo/{name}").get(b"scm_fds", 0)


class _Steps:
    """Where a walk is: one descriptor, `here`, and how it came there."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self.here = os.open(top, DIRECTORY)
        self.status = os.fstat(self.here)
        self._way: list[tuple[str, tuple[int, int]]] = []  # each step's name, and the identity of where it began

    def down(self, name: str) -> bool:
        """False where it is not there any more, is no directory, or is closed to us."""
        try:
            below = os.open(name, DIRECTORY, dir_fd=self.here)
        except OSError:
            return False
        self._way.append((name, _identity(self.here)))
        self._move(below)
        return True

    def up(self) -> int:
        """One step back. Returns how many directories are then open: the one here and those above; 0 behind the last."""
        if not self._way:
            return 0
        expected = self._way.pop()[1]
        above = os.open("..", DIRECTORY, dir_fd=self.here)
        if _identity(above) == expected:
            self._move(above)
        else:
            # Somebody has moved it meanwhile, and ".." leads elsewhere, out of the tree perhaps: once more from the top.
            os.close(above)
            self._from_the_top()
        return len(self._way) + 1

    def _from_the_top(self) -> None:
        way, self._way = self._way, []
        self._move(os.open(self._top, DIRECTORY))
        for name, _ in way:
            if not self.down(name):
                return

    def _move(self, there: int) -> None:
        os.close(self.here)
        self.here = there


def _identity(directory: int) -> tuple[int, int]:
    status = os.fstat(directory)
    return status.st_dev, status.st_ino

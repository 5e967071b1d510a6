"""How much disk a box uses. Reads only; commands may move files at any moment, also on purpose to hide them from the count."""

import os
import stat
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from limpet.runtimes import procfs
from limpet.runtimes.open_beneath import DIRECTORY

LEAST = (
    4096  # bytes that everything with an inode counts for: empty files, links and directories fill a file system too
)
_BLOCK = 512  # of st_blocks, whatever the file system's own are
_STEP = 256  # entries, or descriptors, between two pauses


@dataclass(frozen=True, slots=True)
class Usage:
    """`bytes` that were found, and how many ways there were to files without a name whose size cannot be seen: descriptors under way
    through sockets (SCM_RIGHTS, unix(7)), and mappings."""

    bytes: int
    hidden: int


def used_by(directories: Iterable[Path], processes: Iterable[int] = ()) -> Usage:
    """What `counting` finds, at once."""
    count = counting(directories, processes)
    while True:
        try:
            next(count)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # StopIteration has no type for what a generator returns


def counting(directories: Iterable[Path], processes: Iterable[int] = ()) -> Generator[None, None, Usage]:
    """Bytes that files below `directories` take up: blocks that are allocated, so holes count nothing, each file once however
    many names it has, and each for `LEAST` at least. To these come files without any name that `processes` have open or mapped there.

    It pauses often; close it to give up. Not seen are files without a name that are under way through
    sockets (`Usage.hidden`); and, where this process isn't root, those that are mapped and not open (counted there too), a directory
    that its own owner has closed, and what processes hold that hide, as the agent with its spool does.
    """
    tally = _Tally()
    for directory in directories:
        with suppress(OSError):
            yield from tally.walk(directory)
    for pid in processes:
        yield from tally.look_into(pid)
    return Usage(tally.bytes, tally.hidden)


class _Tally:
    def __init__(self) -> None:
        self.bytes = 0
        self.hidden = 0
        self._without_a_name: set[tuple[int, int]] = set()
        self._devices: set[int] = set()

    def walk(self, top: Path) -> Generator[None, None, None]:
        """Count a whole tree, however deep it is and however long its paths are. OSError where its top cannot be opened; what else
        cannot be looked at, or goes meanwhile, is passed over and nothing beside it."""
        steps = _Steps(top)
        try:
            self._devices.add(steps.status.st_dev)
            self.bytes += _size(steps.status)
            pending = [(yield from self._count_in(steps.here))]
            while pending:
                if pending[-1]:
                    if steps.down(pending[-1].pop()):
                        pending.append((yield from self._count_in(steps.here)))
                else:
                    del pending[steps.up() :]
        finally:
            os.close(steps.here)

    def _count_in(self, directory: int) -> Generator[None, None, list[str]]:
        """Count what lies in it; the names of its directories come back."""
        below: list[str] = []
        yield
        with suppress(OSError), os.scandir(directory) as entries:
            for number, entry in enumerate(entries):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        below.append(entry.name)
                        self.bytes += _size(status)
                    elif status.st_nlink > 0:
                        # By each of its names a part of it, so that nothing has to be remembered of a million of them.
                        self.bytes += _size(status) // status.st_nlink
                if number % _STEP == _STEP - 1:
                    yield
        return below

    def look_into(self, pid: int) -> Generator[None, None, None]:
        """Count the files without a name that a process has open or mapped on the same file systems, and how it may hold further
        ones."""
        yield
        for device, path in procfs.mapped_without_a_name(pid):
            if device in self._devices:
                try:
                    self._count_once(os.stat(path))  # by root only, and by the mapping itself
                except OSError:
                    self.hidden += 1
        yield
        directory = f"/proc/{pid}/fd"
        with suppress(OSError):
            for number, name in enumerate(os.listdir(directory)):
                with suppress(OSError):
                    status = os.stat(f"{directory}/{name}")
                    if stat.S_ISSOCK(status.st_mode):
                        # Descriptors that wait in it (Linux 5.6); in one that listens, also those in its connections.
                        self.hidden += procfs.values(f"/proc/{pid}/fdinfo/{name}").get(b"scm_fds", 0)
                    else:
                        self._count_once(status)
                if number % _STEP == _STEP - 1:
                    yield

    def _count_once(self, status: os.stat_result) -> None:
        identity = (status.st_dev, status.st_ino)
        if status.st_nlink == 0 and status.st_dev in self._devices and identity not in self._without_a_name:
            self._without_a_name.add(identity)
            self.bytes += _size(status)


def _size(status: os.stat_result) -> int:
    return max(LEAST, status.st_blocks * _BLOCK)


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
        above = self._above()
        if above is not None and _identity(above) == expected:
            self._move(above)
        else:
            # It was removed, or moved so that ".." leads elsewhere, out of the tree perhaps: once more from the top.
            if above is not None:
                os.close(above)
            self._from_the_top()
        return len(self._way) + 1

    def _above(self) -> int | None:
        try:
            return os.open("..", DIRECTORY, dir_fd=self.here)
        except OSError:
            return None

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

"""Which directories of a container changed since the last look, so that a look costs only what changed.

Watches are armed before a directory is read and fire once; nothing is concluded from an event but that its directory must be read
again. Where watches run out, or the kernel lost events, everything is read. What no event tells (a write through a mapping or a
second name elsewhere) is found by a look at everything, which comes at least every `EVERYTHING_AFTER` seconds of use.

A tree has room for a number of entries: directories beyond it are not entered until there is room again, and one that alone is too
large for it is read in part and takes no room from others. Generated directories (`generated`) are not entered.
"""

import errno
import math
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from limpet.containers.changes import Scan
from limpet.containers.generated import GeneratedTrees
from limpet.containers.tree_watcher import TreeWatcher
from limpet.core.ports import FileStat
from limpet.runtimes.hostfiles import described, is_unfinished
from limpet.runtimes.open_beneath import DIRECTORY, LinkInTheWay, open_beneath

EVERYTHING_AFTER = 300.0  # seconds
MOST_ENTRIES = 50_000  # of one container
LARGE = 8  # a directory with more than this part of the room comes after the others
TRYING_AGAIN = 60.0  # seconds after watches ran out
_TOO_MANY = frozenset({errno.ENOSPC, errno.ENOMEM})


@dataclass(slots=True)
class _Node:
    """A directory as it was last read. `watch` is None once it fired; `entries` were read, all there are where `is_complete`."""

    inode: int
    watch: int | None
    inner: dict[str, int] = field(default_factory=dict)
    files: list[FileStat] = field(default_factory=list)
    entries: int = 0
    is_complete: bool = True


@dataclass(eq=False, slots=True)
class WatchedTree:
    """One directory with all that is in it, up to `most_entries`. `look` is for one caller at a time, in a thread; the first one reads
    everything. `watches` is how many of the kernel's it has."""

    _watching: TreeWatcher
    _root: Path
    _shown: str
    most_entries: int = MOST_ENTRIES
    generated: GeneratedTrees = field(default_factory=GeneratedTrees)
    is_whole: bool = True
    watches: int = field(default=0, init=False)
    _clock: Callable[[], float] = time.monotonic
    _whole_at: float = field(default=0.0, init=False)
    _nodes: dict[str, _Node] = field(default_factory=dict, init=False)
    _entries: int = field(default=0, init=False)  # of the directories that were read whole
    _entries_at_whole: int = field(default=0, init=False)
    _unread: set[str] = field(default_factory=set, init=False)
    _partial: set[str] = field(default_factory=set, init=False)
    _left: int = field(default=0, init=False)  # entries that this look may still read
    _fired: set[str] = field(default_factory=set, init=False)
    _is_spent: bool = field(default=False, init=False)
    _spent_at: float = field(default=-math.inf, init=False)

    def look(self) -> Scan:
        """Read what may have changed since the last look. A change that is made during this call is in it or in the next one. OSError."""
        self._watching.collect()
        with self._watching.locked():
            is_old = self._clock() - self._whole_at > EVERYTHING_AFTER
            is_whole = self.is_whole or is_old or not self._watching.is_working
            wanted, self._fired = self._fired, set()
            self.is_whole = False
        self._left = 2 * self.most_entries
        try:
            return self._whole() if is_whole else self._some(wanted)
        except BaseException:
            self.is_whole = True
            raise

    @property
    def is_over(self) -> bool:
        """Whether there is more than was looked at."""
        return bool(self._unread or self._partial)

    def again(self, paths: Iterable[str]) -> None:
        """These directories (as the box sees them) are to be read once more."""
        with self._watching.locked():
            self._fired |= {path[len(self._shown) + 1 :] for path in paths}

    def close(self) -> None:
        """Stop watching it. A later look reads everything, and watches again."""
        for path in list(self._nodes):
            self._forget(path)
        self.is_whole = True
        self._watching.drop(self)

    def fired(self, path: str, watch: int) -> None:
        """See `WatchedPaths`."""
        node = self._nodes.get(path)
        if node is not None and node.watch == watch:
            node.watch = None
        # Also where the node is not there yet: it is being read.
        self._fired.add(path)

    def _whole(self) -> Scan:
        self._is_spent = self._clock() - self._spent_at < TRYING_AGAIN
        self._whole_at = self._clock()
        self._unread.clear()
        for path in list(self._nodes):
            self._account(path, None)
        read: dict[str, _Node] = {}
        with suppress(FileNotFoundError), self._opened() as base:
            self._read_below(base, [""], read, everything=True)
        unread = set(self._unread)
        for path in self._nodes.keys() - read.keys():
            self._forget(path)
        self._unread = unread
        self._entries_at_whole = self._entries
        look = self._seen(read, is_whole=not self.is_over)
        self._give_up_if_spent()
        self.is_whole |= "" not in self._nodes  # a root that is not there is not watched
        return look

    def _some(self, wanted: set[str]) -> Scan:
        if not wanted:
            return self._seen({}, is_whole=False)
        if not self._root.is_dir():
            return self._whole()
        read: dict[str, _Node] = {}
        with self._opened() as base:
            # Those above first: what is below one that is gone need not be looked for.
            for path in sorted(wanted):
                if path not in read and (path in self._nodes or path == ""):
                    self._read_below(base, [path], read, everything=False)
        if self._unread and self._entries < self._entries_at_whole * 9 // 10:
            self._left = 2 * self.most_entries
            return self._whole()  # there is room again for what was left out
        look = self._seen(read, is_whole=False)
        self._give_up_if_spent()
        return look

    def _seen(self, read: dict[str, _Node], *, is_whole: bool) -> Scan:
        files = []
        for node in read.values():
            files += node.files
            node.files = []
        known = {self._in_box(path): frozenset(node.inner) for path, node in read.items() if node.is_complete}
        return Scan(files=tuple(files), directories=None if is_whole else known, is_over=self.is_over)

    def _read_below(self, base: int, waiting: list[str], read: dict[str, _Node], *, everything: bool) -> None:
        """Read directories and what is below them. One with very many entries is read on when the others had their turn."""
        large: deque[str] = deque()
        while waiting or large:
            is_last = not waiting
            path = large.popleft() if is_last else waiting.pop()
            before = self._nodes.get(path)
            self._account(path, None)
            free = self.most_entries - self._entries
            # Half of what a look may read is kept for the large ones.
            room = min(free, self._left) if is_last else min(free // LARGE + 1, self._left - self.most_entries)
            if room <= 0 and not is_last:
                large.append(path)
                continue
            node = self._read(base, path, room)
            if node is None:
                continue
            if not node.is_complete and not is_last:
                large.append(path)
            read[path] = node
            for name in before.inner.keys() - node.inner.keys() if before is not None and node.is_complete else ():
                self._forget_below(_joined(path, name))
            for name, inode in node.inner.items():
                below = _joined(path, name)
                inner = self._nodes.get(below)
                is_same = inner is not None and inner.inode == inode and inner.watch is not None
                # What there was no room for is tried again when there is room (`_some`), not whenever something happens above it.
                if below not in read and (everything or not (is_same or below in self._unread)):
                    waiting.append(below)

    def _read(self, base: int, path: str, room: int) -> _Node | None:
        """Arm a directory, then read it, up to `room` entries. None where there is no room. Of one that is gone or not to be entered
        nothing is there for us."""
        if room <= 0:
            self._unread.add(path)
            return None
        try:
            descriptor = open_beneath(base, tuple(path.split("/")) if path else ())
        except (OSError, LinkInTheWay):
            self._forget(path)
            return _Node(0, None)
        try:
            node = _Node(os.fstat(descriptor).st_ino, self._armed(path, descriptor))
            self._scan(descriptor, path, node, room)
        finally:
            os.close(descriptor)
        self._unread.discard(path)
        self._account(path, node)
        self._nodes[path] = node
        return node

    def _account(self, path: str, node: _Node | None) -> None:
        """Take back the room of what was read of a directory, and give it to `node`."""
        before = self._nodes.get(path)
        if before is not None and before.is_complete:
            self._entries -= before.entries
            before.entries = 0
        self._partial.discard(path)
        if node is None:
            return
        self._left -= node.entries
        if node.is_complete:
            self._entries += node.entries
        else:
            self._partial.add(path)

    def _scan(self, descriptor: int, path: str, node: _Node, room: int) -> None:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if node.entries == room:
                    node.is_complete = False
                    return
                node.entries += 1
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # removed since
                if stat.S_ISDIR(found.st_mode):
                    if entry.name not in self.generated.names:
                        node.inner[entry.name] = found.st_ino
                elif stat.S_ISREG(found.st_mode) and not is_unfinished(entry.name):
                    if path and entry.name in self.generated.markers:
                        node.inner, node.files = {}, []
                        node.entries, node.is_complete = 1, True
                        return
                    node.files.append(described(self._in_box(_joined(path, entry.name)), found))

    def _armed(self, path: str, descriptor: int) -> int | None:
        if self._is_spent:
            return None
        try:
            return self._watching.arm(self, path, descriptor)
        except OSError as error:
            if error.errno not in _TOO_MANY:
                raise
            self._is_spent, self._spent_at = True, self._clock()
            return None

    def _give_up_if_spent(self) -> None:
        """Half a watch is none: leave what there is to other trees."""
        if self._is_spent:
            for path in list(self._nodes):
                self._forget(path)
            self.is_whole = True

    def _forget_below(self, path: str) -> None:
        waiting = [path]
        while waiting:
            below = waiting.pop()
            node = self._nodes.get(below)
            waiting += [_joined(below, name) for name in node.inner] if node is not None else []
            self._forget(below)

    def _forget(self, path: str) -> None:
        self._unread.discard(path)
        self._account(path, None)
        node = self._nodes.pop(path, None)
        if node is None:
            return
        if node.watch is not None:
            self._watching.disarm(self, path, node.watch)

    def _in_box(self, path: str) -> str:
        return f"{self._shown}/{path}" if path else self._shown

    @contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = os.open(self._root, DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name

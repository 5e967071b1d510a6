"""Which directories of which containers changed since they were last looked at, so that a look costs what changed.

Watches are armed before a directory is read and fire once; nothing is concluded from an event but that its directory must be read
again. Where watches run out, or the kernel lost events, everything is read. What no event tells (a write through a mapping or a
second name elsewhere) is found by a look at everything, which comes at least every `EVERYTHING_AFTER` seconds of use.
"""

import errno
import math
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import anyio

from limpet.containers.changes import Look
from limpet.core.ports import FileStat
from limpet.runtimes.beneath import DIRECTORY, LinkInTheWay, open_beneath
from limpet.runtimes.hostfiles import described, is_unfinished
from limpet.runtimes.inotify import Inotify

EVERYTHING_AFTER = 300.0  # seconds
MOST_WATCHES = 50_000  # of one container: the host's watches are for all of them
TRYING_AGAIN = 60.0  # seconds after watches ran out
_TOO_MANY = frozenset({errno.ENOSPC, errno.ENOMEM})


@dataclass(slots=True)
class _Node:
    """A directory as it was last read. `watch` is None once it fired."""

    inode: int
    watch: int | None
    inner: frozenset[str] = frozenset()


class Watching:
    """The one inotify instance of this process and the trees that it watches. Open it with `async with`; without an instance (the host
    has none left) every look reads everything."""

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[Tree, str]] = {}
        self._trees: set[Tree] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            self._inotify = Inotify.open()
        except OSError:
            return self  # every look reads everything: slower, and as true
        self._stack.callback(self._close)
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(self._read_for_ever, self._inotify)
        self._stack.callback(tasks.cancel_scope.cancel)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    def tree(self, root: Path, shown: str) -> "Tree":
        """A directory of this host that a box sees as `shown`; not yet read."""
        tree = Tree(self, root, shown)
        with self._lock:
            self._trees.add(tree)
        return tree

    def collect(self) -> None:
        """Take over what happened until now."""
        with self._lock:
            if self._inotify is None:
                return
            fired = self._inotify.fired()
            for watch in fired.watches:
                if watch in self._watched:
                    tree, path = self._watched.pop(watch)
                    tree.fired(path, watch)
            if fired.has_lost_some:
                for tree in self._trees:
                    tree.is_whole = True

    @property
    def is_working(self) -> bool:
        return self._inotify is not None

    @property
    def descriptor(self) -> int | None:
        return None if self._inotify is None else self._inotify.fileno()

    def arm(self, tree: "Tree", path: str, descriptor: int) -> int | None:
        """Watch a directory of a tree. None where there is nothing to watch with; OSError where watches run out."""
        with self._lock:
            if self._inotify is None:
                return None
            watch = self._inotify.watch(descriptor)
            before = self._watched.get(watch)
            if before is not None and before != (tree, path):
                # The same directory at its former place: whoever looks there finds it gone.
                before[0].fired(before[1], watch)
            self._watched[watch] = (tree, path)
            return watch

    def disarm(self, tree: "Tree", path: str, watch: int) -> None:
        with self._lock:
            if self._watched.get(watch) == (tree, path):
                del self._watched[watch]
                if self._inotify is not None:
                    self._inotify.forget(watch)

    def drop(self, tree: "Tree") -> None:
        with self._lock:
            self._trees.discard(tree)

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._lock:
            yield

    async def _read_for_ever(self, inotify: Inotify) -> None:
        # So that the kernel's queue never fills while nobody looks.
        while True:
            await anyio.wait_readable(inotify.fileno())
            self.collect()

    def _close(self) -> None:
        with self._lock:
            if self._inotify is not None:
                self._inotify.close()
            self._inotify = None


@dataclass(eq=False, slots=True)
class Tree:
    """One directory with all that is in it. `look` is for one caller at a time, in a thread; the first one reads everything."""

    _watching: Watching
    _root: Path
    _shown: str
    is_whole: bool = True
    most: int = MOST_WATCHES
    _clock: Callable[[], float] = time.monotonic
    _whole_at: float = field(default=0.0, init=False)
    _nodes: dict[str, _Node] = field(default_factory=dict, init=False)
    _fired: set[str] = field(default_factory=set, init=False)
    _is_spent: bool = field(default=False, init=False)
    _spent_at: float = field(default=-math.inf, init=False)

    def look(self) -> Look:
        """Read what may have changed since the last look. A change that is made during this call is in it or in the next one. OSError."""
        self._watching.collect()
        with self._watching.locked():
            is_old = self._clock() - self._whole_at > EVERYTHING_AFTER
            is_whole = self.is_whole or is_old or not self._watching.is_working
            wanted, self._fired = self._fired, set()
            self.is_whole = False
        try:
            return self._whole() if is_whole else self._some(wanted)
        except BaseException:
            self.is_whole = True
            raise

    def again(self, paths: Iterable[str]) -> None:
        """These directories (as the box sees them) are to be read once more."""
        with self._watching.locked():
            self._fired |= {path[len(self._shown) + 1 :] for path in paths}

    def close(self) -> None:
        """Watch it no more. A later look reads everything, and watches again."""
        for path in list(self._nodes):
            self._forget(path)
        self.is_whole = True
        self._watching.drop(self)

    def fired(self, path: str, watch: int) -> None:
        """Called with the lock held."""
        node = self._nodes.get(path)
        if node is not None and node.watch == watch:
            node.watch = None
        # Also where the node is not there yet: it is being read.
        self._fired.add(path)

    def _whole(self) -> Look:
        self._is_spent = self._clock() - self._spent_at < TRYING_AGAIN
        self._whole_at = self._clock()
        files: list[FileStat] = []
        read: dict[str, frozenset[str]] = {}
        with suppress(FileNotFoundError), self._opened() as base:
            self._read_below(base, [""], read, files, everything=True)
        for path in self._nodes.keys() - read.keys():
            self._forget(path)
        self._give_up_if_spent()
        self.is_whole |= "" not in self._nodes  # a root that is not there is not watched
        return Look(files=tuple(files), directories=None)

    def _some(self, wanted: set[str]) -> Look:
        files: list[FileStat] = []
        read: dict[str, frozenset[str]] = {}
        if not wanted:
            return Look(files=(), directories={})
        if not self._root.is_dir():
            return self._whole()
        with self._opened() as base:
            # Those above first: what is below one that is gone need not be looked for.
            for path in sorted(wanted):
                if path not in read and (path in self._nodes or path == ""):
                    self._read_below(base, [path], read, files, everything=False)
        self._give_up_if_spent()
        return Look(files=tuple(files), directories={self._in_box(path): inner for path, inner in read.items()})

    def _read_below(
        self, base: int, waiting: list[str], read: dict[str, frozenset[str]], files: list[FileStat], *, everything: bool
    ) -> None:
        while waiting:
            path = waiting.pop()
            before = self._nodes.get(path)
            inner = self._read(base, path, files)
            read[path] = frozenset(inner)
            for name in before.inner - inner.keys() if before is not None else ():
                self._forget_below(_joined(path, name))
            for name, inode in inner.items():
                below = _joined(path, name)
                node = self._nodes.get(below)
                is_same = node is not None and node.inode == inode and node.watch is not None
                if below not in read and (everything or not is_same):
                    waiting.append(below)

    def _read(self, base: int, path: str, files: list[FileStat]) -> dict[str, int]:
        """Arm a directory, then read it: its files are added, its directories and their inodes given back."""
        try:
            descriptor = open_beneath(base, tuple(path.split("/")) if path else ())
        except (OSError, LinkInTheWay):
            self._forget(path)
            return {}  # gone, or not to be entered: what was in it is not there for us
        inner: dict[str, int] = {}
        try:
            node = _Node(os.fstat(descriptor).st_ino, self._armed(path, descriptor))
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue  # removed since
                    if stat.S_ISDIR(found.st_mode):
                        inner[entry.name] = found.st_ino
                    elif stat.S_ISREG(found.st_mode) and not is_unfinished(entry.name):
                        files.append(described(self._in_box(_joined(path, entry.name)), found))
        finally:
            os.close(descriptor)
        node.inner = frozenset(inner)
        self._nodes[path] = node
        return inner

    def _armed(self, path: str, descriptor: int) -> int | None:
        if self._is_spent:
            return None
        try:
            if len(self._nodes) >= self.most:
                raise OSError(errno.ENOSPC, "too many directories")
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
            if node is not None:
                waiting += [_joined(below, name) for name in node.inner]
                self._forget(below)

    def _forget(self, path: str) -> None:
        node = self._nodes.pop(path, None)
        if node is not None and node.watch is not None:
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

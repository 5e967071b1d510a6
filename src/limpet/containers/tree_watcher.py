"""The kernel's watches on the directories of all containers: armed, fired, and shared out among the trees (`watched_tree`)."""

import errno
import logging
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Protocol, Self

import anyio

from limpet.runtimes.inotify import Inotify

log = logging.getLogger("limpet.containers")

MOST_WATCHES = 50_000  # of all containers together; each takes about 1 KiB of the kernel's memory


class WatchedPaths(Protocol):
    """A tree whose directories are watched. `watches` is how many of them are; `is_whole` tells it that events were lost."""

    watches: int
    is_whole: bool

    def fired(self, path: str, watch: int) -> None:
        """Something happened in that directory, and its watch is gone. One call at a time; it may not call the watcher."""
        ...


class _Watches:
    """The watches that are armed, and whose they are. `TreeWatcher._locked` gives it."""

    def __init__(self) -> None:
        self.trees: set[WatchedPaths] = set()
        self._armed: dict[int, tuple[WatchedPaths, str]] = {}

    def __len__(self) -> int:
        return len(self._armed)

    def arm(self, watch: int, tree: WatchedPaths, path: str) -> None:
        """This watch is on that directory of that tree."""
        self._armed[watch] = (tree, path)
        self.trees.add(tree)
        tree.watches += 1

    def of(self, watch: int) -> tuple[WatchedPaths, str] | None:
        """The tree and the directory that it is on; None if it is not armed."""
        return self._armed.get(watch)

    def release(self, watch: int) -> tuple[WatchedPaths, str] | None:
        """The same, and it is armed no more."""
        released = self._armed.pop(watch, None)
        if released is not None:
            released[0].watches -= 1
        return released


class TreeWatcher:
    """The one inotify instance of this process and the trees that it watches. Open it with `async with`; without an instance (the host
    has none left) every look reads everything.

    There are at most `most` watches; a tree may take half of what the others have left, so that there is always some for a small one.
    """

    def __init__(self, *, most: int = MOST_WATCHES) -> None:
        self._most = most
        self._inotify: Inotify | None = None
        self._lock = threading.Lock()
        self._watches = _Watches()
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

    def collect(self) -> None:
        """Take over what happened until now."""
        with self._locked() as watches:
            if self._inotify is None:
                return
            fired = self._inotify.fired()
            for watch in fired.watches:
                if (released := watches.release(watch)) is not None:
                    tree, path = released
                    tree.fired(path, watch)
            if fired.has_lost_some:
                for tree in watches.trees:
                    tree.is_whole = True

    @property
    def is_working(self) -> bool:
        return self._inotify is not None

    @property
    def descriptor(self) -> int | None:
        return None if self._inotify is None else self._inotify.fileno()

    def arm(self, tree: WatchedPaths, path: str, descriptor: int) -> int | None:
        """Watch a directory of a tree. None where there is nothing to watch with; OSError where watches run out."""
        with self._locked() as watches:
            if self._inotify is None:
                return None
            watch = self._inotify.watch(descriptor)
            released = watches.release(watch)
            if released is not None and released != (tree, path):
                # The same directory at its former place, where nothing is now.
                before, former = released
                before.fired(former, watch)
            others = len(watches) - tree.watches
            if tree.watches >= (self._most - others) // 2:
                self._inotify.forget(watch)
                raise OSError(errno.ENOSPC, "too many directories are watched")
            watches.arm(watch, tree, path)
            return watch

    def disarm(self, tree: WatchedPaths, path: str, watch: int) -> None:
        with self._locked() as watches:
            if watches.of(watch) == (tree, path):
                watches.release(watch)
                if self._inotify is not None:
                    self._inotify.forget(watch)

    def drop(self, tree: WatchedPaths) -> None:
        with self._locked() as watches:
            watches.trees.discard(tree)

    @contextmanager
    def _locked(self) -> Iterator[_Watches]:
        with self._lock:
            yield self._watches

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._lock:
            yield

    async def _read_for_ever(self, inotify: Inotify) -> None:
        # Drain the queue at all times, so that it does not overflow between two calls.
        while True:
            await anyio.wait_readable(inotify.fileno())
            try:
                self.collect()
            except Exception:
                log.exception("The watches of containers' files are given up.")
                self._close()
                return

    def _close(self) -> None:
        with self._lock:
            if self._inotify is not None:
                self._inotify.close()
            self._inotify = None

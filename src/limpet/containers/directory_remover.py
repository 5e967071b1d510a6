"""Removes the directories of containers that have ended. A tree of very many entries takes minutes, and keeps no caller waiting that
long: it is put aside under another name at once, and cleared in a thread. What is not done at the end is left for the next start.
"""

import logging
import threading
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Self

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.abc import TaskGroup

from limpet.runtimes.open_beneath import remove_tree

PATIENCE = 2.0  # seconds that a caller waits: most directories are gone by then
THREADS = 2  # that clear directories at once
_ASIDE = ".removed"

log = logging.getLogger("limpet.containers")


def original_name(name: str) -> str:
    """The name that a directory had before it was put aside, if it was."""
    return name.removesuffix(_ASIDE)


class DirectoryRemover:
    """Open it with `async with`; before that, callers wait until everything is removed."""

    def __init__(self, *, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._threads = CapacityLimiter(THREADS)
        self._has_ended = threading.Event()
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._has_ended.clear()
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._has_ended.set()
        self._tasks = None
        await self._stack.aclose()

    async def remove(self, directory: Path) -> None:
        """After this nothing has that name, and all in it is gone or being removed. Quiet if it is not there. OSError, then it may be
        repeated."""
        aside = await to_thread.run_sync(_put_aside, original(directory))
        if self._tasks is None:
            await to_thread.run_sync(remove_tree, aside)
            return
        removal = _Removal(aside)
        self._tasks.start_soon(self._clear, removal)
        with anyio.move_on_after(self._patience):
            await removal.done.wait()
        removal.is_awaited = False
        if removal.error is not None:
            raise removal.error

    async def _clear(self, removal: "_Removal") -> None:
        work = partial(remove_tree, removal.directory, is_wanted=self._is_wanted)
        try:
            await to_thread.run_sync(work, limiter=self._threads)
        except InterruptedError:
            return  # the next start sweeps it
        except OSError as error:
            removal.error = error
            if not removal.is_awaited:
                log.warning(
                    "The directory %s of a container that has ended could not be removed: %s.", removal.directory, error
                )
        finally:
            removal.done.set()

    def _is_wanted(self) -> bool:
        return not self._has_ended.is_set()


class _Removal:
    """One directory that is being removed, and a caller that may wait for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.done = anyio.Event()
        self.error: OSError | None = None
        self.is_awaited = True


def original(directory: Path) -> Path:
    """The directory's path before it was put aside, if it was."""
    return directory.with_name(original_name(directory.name))


def _put_aside(directory: Path) -> Path:
    """Give it its other name, unless it has that already."""
    aside = directory.with_name(directory.name + _ASIDE)
    try:
        directory.rename(aside)
    except FileNotFoundError:
        return aside
    except OSError:
        if not aside.exists():
            raise
        remove_tree(aside)  # left by an attempt that failed
        directory.rename(aside)
    return aside

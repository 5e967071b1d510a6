"""Temporary directories for unpacking what a request brings, before its final place is known. One process of a home uses them."""

import secrets
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from limpet.core.errors import LimpetError, PlaceUnusable

T = TypeVar("T")
AT_ONCE = 2  # requests whose archives are unpacked in one moment: each may keep a core busy
CLEARING = 15.0  # seconds


class Staging:
    """Below `root`, which is made when it is first used. On the file system of the containers' directories what was unpacked moves
    to its place by a rename."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._limiter = anyio.CapacityLimiter(AT_ONCE)

    @asynccontextmanager
    async def directory(self) -> AsyncIterator[Path]:
        """An empty directory that is gone, with all in it, when the block ends. Raises PlaceUnusable."""
        fresh = self._root / secrets.token_hex(8)
        await self.run(lambda: _make(fresh))
        try:
            yield fresh
        finally:
            with anyio.move_on_after(CLEARING, shield=True):
                await to_thread.run_sync(lambda: shutil.rmtree(fresh, ignore_errors=True))

    async def run(self, work: Callable[[], T]) -> T:
        """What blocking work on such directories gives, in a thread; a few at once. Raises PlaceUnusable where the disk refuses."""
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        except LimpetError:
            raise
        except OSError as error:
            raise PlaceUnusable(
                str(self._root), f"{error.strerror or error}.", "Make room on its disk, or let this user write there."
            ) from error

    async def clear(self) -> None:
        """Remove what an earlier process left."""
        await to_thread.run_sync(lambda: shutil.rmtree(self._root, ignore_errors=True))


def _make(directory: Path) -> None:
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700)

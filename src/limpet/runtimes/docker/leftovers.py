"""Ends containers and removes what they had, by this process or by an earlier one: one at a time of each name, and never another's."""

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
from anyio import to_thread

from limpet.core.errors import BootFailed, LimpetError, RuntimeUnavailable
from limpet.runtimes.docker.engine import ContainerState, Engine
from limpet.runtimes.docker.settings import ContainerPaths, DockerSettings
from limpet.runtimes.open_beneath import remove_tree

_STARTING = timedelta(seconds=60)  # for which what does not run yet may be a container that is being started
_SHORT = re.compile(r"[0-9a-f]{16}")


class ContainerCleaner:
    """For the containers of one home on one engine."""

    def __init__(self, engine: Engine, settings: DockerSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._locks: dict[str, anyio.Lock] = {}

    def lock(self, place: ContainerPaths) -> anyio.Lock:
        """Held while a container of that name is started or cleared."""
        return self._locks.setdefault(place.short, anyio.Lock())

    def name(self, place: ContainerPaths) -> str:
        """The container's name on the engine."""
        return f"limpet-{self._settings.home_digest[:8]}-{place.short}"

    async def clear(self, place: ContainerPaths) -> None:
        """End what has that name and remove its directories; for the holder of its lock. Raises RuntimeUnavailable, BootFailed."""
        await self._engine.remove(self.name(place))
        await to_thread.run_sync(remove_tree, place.directory)

    async def clear_if_still(self, place: ContainerPaths, container: str) -> None:
        """The same, where what has that name is that very container or nothing."""
        async with self.lock(place):
            found = await self._engine.inspect(self.name(place))
            if found is None or found.id == container:
                await self.clear(place)

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool) -> list[str]:
        """See `core.ports.Runtime.sweep`. Raises RuntimeUnavailable."""
        told = []
        found = await self._engine.all(self._settings.home_digest)
        for one in found:
            if _is_wanted(one, living):
                continue
            try:
                if not dry_run:
                    await self.clear_if_still(ContainerPaths.of(self._settings.home, one.sandbox), one.id)
            except (OSError, LimpetError) as error:
                told.append(f"The container {one.id[:12]} of the sandbox {one.sandbox} could not be removed: {error}")
                continue
            told.append(f"The container {one.id[:12]} of the sandbox {one.sandbox} {_done(dry_run)}.")
        return told + await self._sweep_directories(found, dry_run=dry_run)

    async def _sweep_directories(self, found: Sequence[ContainerState], *, dry_run: bool) -> list[str]:
        """What a process left that was killed before its container was there, or whose container somebody removed."""
        told = []
        known = {ContainerPaths.of(self._settings.home, one.sandbox).short for one in found}
        for directory in await to_thread.run_sync(_old_directories, self._settings.home / "docker"):
            place = ContainerPaths(self._settings.home, directory.name)
            if place.short in known:
                continue
            async with self.lock(place):
                with suppress(BootFailed, RuntimeUnavailable):
                    if await self._engine.inspect(self.name(place)) is None:
                        if not dry_run:
                            await to_thread.run_sync(remove_tree, directory)
                        told.append(f"The directory {directory}, which belongs to no container, {_done(dry_run)}.")
        return told


def _is_wanted(found: ContainerState, living: frozenset[str] | None) -> bool:
    if _is_being_started(found) or (found.runs and found.ends_with_owner):
        return True
    return found.runs if living is None else found.sandbox in living


def _is_being_started(found: ContainerState) -> bool:
    with suppress(ValueError):
        created = datetime.fromisoformat(found.created[:19]).replace(tzinfo=UTC)
        return found.status == "created" and datetime.now(UTC) - created < _STARTING
    return False


def _old_directories(above: Path) -> list[Path]:
    oldest = time.time() - _STARTING.total_seconds()
    return [path for path in above.iterdir() if _SHORT.fullmatch(path.name) and path.lstat().st_mtime < oldest]


def _done(dry_run: bool) -> str:
    return "is left" if dry_run else "was removed"

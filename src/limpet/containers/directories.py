"""Where the files of containers lie on this host: their directories, made, found and removed. Boots nothing."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from limpet.containers.attachments import Skill, write_skills
from limpet.containers.container import SKILLS_DIRECTORY
from limpet.containers.directory_remover import DirectoryRemover, original_name
from limpet.core.box_directories import DATA, LASTING
from limpet.core.errors import PlaceUnusable
from limpet.core.ids import CONTAINER, is_id
from limpet.core.ports import Files
from limpet.runtimes.hostfiles import HostFiles
from limpet.store.containers import ContainerRecord, Containers

log = logging.getLogger("limpet.containers")


class ContainerDirectories:
    """The directories of one home's containers: below `home`, and those of new ones below `named` where that is given."""

    def __init__(self, home: Path, *, named: Path | None = None) -> None:
        self._at_home = home / "boxes"
        self._named = named
        self.remover = DirectoryRemover()

    def of(self, record: ContainerRecord) -> Path:
        """The container's directory, which may not be there yet."""
        return (self._at_home if record.directory is None else Path(record.directory)) / record.id

    def data(self, record: ContainerRecord) -> Path:
        """What its box has as /mnt/data."""
        return self.of(record) / LASTING[DATA]

    def files(self, record: ContainerRecord) -> Files:
        """Its files as they lie there, by the box's paths."""
        directory = self.of(record)
        return HostFiles({path: directory / name for path, name in LASTING.items()}, record.user_id)

    async def make(self, record: ContainerRecord) -> None:
        """See to it that it is there. OSError."""
        await to_thread.run_sync(_make, self.of(record), record.user_id)

    async def give_skills(self, record: ContainerRecord, skills: Sequence[Skill]) -> None:
        """Put these where its box has /skills, also while it lives. OSError."""
        await self.make(record)
        await to_thread.run_sync(write_skills, self.of(record) / SKILLS_DIRECTORY, skills)

    async def remove(self, record: ContainerRecord) -> None:
        """Nothing can reach its data any more, and in a moment nothing of it is left. OSError; may be repeated."""
        await self.remover.remove(self.of(record))

    async def prepare(self) -> None:
        """See to it that new ones can be made. PlaceUnusable."""
        if self._named is not None:
            await to_thread.run_sync(make_passable, self._named)

    async def sweep(self, running: Sequence[ContainerRecord], rows: Containers) -> list[str]:
        """Remove those of containers that have ended; one sentence each. Those of this home that have no row at all are left, and logged:
        the database may be another one than theirs."""
        # The runtime keeps boxes' own things there too, under names of its own.
        found = {
            directory: name
            for root in await self._roots(running)
            for directory in await to_thread.run_sync(_entries, root)
            if is_id(name := original_name(directory.name), prefix=CONTAINER)
        }
        ended = await rows.ended(found.values())
        at_home = {directory: name for directory, name in found.items() if directory.parent == self._at_home}
        moved = await rows.moved(at_home.values())
        swept = []
        for directory, name in found.items():
            if name not in ended and (name not in moved or directory not in at_home):
                continue
            what = "has ended" if name in ended else "another gateway has moved to itself"
            try:
                await self.remover.remove(directory)
                swept.append(f"Removed the directory {directory} of a container that {what}.")
            except OSError as error:
                # No reason not to serve the others; the operator reads it.
                swept.append(f"Could not remove the directory {directory} of a container that {what}: {error}.")
        known = await rows.known(at_home.values())
        unknown = [directory for directory, name in at_home.items() if name not in known]
        if unknown:
            log.warning(
                "%d directories in %s, %s among them, are of containers that the database does not know. They are left as they are: "
                "if it is the right database, remove them by hand.",
                len(unknown),
                self._at_home,
                unknown[0].name,
            )
        return swept

    async def _roots(self, running: Sequence[ContainerRecord]) -> list[Path]:
        """Where those of this home's containers lie. Another gateway's may lie beside them, but for those in the home."""
        elsewhere = {Path(record.directory) for record in running if record.directory is not None}
        if self._named is not None:
            elsewhere.add(self._named)
        return [self._at_home, *sorted(elsewhere - {self._at_home})]


def make_passable(directory: Path) -> None:
    """Make it, and see to it that boxes' users can pass through to their own. PlaceUnusable."""
    try:
        directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        above = [directory, *directory.absolute().parents] if os.geteuid() == 0 else []
        closed = next((each for each in above if not each.stat().st_mode & 0o001), None)
    except OSError as error:
        raise PlaceUnusable(
            str(directory), f"{error.strerror}.", "Make it a directory that this user can write."
        ) from error
    if closed is not None:
        raise PlaceUnusable(str(directory), f"{closed} lets no other user pass.", f"Run chmod o+x {closed}.")


def _make(directory: Path, owner: int | None) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
    for path in (directory, *(directory / name for name in LASTING.values())):
        if not path.is_dir():
            path.mkdir(mode=0o700)
            if owner is not None:
                os.chown(path, owner, owner)


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []

"""The box of each container: found again or booted when it is first needed, one at a time, and ended with all that it held.

Makes no decision about time and owners: callers have checked the container's row.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from limpet.containers.attachments import Skill, write_skills
from limpet.containers.container import SKILLS_DIRECTORY, mounts_skills, read_ref, sandbox_spec, stored_ref
from limpet.containers.file_index import FileIndex
from limpet.containers.hosted_shells import HostedShell
from limpet.containers.meter import Meter
from limpet.containers.settings import ShellLimits
from limpet.containers.watched_tree import WatchedTree
from limpet.core.box_directories import DATA, LASTING
from limpet.core.box_settings import BoxSettings
from limpet.core.clock import Clock
from limpet.core.errors import PlaceUnusable, SandboxClosed, SandboxGone
from limpet.core.ids import CONTAINER, is_id
from limpet.core.ports import Files, Offer, Runtime, Sandbox, Walls
from limpet.runtimes.hostfiles import HostFiles
from limpet.runtimes.open_beneath import remove_tree
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.settings import NO_QUOTA, QuotaSettings

ENDING = 10.0  # seconds for taking back a box that must not stay


@dataclass(slots=True, eq=False)
class Box:
    """One container's box as this process knows it.

    `boot_lock` is held while it boots or ends; `files_lock` (after `boot_lock`, never before it) while its files are compared with
    the rows, and while it ends; `turn` by a lease, where the runtime runs one command at a time; `receiving` (before `boot_lock`)
    while it is given skills and files. `known` are the files' rows once they were read, `tree` what watches the files, `shell` that
    of `sandbox` once it was made. `spoken_at` is monotonic.
    """

    boot_lock: anyio.Lock = field(default_factory=anyio.Lock)
    files_lock: anyio.Lock = field(default_factory=anyio.Lock)
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    receiving: anyio.Lock = field(default_factory=anyio.Lock)
    sandbox: Sandbox | None = None
    is_ending: bool = False
    leases: int = 0
    known: FileIndex | None = None
    tree: WatchedTree | None = None
    shell: HostedShell | None = None
    spoken_at: float = -math.inf

    def unwatch(self) -> None:
        """The next look at its files reads everything."""
        if self.tree is not None:
            self.tree.close()
        self.tree = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnteredBox:
    """A box that answers. `lost_before`: there was another one before it, which is gone with its processes."""

    sandbox: Sandbox
    lost_before: bool = False


class Boxes:
    """All boxes of one home directory. The runtime is open, and closes after this. `named` is where new containers' directories are
    to lie, where that is not the home."""

    def __init__(
        self,
        runtime: Runtime,
        containers: Containers,
        *,
        home: Path,
        named: Path | None = None,
        box: BoxSettings,
        limits: ShellLimits,
        clock: Clock,
        meter: Meter,
        quota: QuotaSettings = NO_QUOTA,
        walls: Walls = Walls(),  # noqa: B008  # frozen
    ) -> None:
        self._quota = quota
        self._walls = walls
        self.runtime = runtime
        self._meter = meter
        self._containers = containers
        self._directory = home / "boxes"
        self._named = named
        self._settings = box
        self._limits = limits
        self._clock = clock
        self._boxes: dict[str, Box] = {}

    def of(self, container_id: str) -> Box:
        """What this process knows of that container's box; the same object until the container ends."""
        return self._boxes.setdefault(container_id, Box())

    def held(self) -> frozenset[str]:
        """The containers that are leased now."""
        return frozenset(key for key, box in self._boxes.items() if box.leases > 0)

    def files(self, record: ContainerRecord) -> Files:
        """Its files: through the box where one is entered, else as they lie in its directory."""
        sandbox = self.of(record.id).sandbox
        if sandbox is not None:
            try:
                return sandbox.files
            except (SandboxGone, SandboxClosed):
                pass  # what it wrote is still in its directory
        directory = directory_of(record, self._directory)
        return HostFiles({path: directory / name for path, name in LASTING.items()}, record.user_id)

    def data_directory(self, record: ContainerRecord) -> Path | None:
        """Where its /mnt/data lies on this host; None where the runtime keeps it elsewhere."""
        if Offer.DIRECTORY not in self.runtime.offers:
            return None
        return directory_of(record, self._directory) / LASTING[DATA]

    async def enter(self, record: ContainerRecord) -> EnteredBox:
        """The box of a running container, booted if there is none that answers. Its row says which before this returns.

        Call with `boot_lock` held and the row read under it. Raises BootFailed, OfferMissing, RuntimeUnavailable, QuotaExceeded.
        """
        if record.ref is not None and record.ref.get("walls", "") != self._walls.digest:
            await self.sleep(record)  # it was booted when the operator's policy was another
        elif (sandbox := await self.find(record)) is not None:
            return EnteredBox(sandbox=sandbox)
        had_one, begun = record.boot_id is not None, self._clock.monotonic()
        try:
            booted = await self._boot(record)
        except Exception:
            self._meter.boot_failed()
            raise
        self._meter.booted(self._clock.monotonic() - begun, is_wake=had_one)
        return EnteredBox(sandbox=booted, lost_before=had_one)

    async def find(self, record: ContainerRecord) -> Sandbox | None:
        """Its box if it has one that answers, entered now if it was booted by an earlier process. Call with `boot_lock` held."""
        box = self.of(record.id)
        if box.sandbox is None:
            box.sandbox = await self._attach(record)
        if box.sandbox is None:
            return None
        try:
            await box.sandbox.touch()
        except (SandboxGone, SandboxClosed):
            # Whatever of it may still be there must not run beside the next one.
            await box.sandbox.destroy()
            box.sandbox = None
        box.spoken_at = self._clock.monotonic()
        return box.sandbox

    async def end(self, record: ContainerRecord) -> None:
        """End its box and remove its directory: nothing of its data is left. May be repeated where it failed.

        Call with both locks held.
        """
        box = self.of(record.id)
        # After a failure through a new attachment where there can be one: the old one counts as closed.
        found = await self._attach(record) if box.sandbox is None or box.is_ending else None
        box.is_ending = True
        if sandbox := found or box.sandbox:
            await sandbox.destroy()
        box.unwatch()
        await self._remove(directory_of(record, self._directory))
        # Last: until here other callers for this box must wait for the same locks.
        self._boxes.pop(record.id, None)

    async def prepare_files(self, record: ContainerRecord) -> None:
        """See to it that `files` can take an upload: through the box where it answers or must be there for it, else in the
        directory that a box will get. Call with `boot_lock` held; raises as `enter`."""
        if await self.find(record) is not None:
            return
        if Offer.DIRECTORY in self.runtime.offers:
            await to_thread.run_sync(_make, directory_of(record, self._directory), record.user_id)
        else:
            await self.enter(record)

    async def sweep(self, running: Sequence[ContainerRecord]) -> list[str]:
        """Clear what no running container owns, box or directory; one sentence each. PlaceUnusable where new ones cannot be made."""
        if self._named is not None:
            await to_thread.run_sync(make_passable, self._named)
        living = frozenset(record.id for record in running)
        # A box that no row names was being booted when the process before this one died: it cannot be attached to any more.
        cleared = await self.runtime.sweep(frozenset(record.id for record in running if record.ref is not None))
        for directory in await self._directories(running):
            # The runtime keeps boxes' own things there too, under names of its own.
            if is_id(directory.name, prefix=CONTAINER) and directory.name not in living:
                try:
                    await self._remove(directory)
                    cleared.append(f"Removed the directory {directory} of a container that has ended.")
                except OSError as error:
                    # No reason not to serve the others; the operator reads it.
                    cleared.append(
                        f"Could not remove the directory {directory} of a container that has ended: {error}."
                    )
        return cleared

    async def _directories(self, running: Sequence[ContainerRecord]) -> list[Path]:
        """Those that containers of this home may have left: all in it, and elsewhere those of ended containers that are its own. Another
        gateway's may lie beside them there."""
        elsewhere = {Path(record.directory) for record in running if record.directory is not None} - {self._directory}
        if self._named is not None:
            elsewhere.add(self._named)
        found = [directory for root in sorted(elsewhere) for directory in await to_thread.run_sync(_entries, root)]
        ours = await self._containers.ended([directory.name for directory in found])
        at_home = await to_thread.run_sync(_entries, self._directory)
        return [*at_home, *(directory for directory in found if directory.name in ours)]

    async def leave(self, *, ending: Sequence[ContainerRecord] = ()) -> None:
        """Release every box. Those of `ending` are ended, also those that an earlier process booted and that were not used since."""
        for record in ending:
            sandbox = self.of(record.id).sandbox or await self._attach(record)
            self.of(record.id).sandbox = None
            if sandbox is not None:
                await sandbox.destroy()
        for box in self._boxes.values():
            if box.sandbox is not None:
                await box.sandbox.release()

    async def keep_alive(self, record: ContainerRecord, *, every: float) -> None:
        """Touch its box if no call has reached it for `every` seconds, so that only the row's time to live decides when it ends.

        A box that is gone is no error here: the next caller that enters it is told.
        """
        box = self.of(record.id)
        if record.ref is not None and self._clock.monotonic() - box.spoken_at >= every:
            async with box.boot_lock:
                await self.find(record)

    async def _attach(self, record: ContainerRecord) -> Sandbox | None:
        offered = Offer.ATTACH in self.runtime.offers
        if record.ref is None or not offered or record.ref["runtime"] != self.runtime.name:
            return None
        try:
            return await self.runtime.attach(read_ref(record.ref))
        except SandboxGone:
            return None

    async def next_user_id(self, first: int, count: int) -> int | None:
        """A host user of its own for a new container, of these `count` ids; None where this process cannot become others or the box is
        no wall."""
        if os.geteuid() != 0 or Offer.ISOLATION not in self.runtime.offers:
            return None
        return await self._containers.next_user_id(first, count)

    async def give_skills(self, record: ContainerRecord, skills: Sequence[Skill]) -> None:
        """Show these at /skills, in a living box too. OSError."""
        await to_thread.run_sync(_make, directory_of(record, self._directory), record.user_id)
        await to_thread.run_sync(write_skills, directory_of(record, self._directory) / SKILLS_DIRECTORY, skills)

    async def sleep(self, record: ContainerRecord) -> None:
        """End its box and keep its files; the next caller that enters it is told. Call with `boot_lock` held."""
        box = self.of(record.id)
        if sandbox := box.sandbox or await self._attach(record):
            await sandbox.destroy()
        box.sandbox = None
        async with box.files_lock:
            box.unwatch()
        await self._containers.update(record.id, ref=None)

    async def _boot(self, record: ContainerRecord) -> Sandbox:
        if mounts_skills(self.runtime.offers):
            await self.give_skills(record, ())
        directory = directory_of(record, self._directory)
        spec = sandbox_spec(
            record,
            directory,
            box=self._settings,
            limits=self._limits,
            offers=self.runtime.offers,
            walls=self._walls,
        )
        sandbox = await self.runtime.create(spec)
        try:
            # Before any command starts: after a crash the row alone says where it ran.
            # The walls that were asked for: a runtime without any tells none.
            ref = stored_ref(sandbox.ref) | {"walls": self._walls.digest}
            await self._containers.booted(record, ref=ref, boot_id=sandbox.boot_id, quota=self._quota)
        except BaseException:
            with anyio.move_on_after(ENDING, shield=True):
                await sandbox.destroy()
            raise
        box = self.of(record.id)
        box.sandbox = sandbox
        if box.tree is not None:
            box.tree.is_whole = True
        box.spoken_at = self._clock.monotonic()
        return sandbox

    async def _remove(self, directory: Path) -> None:
        await to_thread.run_sync(remove_tree, directory)


def directory_of(record: ContainerRecord, home: Path) -> Path:
    """Where a container's files lie; `home` is the home's directory for those without another."""
    return (home if record.directory is None else Path(record.directory)) / record.id


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

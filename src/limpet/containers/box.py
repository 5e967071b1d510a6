"""One container's box: found again or booted when it is first needed, one at a time, and ended with all that it held.

What only one caller may do at a time is on the objects that `Box.booting` and `Box.files_locked` give. Makes no decision about time and
owners: callers have checked the container's row, and read it again once they have the lock.
"""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from limpet.containers.attachments import Skill
from limpet.containers.container import mounts_skills, read_ref, sandbox_spec, stored_ref
from limpet.containers.directories import ContainerDirectories
from limpet.containers.doors import ContainerDoors
from limpet.containers.file_index import FileIndex
from limpet.containers.hosted_shells import HostedShells
from limpet.containers.meter import Meter
from limpet.containers.settings import ShellLimits
from limpet.containers.watched_tree import WatchedTree
from limpet.core.box_settings import BoxSettings
from limpet.core.clock import Clock
from limpet.core.errors import SandboxClosed, SandboxGone
from limpet.core.ports import Files, Offer, Runtime, Sandbox
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.settings import QuotaSettings
from limpet.workspace.shell import Shell

ENDING = 10.0  # seconds for taking back a box that must not stay


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxServices:
    """What booting and ending boxes takes, the same for all of a home. The runtime is open."""

    runtime: Runtime
    rows: Containers
    directories: ContainerDirectories
    shells: HostedShells
    settings: BoxSettings
    limits: ShellLimits
    quota: QuotaSettings
    clock: Clock
    meter: Meter
    doors: ContainerDoors


@dataclass(frozen=True, slots=True, kw_only=True)
class EnteredBox:
    """A box that answers. `lost_before`: there was another one before it, which is gone with its processes."""

    shell: Shell
    lost_before: bool = False


@dataclass(slots=True, eq=False)
class FileState:
    """What this process knows of a container's files: their rows once they were read, and what watches them. Given by
    `Box.files_locked`: while it is held no other caller compares the files with the rows, and the box does not end."""

    known: FileIndex | None = None
    tree: WatchedTree | None = None

    def look_again(self) -> None:
        """The next look reads everything."""
        if self.tree is not None:
            self.tree.is_whole = True

    def unwatch(self) -> None:
        """Stop watching; the next look reads everything."""
        if self.tree is not None:
            self.tree.close()
        self.tree = None


class BootingBox:
    """A box while no other caller boots or ends it. Given by `Box.booting`."""

    def __init__(self, services: BoxServices, box: "Box") -> None:
        self.sandbox: Sandbox | None = None
        self.spoken_at = -math.inf
        self._services = services
        self._box = box
        self._shell: Shell | None = None
        self._is_ending = False

    async def enter(self, record: ContainerRecord) -> EnteredBox:
        """The shell of a running container's box, booted if there is none that answers. Its row says which before this returns.

        Raises BootFailed, OfferMissing, RuntimeUnavailable, QuotaExceeded.
        """
        sandbox, was_lost = None, False
        if self._has_other_walls(record):
            await self.sleep(record)
        else:
            sandbox = await self.find(record)
        if sandbox is None:
            sandbox, was_lost = await self._booted(record), record.boot_id is not None
        if self._shell is None:
            self._shell = await self._services.shells.open(sandbox, record.id)
        return EnteredBox(shell=self._shell, lost_before=was_lost)

    async def is_lost(self, record: ContainerRecord) -> bool:
        """Whether the box that it had is gone, so that the next caller that enters it boots another one."""
        if record.boot_id is None:
            return False
        return self._has_other_walls(record) or await self.find(record) is None

    def _has_other_walls(self, record: ContainerRecord) -> bool:
        """Whether its box was booted when the operator's policy was another."""
        return record.ref is not None and record.ref.get("walls", "") != self._services.shells.walls.digest

    async def find(self, record: ContainerRecord) -> Sandbox | None:
        """Its box if it has one that answers, entered now if it was booted by an earlier process."""
        sandbox = self.sandbox
        if sandbox is None:
            sandbox = self._hold(await self._attach(record))
        if sandbox is None:
            return None
        try:
            await sandbox.touch()
        except (SandboxGone, SandboxClosed):
            # Whatever of it may still be there must not run beside the next one.
            await self._services.doors.close(record.id)
            await sandbox.destroy()
            sandbox = self._hold(None)
        else:
            await self._services.doors.hold_again(record, sandbox)
        self.spoken_at = self._services.clock.monotonic()
        return sandbox

    async def prepare_files(self, record: ContainerRecord) -> None:
        """See to it that `Box.files` can take an upload: through the box where it answers or must be there for it, else in the
        directory that a box will get. Raises as `enter`."""
        if await self.find(record) is not None:
            return
        if Offer.DIRECTORY in self._services.runtime.offers:
            await self._services.directories.make(record)
        else:
            await self.enter(record)

    async def give_skills(self, record: ContainerRecord, skills: Sequence[Skill]) -> None:
        """Show these at /skills, in a living box too. OSError."""
        await self._services.directories.give_skills(record, skills)

    async def sleep(self, record: ContainerRecord) -> None:
        """End its box and keep its files; the next caller that enters it is told."""
        await self.destroy(record)
        async with self._box.files_locked() as files:
            files.unwatch()
        await self._services.rows.update(record.id, ref=None)

    async def destroy(self, record: ContainerRecord) -> None:
        """End its box, also one that an earlier process booted and that was not used since."""
        await self._services.doors.close(record.id)
        if sandbox := self.sandbox or await self._attach(record):
            await sandbox.destroy()
        self._hold(None)

    async def end(self, record: ContainerRecord, files: FileState) -> None:
        """End its box and remove its directory: nothing of its data is left. May be repeated where it failed. `files` are its own,
        locked."""
        # After a failure through a new attachment where there can be one: the old one counts as closed.
        found = await self._attach(record) if self.sandbox is None or self._is_ending else None
        self._is_ending = True
        await self._services.doors.close(record.id)
        if sandbox := found or self.sandbox:
            await sandbox.destroy()
        files.unwatch()
        await self._services.directories.remove(record)
        self._services.doors.secrets.forget(record.id)
        # Last: until here other callers for this box must wait for the same locks.
        self._box.end()

    def _hold(self, sandbox: Sandbox | None) -> Sandbox | None:
        self.sandbox, self._shell = sandbox, None
        return sandbox

    async def _attach(self, record: ContainerRecord) -> Sandbox | None:
        runtime = self._services.runtime
        if record.ref is None or Offer.ATTACH not in runtime.offers or record.ref["runtime"] != runtime.name:
            return None
        try:
            return await runtime.attach(read_ref(record.ref))
        except SandboxGone:
            return None

    async def _booted(self, record: ContainerRecord) -> Sandbox:
        clock, meter = self._services.clock, self._services.meter
        begun = clock.monotonic()
        try:
            sandbox = await self._boot(record)
        except Exception:
            meter.boot_failed()
            raise
        meter.booted(clock.monotonic() - begun, is_wake=record.boot_id is not None)
        return sandbox

    async def _boot(self, record: ContainerRecord) -> Sandbox:
        services, walls = self._services, self._services.shells.walls
        if mounts_skills(services.runtime.offers):
            await self.give_skills(record, ())
        spec = sandbox_spec(
            record,
            services.directories.of(record),
            box=services.settings,
            limits=services.limits,
            offers=services.runtime.offers,
            walls=walls,
            has_network=services.doors.grants.grants_something,
        )
        sandbox = await services.runtime.create(spec)
        try:
            # Before any command starts: after a crash the row alone says where it ran.
            # The walls that were asked for: a runtime without any tells none.
            ref = stored_ref(sandbox.ref) | {"walls": walls.digest}
            await services.rows.booted(record, ref=ref, boot_id=sandbox.boot_id, quota=services.quota)
            await services.doors.hold(record, sandbox)
        except BaseException:
            with anyio.move_on_after(ENDING, shield=True):
                await services.doors.close(record.id)
                await sandbox.destroy()
            raise
        self._hold(sandbox)
        self._box.look_again()
        self.spoken_at = services.clock.monotonic()
        return sandbox


class Box:
    """One container's box as this process knows it, until the container has ended.

    A caller that needs both locks takes `booting` first. `turn` is held by a lease, where the runtime runs one command at a time,
    `receiving` (before `booting`) while the container is given skills and files.
    """

    def __init__(self, services: BoxServices, *, forget: Callable[[], object]) -> None:
        self.leases = 0
        self.has_ended = False
        self._forget = forget
        self.turn = anyio.Lock()
        self.receiving = anyio.Lock()
        self._services = services
        self._boot_lock, self._booting = anyio.Lock(), BootingBox(services, self)
        self._files_lock, self._files = anyio.Lock(), FileState()

    @asynccontextmanager
    async def booting(self) -> AsyncIterator[BootingBox]:
        """For the caller that boots, finds or ends it."""
        async with self._boot_lock:
            yield self._booting

    @asynccontextmanager
    async def files_locked(self) -> AsyncIterator[FileState]:
        """For the caller that compares its files with their rows, or ends it."""
        async with self._files_lock:
            yield self._files

    @property
    def is_booting(self) -> bool:
        """Whether a caller boots, finds or ends it now."""
        return self._boot_lock.locked()

    @property
    def sandbox(self) -> Sandbox | None:
        """Its sandbox, as far as it was entered by this process. It may have ended."""
        return self._booting.sandbox

    @property
    def spoken_at(self) -> float:
        """When a call reached it last, on the monotonic clock."""
        return self._booting.spoken_at

    def look_again(self) -> None:
        """The next look at its files reads everything; a look that is under way may be that one."""
        self._files.look_again()

    def files(self, record: ContainerRecord) -> Files:
        """Its files: through the box where one is entered, else as they lie in its directory."""
        if self.sandbox is not None:
            try:
                return self.sandbox.files
            except (SandboxGone, SandboxClosed):
                pass  # what it wrote is still in its directory
        return self._services.directories.files(record)

    def data_directory(self, record: ContainerRecord) -> Path | None:
        """Where its /mnt/data lies on this host; None where the runtime keeps it elsewhere."""
        if Offer.DIRECTORY not in self._services.runtime.offers:
            return None
        return self._services.directories.data(record)

    def may_have_changed(self, record: ContainerRecord) -> bool:
        """Whether commands may have written since the last capture: there is a box, here or of an earlier process."""
        if record.status != "running":
            return False
        return self.sandbox is not None or (record.ref is not None and self.data_directory(record) is not None)

    def end(self) -> None:
        """The container has ended: callers that ask for its box from now on get another one, which has nothing."""
        self.has_ended = True
        self._forget()

    async def release(self) -> None:
        """Let go of it; it lives on."""
        if self.sandbox is not None:
            await self.sandbox.release()

"""Captures: what changed among a container's files since the last one is seen and recorded.

Costs what changed. All that takes time in proportion to a tree happens in a few threads of its own.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import anyio
from anyio import CapacityLimiter, to_thread

from limpet.containers.box import Box, FileState
from limpet.containers.boxes import Boxes
from limpet.containers.changes import Changes, Scan, compare
from limpet.containers.file_copies import FileCopies, FileCopy
from limpet.containers.file_index import FileIndex
from limpet.containers.file_recorder import FileOrigin, FileRecorder, RecordedLook
from limpet.containers.generated import GeneratedTrees
from limpet.containers.meter import Meter
from limpet.containers.settings import ContainerSettings
from limpet.containers.tree_watcher import TreeWatcher
from limpet.containers.watched_tree import WatchedTree
from limpet.core.box_directories import DATA
from limpet.core.clock import Clock
from limpet.core.errors import FileError, FileMissing, SandboxClosed, SandboxGone, StoreError
from limpet.core.ports import Files, FileStat
from limpet.store.containers import ContainerRecord
from limpet.store.files import ContainerFileRecord, ContainerFiles
from limpet.store.settings import NO_QUOTA, QuotaSettings

LAST_SECONDS = 2.0
THREADS = 4  # that look through trees at once, of all containers


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureResult:
    """What a capture recorded: the rows of files whose content is new, up to `max_files_per_exec` of them; `more` were recorded beside
    them. `left` is how many the next capture will take, since this one broke off; `trouble` is a sentence on why it did, or on what
    there is no room for, None if all is well."""

    files: tuple[ContainerFileRecord, ...] = ()
    more: int = 0
    left: int = 0
    trouble: str | None = None


class Captures:
    """Records the files of all containers; `locked` is the one way to them. `watching` is open while this is used, or every capture
    reads everything."""

    def __init__(
        self,
        rows: ContainerFiles,
        boxes: Boxes,
        *,
        copies: FileCopies,
        settings: ContainerSettings,
        clock: Clock,
        meter: Meter,
        watching: TreeWatcher,
        quota: QuotaSettings = NO_QUOTA,
    ) -> None:
        self.rows = rows
        self.copies = copies
        self.recorder = FileRecorder(rows, copies=copies, settings=settings, clock=clock, quota=quota)
        self.clock = clock
        self.meter = meter
        self._boxes = boxes
        self._settings = settings
        self._watching = watching
        self._most_known = min(settings.max_entries, quota.max_files_per_container or settings.max_entries)
        self._generated = GeneratedTrees(
            frozenset(settings.generated_directories), frozenset(settings.generated_markers)
        )
        self._threads = CapacityLimiter(THREADS)

    @asynccontextmanager
    async def locked(self, container_id: str) -> AsyncIterator["LockedFiles"]:
        """The files of a container, for this caller alone."""
        box = self._boxes.of(container_id)
        async with box.files_locked() as state:
            yield LockedFiles(self, container_id, box, state)

    async def read(self, container_id: str) -> FileIndex:
        """What is recorded of a container's files."""
        rows = await self.rows.of_container(container_id)
        return await to_thread.run_sync(FileIndex, rows, limiter=self._threads)

    async def look(self, record: ContainerRecord, box: Box, state: FileState) -> Scan:
        """What may have changed among its files since the last look. FileError."""
        directory = box.data_directory(record)
        if directory is None:
            return await self._listed(box.files(record))
        if state.tree is None:
            state.tree = WatchedTree(
                self._watching, directory, DATA, most_entries=self._settings.max_entries, generated=self._generated
            )
        try:
            return await to_thread.run_sync(state.tree.look, limiter=self._threads)
        except OSError as error:
            raise FileError(DATA, f"{DATA} could not be looked through: {error.strerror}.") from error

    async def _listed(self, files: Files) -> Scan:
        """A look through the files of a runtime that keeps them elsewhere."""
        most = self._settings.max_entries
        try:
            found = await files.list(DATA, recursive=True, limit=most + 1)
        except FileMissing:
            found = []  # a command removed the directory itself
        kinds = {stat.path: stat.kind == "file" for stat in found[:most]}
        seen = self._generated.outside(kinds, top=DATA)
        is_over = len(found) > most
        return Scan(
            files=tuple(stat for stat in found if stat.path in seen and stat.kind == "file"),
            directories={} if is_over else None,
            is_over=is_over,
        )

    async def compared(self, known: FileIndex, look: Scan, *, counts_only: bool = False) -> Changes:
        """What a look shows against what is recorded; with `counts_only` what is gone, and nothing else of use."""
        most = 0 if counts_only else self._settings.max_files_per_exec
        return await to_thread.run_sync(
            partial(compare, known, look, most=most, most_known=None if counts_only else self._most_known),
            limiter=self._threads,
        )

    def no_room(self, look: Scan, changes: Changes) -> str | None:
        """A sentence on what a capture left out, if it did."""
        most = self._settings.max_entries
        if look.is_over or (changes.refused and self._most_known == most):
            return (
                f"there are more than {most} files, directories and links in {DATA}; what is beyond is not looked at. Delete some, "
                "or keep them elsewhere."
            )
        if changes.refused:
            return (
                f"the quota of {self._most_known} files in this container is reached, so {len(changes.refused)} new ones are not; "
                "delete some."
            )
        return None


class LockedFiles:
    """One container's files while no other caller compares them with their rows, and their box does not end. From `Captures.locked`.

    Raises, in every method, StoreError where what is known cannot be read.
    """

    def __init__(self, captures: Captures, container_id: str, box: Box, state: FileState) -> None:
        self.state = state
        self._captures = captures
        self._container_id = container_id
        self._box = box

    async def capture(
        self, record: ContainerRecord, *, response_id: str | None, exec_id: str | None = None
    ) -> CaptureResult:
        """Record the files that changed since the last capture, as written by that response and command. Raises FileError where they
        cannot be looked through."""
        if self._box.has_ended:
            return CaptureResult()  # while this waited for the lock
        captures = self._captures
        begun = captures.clock.monotonic()
        taking = await self._recording(record, response_id, exec_id)
        try:
            look = await captures.look(record, self._box, self.state)
        except (SandboxGone, SandboxClosed):
            return CaptureResult()  # the next lease gets a new box, and its first capture sees what is left
        try:
            captured = await self._take(taking, look)
        except BaseException:
            self.state.look_again()
            raise
        captures.meter.captured(captures.clock.monotonic() - begun)
        return captured

    async def capture_last(self, record: ContainerRecord) -> None:
        """What detached processes wrote is listed before the container's data goes, as far as that can be done at once."""
        with suppress(StoreError, FileError), anyio.move_on_after(LAST_SECONDS):
            if self._box.may_have_changed(record):
                await self.capture(record, response_id=None)

    async def count_missing(self, record: ContainerRecord) -> int:
        """How many recorded files are no longer there. FileError."""
        known = await self.known()
        self.state.look_again()
        look = await self._captures.look(record, self._box, self.state)
        self.state.look_again()
        return len((await self._captures.compared(known, look, counts_only=True)).gone)

    async def known(self) -> FileIndex:
        """What is recorded of them: rows by path."""
        if self.state.known is None:
            self.state.known = await self._captures.read(self._container_id)
        return self.state.known

    async def take_again(self, record: ContainerRecord, stat: FileStat, row: ContainerFileRecord) -> None:
        """Record one file as it is now, with the origin that its row has. FileError."""
        taking = await self._recording(record, row.response_id, row.exec_id)
        await self._captures.recorder.take_one(taking, stat)

    async def store(self, record: ContainerRecord, stat: FileStat, copy: FileCopy) -> ContainerFileRecord:
        """The row of a file that a client gave, stored. QuotaExceeded."""
        known = await self.known()
        row = known[stat.path] = await self._captures.recorder.store(record, stat, copy)
        return row

    async def forget(self, row: ContainerFileRecord) -> None:
        """Its row goes; the file is gone already."""
        await self._captures.rows.delete(row.container_id, row.id)
        self._captures.copies.nudge()
        (await self.known()).pop(row.path, None)

    async def _recording(self, record: ContainerRecord, response_id: str | None, exec_id: str | None) -> RecordedLook:
        files, known = self._box.files(record), await self.known()
        origin = FileOrigin(source="assistant", response_id=response_id, exec_id=exec_id)
        return RecordedLook(record=record, files=files, known=known, origin=origin)

    async def _take(self, taking: RecordedLook, look: Scan) -> CaptureResult:
        changes = await self._captures.compared(taking.known, look)
        try:
            await self._captures.recorder.take(taking, changes)
        except StoreError as error:
            self.state.look_again()
            left = len(changes.touched) + len(changes.more) - taking.done
            return CaptureResult(files=tuple(taking.rows), left=left, trouble=error.message)
        if self.state.tree is not None:
            self.state.tree.again(taking.unread)
        return CaptureResult(
            files=tuple(taking.rows), more=len(changes.more), trouble=self._captures.no_room(look, changes)
        )

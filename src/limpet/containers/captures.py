"""Captures: what changed among a container's files is recorded; a bounded part of it is hashed, and copied where the settings say so.

Costs what changed. A capture that breaks off loses nothing: what it did not record the next one sees. All that takes time in
proportion to a tree happens in a few threads of its own.
"""

import posixpath
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from anyio import CapacityLimiter, to_thread

from limpet.containers.boxes import Box, Boxes
from limpet.containers.changes import Changes, Scan, compare, content_type
from limpet.containers.file_copies import NOT_KEPT, FileCopies, FileCopy
from limpet.containers.file_index import FileIndex
from limpet.containers.generated import GeneratedTrees
from limpet.containers.meter import Meter
from limpet.containers.settings import ContainerSettings
from limpet.containers.tree_watcher import TreeWatcher
from limpet.containers.watched_tree import WatchedTree
from limpet.core.box_directories import DATA
from limpet.core.clock import Clock
from limpet.core.errors import FileError, FileMissing, SandboxClosed, SandboxGone, StoreError
from limpet.core.ids import CONTAINER_FILE, new_id
from limpet.core.ports import Files, FileStat
from limpet.store.containers import ContainerRecord
from limpet.store.files import ContainerFileRecord, ContainerFiles, FileSource
from limpet.store.settings import NO_QUOTA, QuotaSettings

LOOKS = 3  # at a file that changes while it is read; then it is taken as it was read last
TOGETHER = 256  # rows in one transaction
MOST_HASHED = 1 << 30  # bytes that one capture reads
THREADS = 4  # that look through trees at once, of all containers
# The kernel's clock for files stands still for up to 10 ms (at 100 Hz): two writes in one such moment cannot be told apart.
STILL_NS = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureResult:
    """What a capture recorded: the rows of files whose content is new, up to `max_files_per_exec` of them; `more` were recorded beside
    them. `left` is how many the next capture will take, since this one broke off; `trouble` is a sentence on why it did, or on what
    there is no room for, None if all is well."""

    files: tuple[ContainerFileRecord, ...] = ()
    more: int = 0
    left: int = 0
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class _CapturedFile:
    """What is to be stored of a file. `is_new`: its content is."""

    row: ContainerFileRecord
    is_new: bool


@dataclass(slots=True, kw_only=True)
class _Capture:
    """A capture under way. `unread` are the directories of files that went away or cannot be read: the next one looks there again."""

    record: ContainerRecord
    files: Files
    known: FileIndex
    response_id: str | None
    before: int
    rows: list[ContainerFileRecord] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    done: int = 0
    hashable: int = MOST_HASHED


class Captures:
    """Records the files of all containers. `watching` is open while this is used, or every capture reads everything."""

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
        self._rows = rows
        self._boxes = boxes
        self._copies = copies
        self._settings = settings
        self._clock = clock
        self._meter = meter
        self._watching = watching
        self._quota = quota
        self._most_known = min(settings.max_entries, quota.max_files_per_container or settings.max_entries)
        self._generated = GeneratedTrees(
            frozenset(settings.generated_directories), frozenset(settings.generated_markers)
        )
        self._threads = CapacityLimiter(THREADS)

    async def capture(self, record: ContainerRecord, *, response_id: str | None) -> CaptureResult:
        """Call with its files lock held. Raises StoreError where not even what is known can be read, FileError where the files cannot."""
        begun = self._clock.monotonic()
        box = self._boxes.of(record.id)
        files = self._boxes.files(record)
        known = await self.known(record.id)
        taking = _Capture(record=record, files=files, known=known, response_id=response_id, before=time.time_ns())
        try:
            look = await self._look(record, box, files)
        except (SandboxGone, SandboxClosed):
            return CaptureResult()  # the next lease gets a new box, and its first capture sees what is left
        try:
            captured = await self._take(taking, look)
        except BaseException:
            self._look_again(box)
            raise
        self._meter.captured(self._clock.monotonic() - begun)
        return captured

    async def known(self, container_id: str) -> FileIndex:
        """What is recorded of a container's files. Call with its files lock held."""
        box = self._boxes.of(container_id)
        if box.known is None:
            rows = await self._rows.of_container(container_id)
            box.known = await to_thread.run_sync(FileIndex, rows, limiter=self._threads)
        return box.known

    async def count_missing(self, record: ContainerRecord) -> int:
        """How many recorded files are no longer there. Call with its files lock held. FileError, StoreError."""
        box = self._boxes.of(record.id)
        known = await self.known(record.id)
        if box.tree is not None:
            box.tree.is_whole = True
        look = await self._look(record, box, self._boxes.files(record))
        self._look_again(box)
        changes = await to_thread.run_sync(lambda: compare(known, look, most=0), limiter=self._threads)
        return len(changes.gone)

    async def record(
        self, record: ContainerRecord, files: Files, stat: FileStat, *, response_id: str | None
    ) -> ContainerFileRecord | None:
        """Take one file as it is now; its row if its content is new. Call with its files lock held. FileError, StoreError."""
        known = await self.known(record.id)
        taking = _Capture(record=record, files=files, known=known, response_id=response_id, before=time.time_ns())
        return await self._take_one(taking, stat)

    async def store(self, record: ContainerRecord, stat: FileStat, copy: FileCopy) -> ContainerFileRecord:
        """The row of a file that a client gave, stored. Call with its files lock held. StoreError, QuotaExceeded."""
        # No command could write the file before it was renamed into place, so its content at that time is certain.
        row = self._row(record, stat, copy, source="user", response_id=None, before=stat.changed + STILL_NS + 1)
        known = await self.known(record.id)
        row = known[row.path] = await self._rows.upsert(row, quota=self._quota)
        return row

    async def _take_one(self, taking: "_Capture", stat: FileStat) -> ContainerFileRecord | None:
        async with self._read(taking, stat) as read:
            row = taking.known[stat.path] = await self._rows.upsert(read.row)
            return row if read.is_new else None

    @asynccontextmanager
    async def _read(self, taking: "_Capture", stat: FileStat) -> AsyncIterator["_CapturedFile"]:
        """What there is to store of a file; the block stores it, or a copy that was made goes. FileError."""
        before = taking.before
        for look in range(LOOKS):
            if stat.size > self._settings.max_bytes_per_file:
                yield self._compared(taking, stat, NOT_KEPT, before)
                return
            taking.hashable -= stat.size
            if taking.hashable < 0:
                yield _CapturedFile(self._unhashed(taking, stat), is_new=True)
                return
            tenant = taking.record.tenant
            async with self._copies.taken(taking.files, stat.path, size=stat.size, tenant=tenant) as copy:
                now = await taking.files.stat(stat.path)
                if now == stat or look == LOOKS - 1:
                    yield self._compared(taking, stat, copy, before)
                    return
            if now.kind != "file":
                raise FileMissing(stat.path)
            stat, before = now, time.time_ns()

    def _compared(self, taking: "_Capture", stat: FileStat, copy: FileCopy, before: int) -> "_CapturedFile":
        was = taking.known.get(stat.path)
        if was is None or was.sha256 != copy.sha256 or (copy is NOT_KEPT and _facts(was) != _facts(stat)):
            response_id = taking.response_id
            row = self._row(taking.record, stat, copy, source="assistant", response_id=response_id, before=before)
            return _CapturedFile(row, is_new=True)
        same = copy if copy is NOT_KEPT else replace(copy, blob=was.blob or copy.blob)
        row = self._row(taking.record, stat, same, source=was.source, response_id=was.response_id, before=before)
        return _CapturedFile(row, is_new=False)

    def _row(
        self,
        record: ContainerRecord,
        stat: FileStat,
        copy: FileCopy,
        *,
        source: FileSource,
        response_id: str | None,
        before: int,
    ) -> ContainerFileRecord:
        return ContainerFileRecord(
            id=new_id(CONTAINER_FILE),
            tenant=record.tenant,
            container_id=record.id,
            path=stat.path,
            bytes=stat.size if copy is NOT_KEPT else copy.bytes,
            sha256=copy.sha256,
            content_type=content_type(stat.path),
            source=source,
            created_at=self._clock.now(),
            modified=stat.modified,
            identity=stat.identity,
            # A file that changed a moment ago may change once more in the same moment: it is not taken for known.
            changed=stat.changed if stat.changed < before - STILL_NS else 0,
            too_large=copy is NOT_KEPT,
            response_id=response_id,
            blob=copy.blob,
        )

    async def _look(self, record: ContainerRecord, box: Box, files: Files) -> Scan:
        directory = self._boxes.data_directory(record)
        if directory is None:
            return await self._listed(files)
        if box.tree is None:
            box.tree = WatchedTree(
                self._watching, directory, DATA, most_entries=self._settings.max_entries, generated=self._generated
            )
        try:
            return await to_thread.run_sync(box.tree.look, limiter=self._threads)
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

    async def _take(self, taking: "_Capture", look: Scan) -> CaptureResult:
        changes = await to_thread.run_sync(
            partial(compare, taking.known, look, most=self._settings.max_files_per_exec, most_known=self._most_known),
            limiter=self._threads,
        )
        box = self._boxes.of(taking.record.id)
        try:
            await self._drop(taking.record.id, taking.known, changes.gone)
            if self._copies.are_made:
                await self._take_each(taking, changes.touched)
            else:
                await self._take_together(taking, changes.touched)
            await self._take_unread(taking, changes.more)
        except StoreError as error:
            self._look_again(box)
            left = len(changes.touched) + len(changes.more) - taking.done
            return CaptureResult(files=tuple(taking.rows), left=left, trouble=error.message)
        if box.tree is not None:
            box.tree.again(taking.unread)
        return CaptureResult(
            files=tuple(taking.rows),
            more=len(changes.more),
            trouble=self._no_room(look, changes),
        )

    def _no_room(self, look: Scan, changes: Changes) -> str | None:
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

    async def _take_unread(self, taking: "_Capture", stats: Sequence[FileStat]) -> None:
        """Record them as they were seen. They are hashed when they are downloaded, or change."""
        for start in range(0, len(stats), TOGETHER):
            rows = await self._rows.upsert_all(
                [self._unhashed(taking, stat) for stat in stats[start : start + TOGETHER]]
            )
            for row in rows:
                taking.known[row.path] = row
            taking.done += len(rows)

    def _unhashed(self, taking: "_Capture", stat: FileStat) -> ContainerFileRecord:
        """Without a hash there is nothing to doubt about the moment of its record."""
        copy = (
            NOT_KEPT
            if stat.size > self._settings.max_bytes_per_file
            else FileCopy(sha256="", bytes=stat.size, blob=None)
        )
        before = stat.changed + STILL_NS + 1
        return self._row(taking.record, stat, copy, source="assistant", response_id=taking.response_id, before=before)

    async def _take_each(self, taking: "_Capture", stats: Sequence[FileStat]) -> None:
        """One after the other: a row is stored while its copy is at hand."""
        for stat in stats:
            try:
                row = await self._take_one(taking, stat)
            except FileError:
                taking.unread.add(posixpath.dirname(stat.path))
            else:
                taking.rows += [row] if row is not None else []
            taking.done += 1

    async def _take_together(self, taking: "_Capture", stats: Sequence[FileStat]) -> None:
        """All rows in one transaction, a bounded number at once."""
        for start in range(0, len(stats), TOGETHER):
            some = stats[start : start + TOGETHER]
            reads = []
            for stat in some:
                try:
                    async with self._read(taking, stat) as read:
                        reads.append(read)
                except FileError:
                    taking.unread.add(posixpath.dirname(stat.path))
            rows = await self._rows.upsert_all([read.row for read in reads])
            for row in rows:
                taking.known[row.path] = row
            taking.rows += [row for row, read in zip(rows, reads, strict=True) if read.is_new]
            taking.done += len(some)

    async def _drop(self, container_id: str, known: FileIndex, paths: tuple[str, ...]) -> None:
        for start in range(0, len(paths), TOGETHER):
            some = paths[start : start + TOGETHER]
            await self._rows.delete_paths(container_id, some)
            for path in some:
                del known[path]
        if paths:
            self._copies.nudge()

    def _look_again(self, box: Box) -> None:
        if box.tree is not None:
            box.tree.is_whole = True


def _facts(file: FileStat | ContainerFileRecord) -> tuple[int, int, int]:
    size = file.size if isinstance(file, FileStat) else file.bytes
    return size, file.modified, file.identity

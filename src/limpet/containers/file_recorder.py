"""Turns what was seen of a container's files into rows: hashed, and copied where the settings say so, a bounded part of them.

A recording that breaks off loses nothing: what it did not record the next one sees.
"""

import posixpath
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from anyio import to_thread

from limpet.containers.changes import Changes, content_type
from limpet.containers.file_copies import NOT_KEPT, FileCopies, FileCopy
from limpet.containers.file_index import FileIndex
from limpet.containers.settings import ContainerSettings
from limpet.core.clock import Clock
from limpet.core.errors import FileError, FileMissing
from limpet.core.ids import CONTAINER_FILE, new_id
from limpet.core.ports import Files, FileStat
from limpet.store.containers import ContainerRecord
from limpet.store.files import ContainerFileRecord, ContainerFiles, FileSource
from limpet.store.settings import NO_QUOTA, QuotaSettings

LOOKS = 3  # at a file that changes while it is read; then it is taken as it was read last
TOGETHER = 256  # rows in one transaction
MOST_HASHED = 1 << 30  # bytes that one capture reads
# The kernel's clock for files stands still for up to 10 ms (at 100 Hz): two writes in one such moment cannot be told apart.
STILL_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class _CapturedFile:
    """What is to be stored of a file. `is_new`: its content is."""

    row: ContainerFileRecord
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOrigin:
    """Where a file's content comes from. `exec_id` is the command after which it was seen; both ids are None where that is not known."""

    source: FileSource
    response_id: str | None = None
    exec_id: str | None = None


@dataclass(slots=True, kw_only=True)
class RecordedLook:
    """What is recorded of one look: `rows` are those whose content is new, `done` counts what was taken. `known` is kept up to date.
    `unread` are the directories of files that went away or cannot be read: the next look reads them again."""

    record: ContainerRecord
    files: Files
    known: FileIndex
    origin: FileOrigin
    before: int = field(default_factory=time.time_ns)
    rows: list[ContainerFileRecord] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    done: int = 0
    hashable: int = MOST_HASHED


class FileRecorder:
    """Of all containers. `captures.LockedFiles`, of which there is one at a time for a container, is its only caller."""

    def __init__(
        self,
        rows: ContainerFiles,
        *,
        copies: FileCopies,
        settings: ContainerSettings,
        clock: Clock,
        quota: QuotaSettings = NO_QUOTA,
    ) -> None:
        self._rows = rows
        self._copies = copies
        self._settings = settings
        self._clock = clock
        self._quota = quota

    async def take(self, taking: RecordedLook, changes: Changes) -> None:
        """Record all that changed. StoreError."""
        await self._drop(taking, changes.gone)
        if self._copies.are_made:
            await self._take_each(taking, changes.touched)
        else:
            await self._take_together(taking, changes.touched)
        await self._take_unread(taking, changes.more)

    async def store(self, record: ContainerRecord, stat: FileStat, copy: FileCopy) -> ContainerFileRecord:
        """The row of a file that a client gave, stored. StoreError, QuotaExceeded."""
        # No command could write the file before it was renamed into place, so its content at that time is certain.
        row = self._row(record, stat, copy, origin=FileOrigin(source="user"), before=stat.changed + STILL_NS + 1)
        return await self._rows.upsert(row, quota=self._quota)

    async def take_one(self, taking: RecordedLook, stat: FileStat) -> ContainerFileRecord | None:
        """Take one file as it is now; its row if its content is new. FileError, StoreError."""
        async with self._read(taking, stat) as read:
            row = taking.known[stat.path] = await self._rows.upsert(read.row)
            return row if read.is_new else None

    @asynccontextmanager
    async def _read(self, taking: RecordedLook, stat: FileStat) -> AsyncIterator[_CapturedFile]:
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

    def _compared(self, taking: RecordedLook, stat: FileStat, copy: FileCopy, before: int) -> _CapturedFile:
        was = taking.known.get(stat.path)
        if was is None or was.sha256 != copy.sha256 or (copy is NOT_KEPT and _facts(was) != _facts(stat)):
            row = self._row(taking.record, stat, copy, origin=taking.origin, before=before)
            return _CapturedFile(row, is_new=True)
        same = copy if copy is NOT_KEPT else replace(copy, blob=was.blob or copy.blob)
        origin = FileOrigin(source=was.source, response_id=was.response_id, exec_id=was.exec_id)
        row = self._row(taking.record, stat, same, origin=origin, before=before)
        return _CapturedFile(row, is_new=False)

    def _row(
        self,
        record: ContainerRecord,
        stat: FileStat,
        copy: FileCopy,
        *,
        origin: FileOrigin,
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
            source=origin.source,
            created_at=self._clock.now(),
            modified=stat.modified,
            identity=stat.identity,
            # A file that changed a moment ago may change once more in the same moment: it is not taken for known.
            changed=stat.changed if stat.changed < before - STILL_NS else 0,
            too_large=copy is NOT_KEPT,
            response_id=origin.response_id,
            exec_id=origin.exec_id,
            blob=copy.blob,
        )

    async def _take_unread(self, taking: RecordedLook, stats: Sequence[FileStat]) -> None:
        """Record them as they were seen. They are hashed when they are downloaded, or change."""
        for start in range(0, len(stats), TOGETHER):
            # In a thread: there may be 50,000 in all, and making some hundred takes milliseconds.
            made = await to_thread.run_sync(self._all_unhashed, taking, stats[start : start + TOGETHER])
            rows = await self._rows.upsert_all(made)
            for row in rows:
                taking.known[row.path] = row
            taking.done += len(rows)

    def _all_unhashed(self, taking: RecordedLook, stats: Sequence[FileStat]) -> list[ContainerFileRecord]:
        return [self._unhashed(taking, stat) for stat in stats]

    def _unhashed(self, taking: RecordedLook, stat: FileStat) -> ContainerFileRecord:
        """Without a hash there is nothing to doubt about the moment of its record."""
        copy = (
            NOT_KEPT
            if stat.size > self._settings.max_bytes_per_file
            else FileCopy(sha256="", bytes=stat.size, blob=None)
        )
        before = stat.changed + STILL_NS + 1
        return self._row(taking.record, stat, copy, origin=taking.origin, before=before)

    async def _take_each(self, taking: RecordedLook, stats: Sequence[FileStat]) -> None:
        """One after the other: a row is stored while its copy is at hand."""
        for stat in stats:
            try:
                row = await self.take_one(taking, stat)
            except FileError:
                taking.unread.add(posixpath.dirname(stat.path))
            else:
                taking.rows += [row] if row is not None else []
            taking.done += 1

    async def _take_together(self, taking: RecordedLook, stats: Sequence[FileStat]) -> None:
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

    async def _drop(self, taking: RecordedLook, paths: tuple[str, ...]) -> None:
        for start in range(0, len(paths), TOGETHER):
            some = paths[start : start + TOGETHER]
            await self._rows.delete_paths(taking.record.id, some)
            for path in some:
                del taking.known[path]
        if paths:
            self._copies.nudge()


def _facts(file: FileStat | ContainerFileRecord) -> tuple[int, int, int]:
    size = file.size if isinstance(file, FileStat) else file.bytes
    return size, file.modified, file.identity

"""Captures: what changed among a container's files is hashed, copied where the settings say so, and recorded.

Costs what changed. A capture that breaks off loses nothing: what it did not record the next one sees.
"""

import posixpath
import time
from dataclasses import dataclass
from typing import Literal

from anyio import to_thread

from limpet.containers.boxes import Box, Boxes
from limpet.containers.changes import Look, compare, content_type
from limpet.containers.container import ContainerSettings
from limpet.containers.copying import DATA, NOT_KEPT, Copies, Copy
from limpet.containers.known import Known
from limpet.containers.meter import Meter
from limpet.containers.watching import Watching
from limpet.core.clock import Clock
from limpet.core.errors import FileError, FileMissing, SandboxClosed, SandboxGone, StoreError
from limpet.core.ids import CONTAINER_FILE, new_id
from limpet.core.ports import Files, FileStat
from limpet.store.containers import ContainerRecord
from limpet.store.files import ContainerFileRecord, ContainerFiles

Source = Literal["user", "assistant"]
LOOKS = 3  # at a file that changes while it is read; then it is taken as it was read last
# The kernel's clock for files stands still for up to 10 ms (at 100 Hz): two writes in one such moment cannot be told apart.
STILL_NS = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What a capture recorded: the rows of files whose content is new, by path. `left` is how many more changed that the next capture
    will take; `trouble` is a sentence on why it broke off, None if it did not."""

    files: tuple[ContainerFileRecord, ...] = ()
    left: int = 0
    trouble: str | None = None


class Captures:
    """Records the files of all containers. `watching` is open while this is used, or every capture reads everything."""

    def __init__(
        self,
        rows: ContainerFiles,
        boxes: Boxes,
        *,
        copies: Copies,
        settings: ContainerSettings,
        clock: Clock,
        meter: Meter,
        watching: Watching,
    ) -> None:
        self._rows = rows
        self._boxes = boxes
        self._copies = copies
        self._settings = settings
        self._clock = clock
        self._meter = meter
        self._watching = watching

    async def capture(self, record: ContainerRecord, *, response_id: str | None) -> Captured:
        """Call with its box's shelf held. Raises StoreError where not even what is known can be read, FileError where the files cannot."""
        begun = self._clock.monotonic()
        box = self._boxes.of(record.id)
        files = self._boxes.files(record)
        known = await self.known(record.id)
        looked_at = time.time_ns()
        try:
            look = await self._look(record, box, files)
        except (SandboxGone, SandboxClosed):
            return Captured()  # the next lease gets a new box, and its first capture sees what is left
        try:
            captured = await self._take(record, files, known, look, response_id=response_id, before=looked_at)
        except BaseException:
            self._look_again(box)
            raise
        self._meter.captured(self._clock.monotonic() - begun)
        return captured

    async def known(self, container_id: str) -> Known:
        """What is recorded of a container's files. Call with its box's shelf held."""
        box = self._boxes.of(container_id)
        if box.known is None:
            box.known = Known(await self._rows.of_container(container_id))
        return box.known

    async def record(
        self,
        record: ContainerRecord,
        files: Files,
        stat: FileStat,
        known: Known,
        *,
        response_id: str | None,
        before: int,
    ) -> ContainerFileRecord | None:
        """Take a file as it is now; its row if its content is new. `before` is when it was looked at, in nanoseconds since 1970.
        FileError, StoreError."""
        for look in range(LOOKS):
            if stat.size > self._settings.max_bytes_per_file:
                return await self._taken(record, stat, known, NOT_KEPT, response_id=response_id, before=before)
            async with self._copies.taken(files, stat.path, size=stat.size, tenant=record.tenant) as copy:
                now = await files.stat(stat.path)
                if now == stat or look == LOOKS - 1:
                    return await self._taken(record, stat, known, copy, response_id=response_id, before=before)
            if now.kind != "file":
                raise FileMissing(stat.path)
            stat, before = now, time.time_ns()
        return None

    async def store(
        self,
        record: ContainerRecord,
        stat: FileStat,
        known: Known,
        *,
        copy: Copy,
        source: Source,
        response_id: str | None,
        before: int,
    ) -> ContainerFileRecord:
        """Its row, stored."""
        row = await self._rows.upsert(
            ContainerFileRecord(
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
        )
        known[row.path] = row
        return row

    async def _look(self, record: ContainerRecord, box: Box, files: Files) -> Look:
        directory = self._boxes.data_directory(record)
        if directory is None:
            return Look(files=tuple(stat for stat in await listing(files) if stat.kind == "file"), directories=None)
        if box.tree is None:
            box.tree = self._watching.tree(directory, DATA)
        try:
            return await to_thread.run_sync(box.tree.look)
        except OSError as error:
            raise FileError(DATA, f"{DATA} could not be looked through: {error.strerror}.") from error

    async def _take(
        self,
        record: ContainerRecord,
        files: Files,
        known: Known,
        look: Look,
        *,
        response_id: str | None,
        before: int,
    ) -> Captured:
        changes = compare(known, look, most=self._settings.max_files_per_exec)
        taken: list[ContainerFileRecord] = []
        unread: set[str] = set()
        done = 0
        try:
            await self._drop(record.id, known, changes.gone)
            for stat in changes.touched:
                try:
                    row = await self.record(record, files, stat, known, response_id=response_id, before=before)
                except FileError:
                    unread.add(posixpath.dirname(stat.path))  # gone, or closed to us: the next capture looks again
                    row = None
                done += 1
                if row is not None:
                    taken.append(row)
        except StoreError as error:
            self._look_again(self._boxes.of(record.id))
            left = len(changes.left) + len(changes.touched) - done
            return Captured(files=tuple(taken), left=left, trouble=error.message)
        unread |= {posixpath.dirname(stat.path) for stat in changes.left}
        tree = self._boxes.of(record.id).tree
        if tree is not None:
            tree.again(unread)
        return Captured(files=tuple(taken), left=len(changes.left))

    async def _drop(self, container_id: str, known: Known, paths: tuple[str, ...]) -> None:
        if not paths:
            return
        await self._rows.delete_paths(container_id, paths)
        self._copies.nudge()
        for path in paths:
            del known[path]

    async def _taken(
        self, record: ContainerRecord, stat: FileStat, known: Known, copy: Copy, *, response_id: str | None, before: int
    ) -> ContainerFileRecord | None:
        was = known.get(stat.path)
        if was is None or was.sha256 != copy.sha256 or (copy is NOT_KEPT and _facts(was) != _facts(stat)):
            return await self.store(
                record, stat, known, copy=copy, source="assistant", response_id=response_id, before=before
            )
        source: Source = "user" if was.source == "user" else "assistant"
        same = copy if copy is NOT_KEPT else Copy(sha256=copy.sha256, blob=was.blob or copy.blob, bytes=copy.bytes)
        await self.store(record, stat, known, copy=same, source=source, response_id=was.response_id, before=before)
        return None

    def _look_again(self, box: Box) -> None:
        if box.tree is not None:
            box.tree.is_whole = True


async def listing(files: Files) -> list[FileStat]:
    """All that is in /mnt/data."""
    try:
        return await files.list(DATA, recursive=True)
    except FileMissing:
        return []  # a command removed the directory itself


def _facts(file: FileStat | ContainerFileRecord) -> tuple[int, int, int]:
    size = file.size if isinstance(file, FileStat) else file.bytes
    return size, file.modified, file.identity

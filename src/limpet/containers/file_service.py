"""The files of containers: what changed is seen, recorded and given out. The bytes stay where they are, in the box's directory.

Never follows a link: every look goes through the sandbox's `Files`.
"""

import posixpath
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Self

import anyio
from anyio import to_thread

from limpet.containers.attachments import IncomingFile, final_names
from limpet.containers.boxes import Boxes
from limpet.containers.captures import LAST_SECONDS, CaptureResult, Captures, LockedFiles
from limpet.containers.changes import is_known, safe_name
from limpet.containers.contents import Choose, CountingReader, opened, whole
from limpet.containers.file_copies import FileCopies
from limpet.containers.meter import Meter
from limpet.containers.quotas import Quotas
from limpet.containers.settings import ContainerSettings
from limpet.containers.tree_watcher import TreeWatcher
from limpet.core.box_directories import DATA
from limpet.core.clock import Clock
from limpet.core.errors import FileError, FileMissing, NotFound, QuotaExceeded, StoreError
from limpet.core.ports import Files
from limpet.store.containers import ContainerRecord
from limpet.store.files import ContainerFileRecord, ContainerFiles
from limpet.store.records import Order, Page

Find = Callable[[str, str], Awaitable[ContainerRecord]]


class ContainerFileService:
    """The files of every container, as clients list and download them.

    While it is open (`async with`) a capture reads only what changed.
    `running` and `readable` give a tenant's container or raise what the client is told; `readable` also gives expired ones, and
    `still_running` may be asked while a lock of the container's box is held.
    """

    def __init__(
        self,
        rows: ContainerFiles,
        boxes: Boxes,
        *,
        running: Find,
        still_running: Find,
        readable: Find,
        settings: ContainerSettings,
        clock: Clock,
        copies: FileCopies,
        quotas: Quotas,
        meter: Meter,
    ) -> None:
        self._rows = rows
        self._copies = copies
        self._quotas = quotas
        self._boxes = boxes
        self._running = running
        self._still_running = still_running
        self._readable = readable
        self._settings = settings
        self._watching = TreeWatcher()
        self._captures = Captures(
            rows,
            boxes,
            copies=copies,
            settings=settings,
            clock=clock,
            meter=meter,
            watching=self._watching,
            quota=quotas.settings,
        )
        self._stack = AsyncExitStack()

    @property
    def max_bytes(self) -> int:
        """The most that a file may have to be taken or kept."""
        return self._settings.max_bytes_per_file

    @property
    def max_download(self) -> int:
        """The most bytes of a file that one download gives."""
        return self._settings.max_bytes_per_download

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._watching)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    def locked(self, container_id: str) -> AbstractAsyncContextManager[LockedFiles]:
        """The files of a container, for this caller alone."""
        return self._captures.locked(container_id)

    async def capture(
        self, record: ContainerRecord, *, response_id: str | None = None, exec_id: str | None = None
    ) -> CaptureResult:
        """Record the files that changed since the last capture, as written by that response and command; forget those that are gone.

        A file is changed when its content is. At most `max_files_per_exec` are given back; what there is more is recorded as it was
        seen, without its hash, as is what lies over `max_bytes_per_file`. An overwritten path keeps its file's id. StoreError, FileError.
        """
        async with self.locked(record.id) as files:
            return await files.capture(record, response_id=response_id, exec_id=exec_id)

    async def count_missing(self, record: ContainerRecord) -> int:
        """How many recorded files are no longer there."""
        async with self.locked(record.id) as files:
            return await files.count_missing(record)

    async def written(self, container_id: str, exec_id: str) -> CaptureResult:
        """What captures after that command have recorded. It is not told by the files' times: two commands may lie closer together
        than the kernel's clock for files can say."""
        rows = [row for row in await self._rows.of_container(container_id) if row.exec_id == exec_id]
        rows.sort(key=lambda row: row.path)
        most = self._settings.max_files_per_exec
        return CaptureResult(files=tuple(rows[:most]), more=len(rows[most:]))

    async def recorded(self, container_id: str, paths: Iterable[str]) -> frozenset[str]:
        """Those of these paths that are among the container's files."""
        async with self.locked(container_id) as files:
            known = await files.known()
            return frozenset(path for path in paths if path in known)

    async def list(
        self, tenant: str, container_id: str, *, limit: int = 20, after: str | None = None, order: Order = "desc"
    ) -> Page[ContainerFileRecord]:
        """A page of a container's files; those of a running box are looked at first. NotFound."""
        record = await self._readable(tenant, container_id)
        if self._boxes.of(record.id).may_have_changed(record):
            await self.capture(record)
        return await self._rows.list(tenant, container_id, limit=limit, after=after, order=order)

    async def get(self, tenant: str, container_id: str, file_id: str) -> ContainerFileRecord:
        """One file's row, also of an expired container. NotFound."""
        await self._readable(tenant, container_id)
        return await self._file(tenant, container_id, file_id)

    async def open_content(
        self, tenant: str, container_id: str, file_id: str, *, choose: Choose = whole
    ) -> tuple[ContainerFileRecord, AsyncGenerator[bytes, None]]:
        """A file's row, as it is now, and those of its `bytes` bytes that `choose` chooses, in pieces; close the generator if you stop
        early. The row's `sha256` is empty where it may not be that of these bytes.

        NotFound, or 400 `container_expired`: an expired container's data is gone.
        """
        record = await self._running(tenant, container_id)
        row = await self._file(tenant, container_id, file_id)
        row = await self._refresh(record, row)
        try:
            return await opened(self._boxes.of(container_id).files(record), row, choose)
        except FileError as error:
            raise _no_file(container_id, file_id) from error

    async def put(
        self,
        tenant: str,
        container_id: str,
        name: str,
        data: AsyncIterator[bytes],
        *,
        is_bounded: bool = True,
    ) -> ContainerFileRecord:
        """Write a file at /mnt/data/<name>, made safe, whole or not at all; an existing one is replaced and keeps its id.

        413 `file_too_large` over `max_bytes_per_file`, unless the caller has bounded it; a directory of that name raises
        a FileError.
        """
        await self._running(tenant, container_id)
        async with self._boxes.of(container_id).booting() as booting:
            await booting.prepare_files(await self._still_running(tenant, container_id))
        most = self.max_bytes if is_bounded else None
        async with self.locked(container_id) as locked:
            record = await self._still_running(tenant, container_id)  # it may have ended before the lock was free
            return await self._write(locked, record, safe_name(name), data, most=most)

    async def bring(self, record: ContainerRecord, incoming: Sequence[IncomingFile]) -> Sequence[ContainerFileRecord]:
        """Write files to /mnt/data under names of their own: none of them replaces another, or a file that is there. All or none.
        The caller has bounded their size. Returns their rows, in order."""
        if not incoming:
            return []
        async with self._boxes.of(record.id).booting() as booting:
            await booting.prepare_files(await self._still_running(record.tenant, record.id))
        rows: list[ContainerFileRecord] = []
        async with self.locked(record.id) as locked:
            record = await self._still_running(record.tenant, record.id)  # it may have ended before the lock was free
            names = await self._final_names(self._boxes.of(record.id).files(record), [file.name for file in incoming])
            try:
                for file, name in zip(incoming, names, strict=True):
                    rows.append(await self._write(locked, record, name, file.open(), most=None))
            except BaseException:
                with anyio.move_on_after(LAST_SECONDS, shield=True):
                    await self._take_back(locked, record, rows)
                raise
        return rows

    async def _final_names(self, files: Files, wanted: Sequence[str]) -> Sequence[str]:
        """Names that nothing in /mnt/data has."""
        most = self._settings.max_entries
        listed = await files.list(DATA, limit=most)
        taken = await to_thread.run_sync(lambda: {stat.path.rpartition("/")[2] for stat in listed})
        names = final_names(wanted, taken)
        while len(listed) == most and (found := [name for name in names if await _is_there(files, name)]):
            taken |= set(found)
            names = final_names(wanted, taken)
        return names

    async def _take_back(
        self, locked: LockedFiles, record: ContainerRecord, rows: Sequence[ContainerFileRecord]
    ) -> None:
        files = self._boxes.of(record.id).files(record)
        for row in rows:
            with suppress(FileError, StoreError):  # what stays is listed, and its owner can delete it
                await files.delete(row.path)
                await locked.forget(row)

    async def _write(
        self,
        locked: LockedFiles,
        record: ContainerRecord,
        name: str,
        data: AsyncIterator[bytes],
        *,
        most: int | None,
    ) -> ContainerFileRecord:
        files, known = self._boxes.of(record.id).files(record), await locked.known()
        path = posixpath.join(DATA, name)
        if path not in known:
            self._quotas.allow_file(len(known))
        counted = CountingReader(self._quotas.bounded(record.tenant, data), most=most)
        stat = await files.write(path, counted.pieces())
        async with self._copies.taken(
            files, stat.path, size=stat.size, tenant=record.tenant, sha256=counted.sha256
        ) as copy:
            try:
                return await locked.store(record, stat, copy)
            except QuotaExceeded:
                if path not in known:
                    with suppress(FileError):
                        await files.delete(path)
                raise

    async def delete(self, tenant: str, container_id: str, file_id: str) -> None:
        """Remove a file from the box and from the list. NotFound."""
        record = await self._running(tenant, container_id)
        row = await self._file(tenant, container_id, file_id)
        async with self.locked(container_id) as locked:
            with suppress(FileMissing):  # a command was quicker; the row goes all the same
                await self._boxes.of(container_id).files(record).delete(row.path)
            await locked.forget(row)

    async def clear(self, container_id: str) -> None:
        """Forget all files of a container that is deleted."""
        await self._rows.clear(container_id)
        self._copies.nudge()

    async def _file(self, tenant: str, container_id: str, file_id: str) -> ContainerFileRecord:
        row = await self._rows.get(tenant, container_id, file_id)
        if row is None:
            raise _no_file(container_id, file_id)
        return row

    async def _refresh(self, record: ContainerRecord, row: ContainerFileRecord) -> ContainerFileRecord:
        """The row after a look at the file, which a command may have changed since the last capture."""
        async with self.locked(record.id) as locked:
            try:
                stat = await self._boxes.of(record.id).files(record).stat(row.path)
                if stat.kind != "file":
                    raise FileMissing(row.path)
                if is_known(row, stat) and (row.sha256 or row.too_large):
                    return row
                await locked.take_again(record, stat, row)
            except FileError as error:
                raise _no_file(record.id, row.id) from error
            return (await locked.known()).get(row.path, row)


async def _is_there(files: Files, name: str) -> bool:
    try:
        await files.stat(posixpath.join(DATA, name))
    except FileMissing:
        return False
    return True


def _no_file(container_id: str, file_id: str) -> NotFound:
    return NotFound(
        f"There is no file {file_id} in the container {container_id}. List its files to see those that there are.",
        code="container_file_not_found",
    )

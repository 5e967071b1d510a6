"""Copies of captured files, where the settings keep captured bytes elsewhere than in the containers' directories."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from limpet.containers.changes import is_known
from limpet.containers.directories import ContainerDirectories
from limpet.core.errors import FileError, StoreError
from limpet.core.ports import Files
from limpet.store.blob_storage import BlobStorage
from limpet.store.containers import Containers
from limpet.store.database import Database
from limpet.store.files import ContainerFileRecord, ContainerFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCopy:
    """What was read of a file: its hash in hex, how many bytes, and the blob that holds the same bytes, None where there is none."""

    sha256: str
    bytes: int
    blob: str | None


NOT_KEPT = FileCopy(sha256="", bytes=0, blob=None)
HASHED_HERE = 1 << 16  # bytes whose hash takes less time than the way to a thread and back


class FileCopies:
    """Reads files that are captured, and copies them where there is blob storage for it. `trouble` is why the last copy could not be made,
    None if it could: such a file stays in its directory alone until it changes or `limpet storage move` copies it."""

    def __init__(self, blob_storage: BlobStorage | None) -> None:
        self._blob_storage = blob_storage
        self.trouble: str | None = None

    @property
    def are_made(self) -> bool:
        return self._blob_storage is not None

    @asynccontextmanager
    async def taken(
        self, files: Files, path: str, *, size: int, tenant: str, sha256: str | None = None
    ) -> AsyncIterator[FileCopy]:
        """Read the first `size` bytes of a file; the block stores the row that refers to the blob, else the blob goes. With `sha256`,
        their hash, they are only read where they are copied. FileError."""
        async with AsyncExitStack() as stack:
            copy = await self._copied(stack, files, path, size=size, tenant=tenant)
            yield copy or (
                await _hash(files, path, size=size)
                if sha256 is None
                else FileCopy(sha256=sha256, bytes=size, blob=None)
            )

    async def _copied(
        self, stack: AsyncExitStack, files: Files, path: str, *, size: int, tenant: str
    ) -> FileCopy | None:
        if self._blob_storage is None:
            return None
        data = files.stream(path, length=size)
        try:
            blob = await stack.enter_async_context(self._blob_storage.put(data, tenant=tenant, area="container_files"))
        except StoreError as error:
            # Nothing is lost: the bytes lie in the container's directory, and the command's result must not wait for a bucket.
            self.trouble = error.message
            return None
        self.trouble = None
        return FileCopy(sha256=blob.sha256, bytes=blob.bytes, blob=blob.id)

    def nudge(self) -> None:
        """Rows with copies were removed: let their bytes go now."""
        if self._blob_storage is not None:
            self._blob_storage.nudge()


async def copy_captured(db: Database, blob_storage: BlobStorage, *, home: Path) -> list[ContainerFileRecord]:
    """Copy them, of every running container; which were. A file that changed since it was captured is left to the next capture.

    May be broken off and begun again; a gateway may serve meanwhile. StoreError."""
    rows = ContainerFiles(db)
    copied = []
    for container in await Containers(db).running():
        files = ContainerDirectories(home).files(container)
        for row in await rows.of_container(container.id):
            if row.blob is None and not row.too_large and await _copied(rows, blob_storage, files, row):
                copied.append(row)
    return copied


async def _copied(rows: ContainerFiles, blob_storage: BlobStorage, files: Files, row: ContainerFileRecord) -> bool:
    try:
        async with blob_storage.put(
            files.stream(row.path, length=row.bytes), tenant=row.tenant, area="container_files"
        ) as blob:
            # Many files that came at once have no hash yet (`captures`).
            is_same = blob.sha256 == row.sha256 if row.sha256 else is_known(row, await files.stat(row.path))
            return is_same and await rows.attach(row, blob.id)
    except FileError:
        return False  # it went away, or something else stands in its place


async def _hash(files: Files, path: str, *, size: int) -> FileCopy:
    if size <= HASHED_HERE:
        data = await files.read(path, length=size)
        return FileCopy(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), blob=None)
    digest = hashlib.sha256()
    read = 0
    async for piece in files.stream(path, length=size):
        read += len(piece)
        await to_thread.run_sync(digest.update, piece)
    return FileCopy(sha256=digest.hexdigest(), bytes=read, blob=None)

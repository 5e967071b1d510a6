"""Bytes of any size, kept where the settings say and read from wherever they are.

New bytes go to the place of their area; a blob's row remembers its place, so places of earlier settings are still read. Bytes
stream through: a transfer holds a few blocks in memory, whatever its size.
"""

import hashlib
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from anyio import to_thread

from limpet.core.clock import Clock, SystemClock
from limpet.core.errors import BlobDamaged, BlobMissing, StoreError
from limpet.core.ids import BLOB, new_id
from limpet.store.blob_locations import Directory, Place, from_text, to_text
from limpet.store.blob_records import Area, BlobRecord, BlobRecords
from limpet.store.blobs import Blobs, in_blocks
from limpet.store.blobs_filesystem import DIRECTORY, FilesystemBlobs
from limpet.store.database import Database

SWEEP_EVERY = 60.0  # seconds
CLEARING = 10.0  # seconds for removing what was broken off


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """What was put: the id to store in a row, the size, and the hash of all bytes in hex."""

    id: str
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageSettings:
    """Where new bytes of each area go; what can read and write a place, given the open database; how large an uploaded file may be."""

    places: Mapping[Area, Place]
    open_place: Callable[[Place, Database], Blobs]
    max_file_bytes: int = 2 << 30


def kept_in(home: Path) -> StorageSettings:
    """Files below a home directory, without any settings."""
    return StorageSettings(
        places={"files": Directory(), "container_files": Directory()},
        open_place=lambda place, db: FilesystemBlobs(home / DIRECTORY),
    )


class BlobStorage:
    """All bytes of one home. `async with` opens it; the database is open before and closes after.

    A gateway (`is_serving`) removes the partial uploads of an earlier process that died; other programs, the copies of a move.
    `trouble` is why the last sweep could not remove something, None if nothing stood in its way: it is tried again.
    """

    def __init__(
        self, db: Database, settings: StorageSettings, *, is_serving: bool = True, clock: Clock | None = None
    ) -> None:
        self.ledger = BlobRecords(db)
        self.trouble: str | None = None
        self._db = db
        self._settings = settings
        self._is_serving = is_serving
        self._clock = clock or SystemClock()
        self._open: dict[str, Blobs] = {}
        self._opening = anyio.Lock()
        self._doomed = anyio.Event()
        self._stack = AsyncExitStack()
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_exit(self._close)
            for place in self._settings.places.values():
                await self._at(to_text(place))
            await self.ledger.abandon("pending" if self._is_serving else "moving", now=self._clock.now())
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(self._sweep_for_ever)
            stack.callback(tasks.cancel_scope.cancel)
            self._closing = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.aclose()

    @property
    def copies_container_files(self) -> bool:
        """Whether captured files are copied: with the filesystem as their place they stay in their containers' directories alone."""
        return not isinstance(self._settings.places["container_files"], Directory)

    @asynccontextmanager
    async def put(self, data: AsyncIterator[bytes], *, tenant: str, area: Area) -> AsyncIterator[Blob]:
        """Keep all of `data`, then run the block, which stores the row that refers to the blob and in the same transaction calls
        `ledger.keep`. Without that, and whatever raises, nothing of it is left."""
        place = to_text(self._settings.places[area])
        blobs = await self._at(place)
        id = new_id(BLOB)
        record = BlobRecord(
            id=id, tenant=tenant, area=area, place=place, key=_key(id), state="pending", created_at=self._clock.now()
        )
        await self.ledger.open(record)
        try:
            hashed = HashingReader(data)
            async with aclosing(hashed.blocks()) as blocks:
                await blobs.put(record.key, blocks)
            await self.ledger.written(id, size=hashed.size, sha256=hashed.sha256)
            yield Blob(id=id, bytes=hashed.size, sha256=hashed.sha256)
        finally:
            with anyio.move_on_after(CLEARING, shield=True):
                await self.ledger.discard(id)
            self.nudge()

    async def read(self, id: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes from `start` on, at most `length`. BlobMissing at the first step if there is no such blob; close the generator
        if you stop early. A blob that moves meanwhile is read on at its new place."""
        end = math.inf if length is None else start + length
        seen = ""
        while (record := await self.ledger.get(id)) is not None and record.key != seen:
            seen = record.key
            blobs = await self._at(record.place)
            wanted = None if length is None else int(end) - start
            try:
                async with aclosing(blobs.read(record.key, start=start, length=wanted)) as pieces:
                    async for piece in pieces:
                        yield piece
                        start += len(piece)
                return
            except BlobMissing:
                continue  # it moved while it was read; where it did not, the loop ends
        raise BlobMissing(id, record.place if record else "the store")

    async def exists(self, id: str) -> bool:
        """Whether its bytes are where its row says, all of them."""
        record = await self.ledger.get(id)
        return record is not None and await (await self._at(record.place)).size(record.key) == record.bytes

    def nudge(self) -> None:
        """Bytes were doomed: remove them now rather than at the next round."""
        self._doomed.set()

    async def sweep(self) -> int:
        """Remove the bytes of doomed blobs; how many. What cannot be removed now stays for the next time, see `trouble`."""
        removed, self.trouble = 0, None
        for record in await self.ledger.doomed():
            try:
                await (await self._at(record.place)).delete(record.key)
                await self.ledger.close(record.id)
                removed += 1
            except StoreError as error:
                # A bucket that does not answer must not keep the others from going; the next round tries it again.
                self.trouble = error.message
        return removed

    async def move(self, record: BlobRecord, place: Place) -> bool:
        """Copy a blob to another place, check the copy's hash, let its id stand for that, and doom the bytes at the old place. False
        if it was deleted or moved meanwhile. Raises StoreError."""
        id = new_id(BLOB)
        copy = BlobRecord(
            id=id,
            tenant=record.tenant,
            area=record.area,
            place=to_text(place),
            key=_key(id),
            state="moving",
            created_at=self._clock.now(),
        )
        await self.ledger.open(copy)
        try:
            source, target = await self._at(record.place), await self._at(copy.place)
            async with aclosing(source.read(record.key)) as pieces:
                hashed = HashingReader(pieces)
                async with aclosing(hashed.blocks()) as blocks:
                    await target.put(copy.key, blocks)
            if (hashed.size, hashed.sha256) != (record.bytes, record.sha256):
                raise BlobDamaged(record.id, record.place)
            return await self.ledger.swap(record, copy)
        except BlobMissing:
            now = await self.ledger.get(record.id)
            if now is None or now.key != record.key:
                return False
            raise
        finally:
            with anyio.move_on_after(CLEARING, shield=True):
                await self.ledger.discard(id)

    async def _at(self, place: str) -> Blobs:
        async with self._opening:
            if place not in self._open:
                self._open[place] = await self._stack.enter_async_context(
                    self._settings.open_place(from_text(place), self._db)
                )
            return self._open[place]

    async def _close(self, *exc: object) -> None:
        await self._stack.aclose()
        self._open.clear()

    async def _sweep_for_ever(self) -> None:
        while True:
            self._doomed = anyio.Event()
            try:
                if await self.sweep() and self.trouble is None:
                    continue
            except Exception as error:  # noqa: BLE001 - a full disk or a fault of ours must not end the gateway
                self.trouble = str(error)  # the rows are still there: the next round tries again
            with anyio.move_on_after(SWEEP_EVERY):
                await self._doomed.wait()


class HashingReader:
    """Passes bytes on in blocks, counts them, and takes their hash in a thread. `size` and `sha256` are final at the end."""

    def __init__(self, data: AsyncIterator[bytes]) -> None:
        self._data = data
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(in_blocks(self._data)) as blocks:
            async for block in blocks:
                await to_thread.run_sync(self._hash.update, block)
                self.size += len(block)
                yield block


def _key(id: str) -> str:
    """What a place knows it by: the id's random part."""
    return id.rpartition("_")[2]

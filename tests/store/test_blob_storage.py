"""Bytes in blob storage: kept whole or not at all, found wherever they are, gone when no row refers to them."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from limpet.core.errors import BlobDamaged, BlobMissing, PlaceUnusable, StoreFailed
from limpet.store.blob_locations import Directory, InDatabase, Place
from limpet.store.blob_migration import Progress, move
from limpet.store.blob_records import doom, keep
from limpet.store.blob_storage import BlobStorage, StorageSettings
from limpet.store.blobs import BLOCK, Blobs
from limpet.store.blobs_database import DatabaseBlobs
from limpet.store.blobs_filesystem import FilesystemBlobs
from limpet.store.database import Database
from limpet.store.settings import DatabaseSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(DatabaseSettings(), home=tmp_path) as db:
        yield db


def settings(home: Path, place: Place) -> StorageSettings:
    def opened(place: Place, db: Database) -> Blobs:
        match place:
            case Directory(path=path):
                return FilesystemBlobs(path or home / "blobs")
            case _:
                return DatabaseBlobs(db)

    return StorageSettings(places={"files": place, "container_files": place}, open_place=opened)


async def pieces(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def kept(db: Database, blob_storage: BlobStorage, data: bytes) -> str:
    async with blob_storage.put(pieces(data, 300_000), tenant="default", area="files") as blob:
        assert (blob.bytes, blob.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        async with db.writing() as connection:
            await keep(connection, blob.id)
    return blob.id


async def read(blob_storage: BlobStorage, id: str, *, start: int = 0, length: int | None = None) -> bytes:
    return b"".join([piece async for piece in blob_storage.read(id, start=start, length=length)])


def files(home: Path) -> list[Path]:
    return [path for path in (home / "blobs").rglob("*") if path.is_file()]


async def emptied(blob_storage: BlobStorage) -> None:
    while await blob_storage.sweep():
        pass


async def test_what_is_kept_comes_back_and_what_nobody_keeps_is_gone(db: Database, tmp_path: Path) -> None:
    async with BlobStorage(db, settings(tmp_path, Directory())) as blob_storage:
        id = await kept(db, blob_storage, b"kept" * BLOCK)
        async with blob_storage.put(pieces(b"not"), tenant="default", area="files") as blob:
            pass
        assert await read(blob_storage, id, start=BLOCK + 1, length=6) == b"eptkep"
        with pytest.raises(BlobMissing):
            await read(blob_storage, blob.id)
        await emptied(blob_storage)
        assert (await blob_storage.exists(id), await blob_storage.exists(blob.id), len(files(tmp_path))) == (
            True,
            False,
            1,
        )


async def test_a_block_that_raises_keeps_nothing(db: Database, tmp_path: Path) -> None:
    async with BlobStorage(db, settings(tmp_path, Directory())) as blob_storage:
        with pytest.raises(RuntimeError):
            async with blob_storage.put(pieces(b"x"), tenant="default", area="files"):
                raise RuntimeError
        await emptied(blob_storage)
    assert files(tmp_path) == []


async def test_what_a_killed_process_was_writing_is_swept_at_the_next_start(db: Database, tmp_path: Path) -> None:
    chosen = settings(tmp_path, Directory())
    async with BlobStorage(db, chosen) as blob_storage:
        id = await kept(db, blob_storage, b"safe")
        async with blob_storage.put(pieces(b"half a file"), tenant="default", area="files"):
            # As a process that dies here leaves it: the next one opens the same home.
            assert len(files(tmp_path)) == 2
            async with BlobStorage(db, chosen) as next_one:
                await emptied(next_one)
                assert (len(files(tmp_path)), await read(next_one, id)) == (1, b"safe")


async def test_bytes_that_were_given_up_cannot_be_kept(db: Database, tmp_path: Path) -> None:
    async with (
        BlobStorage(db, settings(tmp_path, Directory())) as blob_storage,
        blob_storage.put(pieces(b"x"), tenant="default", area="files") as blob,
    ):
        await blob_storage.ledger.discard(blob.id)
        with pytest.raises(StoreFailed, match="given up"):
            async with db.writing() as connection:
                await keep(connection, blob.id)


async def test_doomed_bytes_go_without_anybody_asking(db: Database, tmp_path: Path) -> None:
    async with BlobStorage(db, settings(tmp_path, Directory())) as blob_storage:
        id = await kept(db, blob_storage, b"x")
        async with db.writing() as connection:
            await doom(connection, id)
        blob_storage.nudge()
        with anyio.fail_after(5):
            while files(tmp_path):
                await anyio.sleep(0.01)


async def test_changed_settings_lose_nothing(db: Database, tmp_path: Path) -> None:
    async with BlobStorage(db, settings(tmp_path, Directory(tmp_path / "here"))) as blob_storage:
        first = await kept(db, blob_storage, b"in a directory")
    async with BlobStorage(db, settings(tmp_path, InDatabase())) as blob_storage:
        second = await kept(db, blob_storage, b"in the database")
    async with BlobStorage(db, settings(tmp_path, Directory())) as blob_storage:
        assert [await read(blob_storage, id) for id in (first, second)] == [b"in a directory", b"in the database"]


async def test_a_place_that_cannot_be_used_is_told_at_the_start(db: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlaceUnusable):
        async with BlobStorage(db, settings(tmp_path, Directory(tmp_path / "file"))):
            pass


async def test_a_move_takes_everything_once_and_says_how_far_it_is(db: Database, tmp_path: Path) -> None:
    async with BlobStorage(db, settings(tmp_path, Directory())) as blob_storage:
        ids = [await kept(db, blob_storage, b"x" * number) for number in (0, 1, BLOCK + 1)]
    told: list[Progress] = []
    async with BlobStorage(db, settings(tmp_path, InDatabase()), is_serving=False) as blob_storage:
        done = await move(blob_storage, "files", InDatabase(), tell=told.append)
        assert done == told[-1] == Progress(moved=3, bytes=BLOCK + 2, all=3, all_bytes=BLOCK + 2)
        assert [progress.moved for progress in told] == [0, 1, 2, 3]
        assert [len(await read(blob_storage, id)) for id in ids] == [0, 1, BLOCK + 1]
        assert files(tmp_path) == []
        assert (await move(blob_storage, "files", InDatabase(), tell=told.append)).all == 0


async def test_a_move_that_was_broken_off_goes_on_where_it_was(db: Database, tmp_path: Path) -> None:
    async with BlobStorage(db, settings(tmp_path, InDatabase())) as blob_storage:
        ids = [await kept(db, blob_storage, b"%d" % number) for number in range(3)]

    class Broken(Exception):
        pass

    def break_off(progress: Progress) -> None:
        if progress.moved == 1:
            raise Broken

    async with BlobStorage(db, settings(tmp_path, Directory()), is_serving=False) as blob_storage:
        with pytest.raises(Broken):
            await move(blob_storage, "files", Directory(), tell=break_off)
        assert len(files(tmp_path)) == 1
    async with BlobStorage(db, settings(tmp_path, Directory()), is_serving=False) as blob_storage:
        done = await move(blob_storage, "files", Directory(), tell=lambda progress: None)
        assert (done.moved, len(files(tmp_path))) == (2, 3)
        assert [await read(blob_storage, id) for id in ids] == [b"0", b"1", b"2"]


async def test_damaged_and_missing_bytes_stay_where_they_are_and_are_told(db: Database, tmp_path: Path) -> None:
    async with BlobStorage(db, settings(tmp_path, Directory())) as blob_storage:
        ids = [await kept(db, blob_storage, b"%d" % number) for number in range(3)]
        for path in files(tmp_path):
            match path.read_bytes():
                case b"0":
                    path.write_bytes(b"?")
                case b"1":
                    path.unlink()
    async with BlobStorage(db, settings(tmp_path, InDatabase()), is_serving=False) as blob_storage:
        done = await move(blob_storage, "files", InDatabase(), tell=lambda progress: None)
        assert (done.moved, len(done.failed)) == (1, 2)
        assert await read(blob_storage, ids[2]) == b"2"
        assert len(files(tmp_path)) == 1
        record = await blob_storage.ledger.get(ids[0])
        assert record is not None
        with pytest.raises(BlobDamaged):
            await blob_storage.move(record, InDatabase())


async def test_a_reader_goes_on_while_its_bytes_move(db: Database, tmp_path: Path) -> None:
    data = bytes(range(256)) * (3 * BLOCK // 256)
    async with BlobStorage(db, settings(tmp_path, InDatabase())) as blob_storage:
        id = await kept(db, blob_storage, data)
        async with aclosing(blob_storage.read(id, start=1)) as reading:
            got = await anext(reading)
            async with BlobStorage(db, settings(tmp_path, Directory()), is_serving=False) as mover:
                await move(mover, "files", Directory(), tell=lambda progress: None)
            async for piece in reading:
                got += piece
    assert got == data[1:]


async def test_what_is_deleted_while_it_moves_stays_deleted(db: Database, tmp_path: Path) -> None:
    async with BlobStorage(db, settings(tmp_path, InDatabase())) as blob_storage:
        id = await kept(db, blob_storage, b"x")
        record = await blob_storage.ledger.get(id)
        assert record is not None
        async with db.writing() as connection:
            await doom(connection, id)
        assert not await blob_storage.move(record, Directory())
        await emptied(blob_storage)
        assert files(tmp_path) == []

"""What every place for bytes promises, asked of each of them."""

import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.core.errors import BlobMissing, PlaceUnusable, StoreFailed
from limpet.core.secret import Secret
from limpet.store.blob_locations import Bucket, Directory, InDatabase, Place, from_text, to_text
from limpet.store.blobs import BLOCK, Blobs, in_blocks
from limpet.store.blobs_database import DatabaseBlobs
from limpet.store.blobs_filesystem import FilesystemBlobs
from limpet.store.blobs_s3 import S3Blobs
from limpet.store.database import Database
from limpet.store.settings import DatabaseSettings
from tests.store.disk import Disk
from tests.support.s3 import KEYS, REGION, Server, s3_server

pytestmark = pytest.mark.anyio
SIZES = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 9 * BLOCK, 20 * BLOCK + 7]


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with s3_server() as server:
        yield server


def in_bucket(server: Server, bucket: str, *, prefix: str = "some/where") -> S3Blobs:
    place = Bucket(bucket=bucket, prefix=prefix, endpoint=server.url, region=REGION)
    access, secret = (Secret(value) for value in KEYS.values())
    return S3Blobs(place, access_key_id=access, secret_access_key=secret)


@pytest.fixture(params=["filesystem", "database", "s3"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Blobs]:
    match request.param:
        case "filesystem":
            async with FilesystemBlobs(tmp_path / "blobs") as opened:
                yield opened
        case "database":
            async with Database(DatabaseSettings(), home=tmp_path) as db, DatabaseBlobs(db) as opened:
                yield opened
        case _:
            server: Server = request.getfixturevalue("s3")
            async with in_bucket(server, server.bucket(f"bucket-{secrets.token_hex(6)}")) as opened:
                yield opened


def key() -> str:
    return secrets.token_hex(16)


def content(size: int) -> bytes:
    return (hashlib.sha256(str(size).encode()).digest() * (size // 32 + 1))[:size]


async def blocks(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), BLOCK):
        yield data[at : at + BLOCK]


async def read(blobs: Blobs, name: str, *, start: int = 0, length: int | None = None) -> bytes:
    return b"".join([piece async for piece in blobs.read(name, start=start, length=length)])


@pytest.mark.parametrize("size", SIZES)
async def test_bytes_come_back_as_they_were_put(blobs: Blobs, size: int) -> None:
    name, data = key(), content(size)
    await blobs.put(name, blocks(data))
    assert await blobs.size(name) == size
    assert await read(blobs, name) == data


async def test_any_range_comes_back(blobs: Blobs) -> None:
    name, data = key(), content(3 * BLOCK + 5)
    await blobs.put(name, blocks(data))
    for start, length in [
        (0, 1),
        (1, BLOCK),
        (BLOCK - 1, 2),
        (BLOCK, 2 * BLOCK),
        (3 * BLOCK, 99),
        (0, 0),
        (len(data), 4),
    ]:
        assert await read(blobs, name, start=start, length=length) == data[start : start + length]
    assert await read(blobs, name, start=2 * BLOCK + 1) == data[2 * BLOCK + 1 :]


async def test_no_piece_is_larger_than_a_block(blobs: Blobs) -> None:
    name = key()
    await blobs.put(name, blocks(content(9 * BLOCK)))
    assert max([len(piece) async for piece in blobs.read(name)]) <= BLOCK


async def test_what_is_not_there_is_missing_and_deleting_it_is_quiet(blobs: Blobs) -> None:
    assert await blobs.size(key()) is None
    with pytest.raises(BlobMissing):
        await read(blobs, key())
    await blobs.delete(key())


@pytest.mark.parametrize("size", [10, 40 * BLOCK])
async def test_what_was_deleted_is_gone_and_deleting_it_again_is_quiet(blobs: Blobs, size: int) -> None:
    name = key()
    await blobs.put(name, blocks(content(size)))
    await blobs.delete(name)
    await blobs.delete(name)
    assert await blobs.size(name) is None


@pytest.mark.parametrize("size", [3 * BLOCK, 20 * BLOCK])
async def test_data_that_breaks_off_leaves_nothing_that_can_be_read(blobs: Blobs, size: int) -> None:
    async def broken() -> AsyncIterator[bytes]:
        async for block in blocks(content(size)):
            yield block
        raise ConnectionResetError("the client went away")

    name = key()
    with pytest.raises(ConnectionResetError):
        await blobs.put(name, broken())
    assert await blobs.size(name) is None


async def test_a_caller_that_is_cancelled_leaves_nothing_that_can_be_read(blobs: Blobs) -> None:
    begun = anyio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(12):
            yield content(BLOCK)
        begun.set()
        await anyio.sleep_forever()
        yield b""

    name = key()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(blobs.put, name, endless())
            await begun.wait()
            tasks.cancel_scope.cancel()
    assert await blobs.size(name) is None


async def test_a_reader_that_stops_early_leaves_nothing_open(blobs: Blobs) -> None:
    name = key()
    await blobs.put(name, blocks(content(4 * BLOCK)))
    async with aclosing(blobs.read(name)) as pieces:
        assert await anext(pieces) == content(4 * BLOCK)[:BLOCK]
    await blobs.delete(name)


async def test_files_are_ours_alone_and_nothing_lies_aside(tmp_path: Path) -> None:
    name = key()
    async with FilesystemBlobs(tmp_path / "blobs") as blobs:
        await blobs.put(name, blocks(b"x"))
    file = tmp_path / "blobs" / name[:2] / name[2:4] / name
    assert file.stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o777 for path in tmp_path.joinpath("blobs").rglob("*") if path.is_dir()} == {0o700}
    assert list((tmp_path / "blobs/incoming").iterdir()) == []


async def test_a_full_disk_is_told_and_keeps_nothing_of_the_file(disk: Disk) -> None:
    async with FilesystemBlobs(disk.path / "blobs") as blobs:
        with pytest.raises(StoreFailed, match="is full"):
            await blobs.put(name := key(), blocks(content(8 * BLOCK)))
        assert await blobs.size(name) is None
        await blobs.put(name, blocks(b"there is room again"))


async def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlaceUnusable, match="Make it a directory"):
        await FilesystemBlobs(tmp_path / "file" / "blobs").__aenter__()


async def test_a_bucket_that_is_missing_or_silent_is_told_when_it_is_opened(s3: Server) -> None:
    for blobs in (in_bucket(s3, "no-such-bucket"), in_bucket(Server("http://127.0.0.1:9"), "any-bucket")):
        with anyio.fail_after(30), pytest.raises(PlaceUnusable, match="bucket, region, endpoint"):
            await blobs.__aenter__()


async def test_objects_lie_below_the_prefix_and_no_upload_is_left_half_done(s3: Server) -> None:
    bucket = s3.bucket(f"bucket-{secrets.token_hex(6)}")
    async with in_bucket(s3, bucket, prefix="a b/ü") as blobs:
        await blobs.put(name := key(), blocks(content(17 * BLOCK)))

        async def broken() -> AsyncIterator[bytes]:
            async for block in blocks(content(17 * BLOCK)):
                yield block
            raise ConnectionResetError

        with suppress(ConnectionResetError):
            await blobs.put(key(), broken())
        assert await read(blobs, name) == content(17 * BLOCK)
    assert s3.keys(bucket) == [f"a b/ü/{name}"]
    assert s3.unfinished(bucket) == 0


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=1, max_value=16))
def test_blocks_are_the_same_bytes_all_of_one_size_but_the_last(pieces: list[bytes], size: int) -> None:
    async def given_pieces() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def collected() -> list[bytes]:
        return [block async for block in in_blocks(given_pieces(), size=size)]

    blocks = anyio.run(collected)
    assert b"".join(blocks) == b"".join(pieces)
    assert all(len(block) == size for block in blocks[:-1])
    assert all(0 < len(block) <= size for block in blocks)


PLACES: list[Callable[[], Place]] = [
    Directory,
    lambda: Directory(Path("/srv/a b/#?%ü")),
    InDatabase,
    lambda: Bucket(bucket="b"),
    lambda: Bucket(bucket="b", prefix="p q/r?#", endpoint="http://127.0.0.1:9000", region="eu-central-1"),
]


@pytest.mark.parametrize("made", PLACES)
def test_a_place_is_read_back_as_it_was_written(made: Callable[[], Place]) -> None:
    assert from_text(to_text(made())) == made()

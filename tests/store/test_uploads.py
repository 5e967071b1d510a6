"""The Files API's rows: by tenant, by age, gone when their time is over."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.core.errors import NotFound, RequestInvalid
from limpet.core.ids import FILE, is_id
from limpet.store.blob_storage import BlobStorage, kept_in
from limpet.store.database import Database
from limpet.store.uploads import CURSOR_SECONDS, NewUpload, UploadRecord, Uploads
from tests.containers.turned import TurnedClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
async def uploads(db: Database, tmp_path: Path, clock: TurnedClock) -> AsyncIterator[Uploads]:
    async with BlobStorage(db, kept_in(tmp_path), clock=clock) as blob_storage:
        yield Uploads(db, blob_storage, clock=clock)


async def once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def add(
    uploads: Uploads,
    data: bytes = b"data",
    *,
    tenant: str = "default",
    purpose: str = "user_data",
    ttl: int | None = None,
) -> UploadRecord:
    async with uploads.taken(tenant, once(data)) as blob:
        new = NewUpload(filename="a.txt", purpose=purpose, content_type="text/plain", expires_after=ttl)
        return await uploads.create(tenant, blob, new)


async def content(uploads: Uploads, record: UploadRecord) -> bytes:
    return b"".join([piece async for piece in uploads.read(record)])


def kept(home: Path) -> int:
    return sum(path.is_file() for path in (home / "blobs").rglob("*"))


async def test_a_file_is_what_was_said_of_it(uploads: Uploads, clock: TurnedClock) -> None:
    record = await add(uploads, ttl=3600)
    assert await uploads.get("default", record.id) == record
    assert is_id(record.id, prefix=FILE)
    assert (record.bytes, record.created_at, record.expires_at) == (4, clock.now(), clock.now() + 3600 * 10**6)
    assert await content(uploads, record) == b"data"


async def test_each_tenant_has_files_of_its_own(uploads: Uploads) -> None:
    mine, other = await add(uploads), await add(uploads, tenant="other")
    assert [record.id for record in (await uploads.list("default", limit=10)).records] == [mine.id]
    with pytest.raises(NotFound):
        await uploads.get("default", other.id)
    with pytest.raises(NotFound):
        await uploads.delete("default", other.id)
    with pytest.raises(RequestInvalid):
        await uploads.list("default", limit=10, after=other.id)
    assert await content(uploads, await uploads.get("other", other.id)) == b"data"


async def test_pages_follow_each_other_without_gap_or_repeat_in_both_orders(uploads: Uploads) -> None:
    ids = [(await add(uploads, purpose="batch" if number % 2 else "vision")).id for number in range(5)]
    first = await uploads.list("default", limit=2)
    assert ([record.id for record in first.records], first.has_more) == ([ids[4], ids[3]], True)
    rest = await uploads.list("default", limit=10, after=ids[3])
    assert ([record.id for record in rest.records], rest.has_more) == ([ids[2], ids[1], ids[0]], False)
    older = await uploads.list("default", limit=2, order="asc", after=ids[0], purpose="batch")
    assert [record.id for record in older.records] == [ids[1], ids[3]]


async def test_a_list_goes_on_behind_a_file_that_was_deleted(uploads: Uploads) -> None:
    ids = [(await add(uploads)).id for _ in range(4)]
    await uploads.delete("default", ids[2])
    page = await uploads.list("default", limit=10, after=ids[2])
    assert [record.id for record in page.records] == [ids[1], ids[0]]


async def test_a_deleted_file_is_gone_with_its_bytes_and_its_name(
    uploads: Uploads, db: Database, tmp_path: Path
) -> None:
    record = await add(uploads)
    await uploads.delete("default", record.id)
    with pytest.raises(NotFound):
        await uploads.get("default", record.id)
    with pytest.raises(NotFound):
        await uploads.delete("default", record.id)
    assert kept(tmp_path) == 0
    async with db.reading() as connection:
        rows = (await connection.exec_driver_sql("SELECT filename, sha256, blob, content_type FROM uploads")).all()
    assert [tuple(row) for row in rows] == [("", "", None, None)]


async def test_a_file_is_hidden_at_its_second_and_removed_by_the_reaper(
    uploads: Uploads, clock: TurnedClock, tmp_path: Path
) -> None:
    record, other = await add(uploads, ttl=3600), await add(uploads)
    clock.turn(3599)
    assert await uploads.reap() == 0
    assert await uploads.get("default", record.id) == record
    clock.turn(1)
    with pytest.raises(NotFound):
        await uploads.get("default", record.id)
    assert [each.id for each in (await uploads.list("default", limit=10)).records] == [other.id]
    assert await uploads.reap() == 1
    assert [each.id for each in (await uploads.list("default", limit=10, after=record.id)).records] == []


async def test_rows_of_files_that_ended_are_forgotten_after_a_day(uploads: Uploads, clock: TurnedClock) -> None:
    record = await add(uploads)
    await uploads.delete("default", record.id)
    clock.turn(CURSOR_SECONDS + 1)
    await uploads.reap()
    with pytest.raises(RequestInvalid):
        await uploads.list("default", limit=10, after=record.id)


async def test_bytes_without_a_file_are_not_kept(uploads: Uploads, tmp_path: Path) -> None:
    with pytest.raises(RequestInvalid):
        async with uploads.taken("default", once(b"x")):
            raise RequestInvalid("The form has no purpose.")
    # The next deletion sweeps too; nothing refers to these.
    record = await add(uploads)
    await uploads.delete("default", record.id)
    assert kept(tmp_path) == 0

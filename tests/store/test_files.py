from dataclasses import replace

import pytest

from limpet.core.errors import RequestInvalid, StoreFailed
from limpet.store.containers import Containers
from limpet.store.database import Database
from limpet.store.files import AT_ONCE, ContainerFiles
from limpet.store.records import Page
from tests.store.samples import a_container, a_file

pytestmark = pytest.mark.anyio


async def a_box(db: Database) -> str:
    return (await Containers(db).insert(a_container())).id


async def test_a_file_comes_back_as_it_was_stored(db: Database) -> None:
    table, box = ContainerFiles(db), await a_box(db)
    record = await table.upsert(
        a_file(box, content_type="text/csv", identity=2**64 - 1, changed=2**62, too_large=True, response_id="resp_1")
    )
    assert await table.get("default", box, record.id) == record
    assert await table.get("other", box, record.id) is None
    assert await table.get("default", "cntr_other", record.id) is None


async def test_a_path_that_is_written_again_keeps_its_id_and_its_place(db: Database) -> None:
    table, box = ContainerFiles(db), await a_box(db)
    first = await table.upsert(a_file(box, "/mnt/data/a"))
    other = await table.upsert(a_file(box, "/mnt/data/b"))
    new = a_file(box, "/mnt/data/a", bytes=9, sha256="99", created_at=50, modified=51, source="user")
    kept = replace(new, id=first.id, number=first.number, created_at=first.created_at)
    assert await table.upsert(new) == kept
    assert await table.of_container(box) == [kept, other]


async def test_the_same_path_in_two_containers_is_two_files(db: Database) -> None:
    table, one, two = ContainerFiles(db), await a_box(db), await a_box(db)
    first, second = await table.upsert(a_file(one)), await table.upsert(a_file(two))
    assert await table.clear(one) == 1
    assert await table.of_container(one) == []
    assert await table.of_container(two) == [second]
    assert first.id != second.id


@pytest.mark.parametrize("name", ["a b", "ümläut", "line\nbreak", "-rf", "no utf-8 \udcff\udc80", "x" * 255])
async def test_odd_names_survive_and_can_be_deleted(db: Database, name: str) -> None:
    table, box = ContainerFiles(db), await a_box(db)
    record = await table.upsert(a_file(box, f"/mnt/data/{name}"))
    assert await table.get("default", box, record.id) == record
    assert await table.delete_paths(box, [f"/mnt/data/{name}", "/mnt/data/unknown"]) == 1
    assert await table.of_container(box) == []


async def test_many_paths_are_deleted_at_once(db: Database) -> None:
    table, box = ContainerFiles(db), await a_box(db)
    stored = [await table.upsert(a_file(box, f"/mnt/data/{n}")) for n in range(20)]
    unknown = [f"/mnt/data/unknown {n}" for n in range(2 * AT_ONCE)]
    assert await table.delete_paths(box, [*unknown, *(file.path for file in stored[5:])]) == 15
    assert await table.of_container(box) == stored[:5]
    assert await table.delete(box, stored[0].id)
    assert not await table.delete(box, stored[0].id)


async def test_files_are_listed_in_pages(db: Database) -> None:
    table, box = ContainerFiles(db), await a_box(db)
    stored = [await table.upsert(a_file(box, f"/mnt/data/{n}")) for n in range(5)]
    assert await table.list("default", box, limit=2, order="asc") == Page(stored[:2], has_more=True)
    assert await table.list("default", box, limit=9, order="asc", after=stored[1].id) == Page(
        stored[2:], has_more=False
    )
    assert await table.list("default", box, limit=1) == Page(stored[4:], has_more=True)
    assert await table.list("other", box, limit=9) == Page([], has_more=False)
    elsewhere = await table.upsert(a_file(await a_box(db)))
    with pytest.raises(RequestInvalid):
        await table.list("default", box, limit=9, after=elsewhere.id)


async def test_a_file_of_no_container_is_refused(db: Database) -> None:
    with pytest.raises(StoreFailed):
        await ContainerFiles(db).upsert(a_file("cntr_unknown"))

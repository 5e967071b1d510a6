from dataclasses import replace

import anyio
import pytest

from limpet.core.clock import MICROSECONDS
from limpet.core.errors import RequestInvalid, StoreFailed
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.database import Database
from limpet.store.records import Page
from tests.store.samples import a_container

pytestmark = pytest.mark.anyio


async def some(db: Database, count: int) -> list[ContainerRecord]:
    return [await Containers(db).insert(a_container(name=f"box {n % 2}", created_at=count - n)) for n in range(count)]


async def test_a_container_comes_back_as_it_was_stored(db: Database) -> None:
    table = Containers(db)
    record = await table.insert(
        a_container(memory_limit="1g", spec={"a": [1]}, ref={"r": 1}, boot_id="b", user_id=2**31, ended_at=3)
    )
    assert await table.get("default", record.id) == record
    assert await table.get("other", record.id) is None
    assert await table.get_any(record.id) == record
    assert await table.get_any("cntr_unknown") is None


async def test_pages_follow_each_other_without_gap_or_repeat_in_both_orders(db: Database) -> None:
    table = Containers(db)
    stored = await some(db, 7)
    assert await table.list("default", limit=3, order="asc") == Page(stored[:3], has_more=True)
    assert await table.list("default", limit=3, order="asc", after=stored[2].id) == Page(stored[3:6], has_more=True)
    assert await table.list("default", limit=3, order="asc", after=stored[5].id) == Page(stored[6:], has_more=False)
    assert await table.list("default", limit=7, order="asc") == Page(stored, has_more=False)
    assert await table.list("default", limit=7, order="asc", after=stored[6].id) == Page([], has_more=False)
    assert await table.list("default", limit=2) == Page(stored[:4:-1], has_more=True)
    assert await table.list("default", limit=5, after=stored[4].id) == Page(stored[3::-1], has_more=False)


async def test_a_list_holds_one_tenants_containers_with_that_name_that_are_not_deleted(db: Database) -> None:
    table = Containers(db)
    stored = await some(db, 6)
    other = await table.insert(a_container(tenant="other"))
    await table.update(stored[0].id, status="deleted", ended_at=9)
    await table.update(stored[2].id, status="expired", ended_at=9)
    expired = replace(stored[2], status="expired", ended_at=9)
    assert await table.list("other", limit=9) == Page([other], has_more=False)
    assert await table.list("default", limit=9, order="asc", name="box 0") == Page([expired, stored[4]], has_more=False)
    after_a_deleted_one = await table.list("default", limit=1, order="asc", after=stored[0].id)
    assert after_a_deleted_one == Page([stored[1]], has_more=True)


async def test_the_operator_sees_everyones_and_those_with_a_box_apart(db: Database) -> None:
    table = Containers(db)
    sleeping = await table.insert(a_container(boot_id="b"))
    living = await table.insert(a_container(tenant="other", ref={"r": 1}, boot_id="b"))
    ended = await table.insert(a_container(status="expired", ended_at=3))
    await table.insert(a_container(status="deleted", ended_at=3))

    assert await table.housed() == [living]
    assert await table.everyones() == [ended, living, sleeping]
    assert await table.everyones("other") == [living]


async def test_a_page_behind_an_id_that_the_tenant_never_had_is_refused(db: Database) -> None:
    foreign = await Containers(db).insert(a_container(tenant="other"))
    for after in ("cntr_unknown", foreign.id):
        with pytest.raises(RequestInvalid, match="there is no") as refused:
            await Containers(db).list("default", limit=5, after=after)
        assert refused.value.param == "after"


async def test_the_idle_ones_are_those_unused_for_longer_than_their_own_time(db: Database) -> None:
    table = Containers(db)
    start = 1_000_000 * MICROSECONDS
    short, used, long_, ended = [
        await table.insert(a_container(last_active_at=start, idle_ttl=ttl, status=status))
        for ttl, status in ((60, "running"), (60, "running"), (3600, "running"), (60, "expired"))
    ]
    await table.touch(used.id, start + 30 * MICROSECONDS)
    await table.touch(used.id, start)
    now = start + 60 * MICROSECONDS
    assert await table.idle(now) == []
    assert await table.idle(now + 1) == [short]
    used = replace(used, last_active_at=start + 30 * MICROSECONDS)
    assert await table.running() == [short, used, long_]
    assert await table.get_any(ended.id) == ended


async def test_users_are_given_out_once_also_to_many_at_the_same_time(db: Database) -> None:
    given: list[int] = []

    async def ask() -> None:
        given.append(await Containers(db).next_user_id(1000, 20))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
    assert sorted(given) == list(range(1000, 1020))
    with pytest.raises(StoreFailed, match="All 20 users from 1000 on"):
        await Containers(db).next_user_id(1000, 20)


async def test_users_in_use_are_not_given_out_again_when_the_range_moves_to_and_fro(db: Database) -> None:
    table = Containers(db)
    first = await table.next_user_id(1000, 10)
    await table.insert(a_container(user_id=first, status="deleted"))
    below = await table.next_user_id(500, 10)
    await table.insert(a_container(user_id=below))
    again = await table.next_user_id(1000, 10)
    assert (first, below, again) == (1000, 500, 1001)
    assert await table.next_user_id(500, 1000) == 1002

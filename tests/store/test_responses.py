from dataclasses import replace

import pytest

from limpet.core.errors import StoreFailed
from limpet.core.events import IllegalMove
from limpet.store.database import Database
from limpet.store.responses import Responses
from tests.store.samples import a_response

pytestmark = pytest.mark.anyio


async def test_a_response_comes_back_as_it_was_stored_with_its_number(db: Database) -> None:
    table = Responses(db)
    first = await table.insert(
        a_response(
            container_id="cntr_1",
            previous_response_id="resp_0",
            background=True,
            completed_at=2**53,
            request={"text": "naïve ☃ \x00", "deep": [{"n": None, "f": 1.5, "b": True}]},
            usage={"total_tokens": 7},
            error={"code": "x"},
        )
    )
    second = await table.insert(a_response())
    assert await table.get("default", first.id) == first
    assert await table.get("default", second.id) == second
    assert 0 < first.number < second.number


async def test_text_that_no_encoding_knows_and_huge_numbers_survive(db: Database) -> None:
    record = await Responses(db).insert(a_response(request={"lone": "\ud800", "huge": 2**80, "negative": -(2**63)}))
    assert await Responses(db).get("default", record.id) == record


async def test_another_tenant_sees_nothing(db: Database) -> None:
    record = await Responses(db).insert(a_response())
    assert await Responses(db).get("other", record.id) is None
    assert await Responses(db).get("default", "resp_unknown") is None


async def test_an_id_is_stored_once(db: Database) -> None:
    record = await Responses(db).insert(a_response())
    with pytest.raises(StoreFailed, match=r"(?i)unique"):
        await Responses(db).insert(record)


async def test_the_first_end_of_a_response_holds(db: Database) -> None:
    table = Responses(db)
    record = await table.insert(a_response())
    assert await table.finish(record.id, status="failed", completed_at=5, usage=None, error={"code": "server_error"})
    assert not await table.finish(record.id, status="completed", completed_at=6, usage={"total_tokens": 1}, error=None)
    ended = replace(record, status="failed", completed_at=5, error={"code": "server_error"})
    assert await table.get("default", record.id) == ended
    assert not await table.finish("resp_unknown", status="completed", completed_at=6)


async def test_a_status_changes_only_along_the_table_of_moves(db: Database) -> None:
    table = Responses(db)
    record = await table.insert(a_response(status="queued"))
    assert not await table.finish(record.id, status="completed", completed_at=5)
    assert await table.update(record.id, status="in_progress", container_id="cntr_1")
    assert await table.update(record.id, status="in_progress", owner="there")
    with pytest.raises(IllegalMove):
        await table.update(record.id, status="queued", owner="nowhere")
    moved = replace(record, status="in_progress", container_id="cntr_1", owner="there")
    assert await table.get("default", record.id) == moved
    assert not await table.update("resp_unknown", owner="there")


async def test_the_unfinished_are_those_queued_or_in_progress_of_everybody(db: Database) -> None:
    table = Responses(db)
    kept = [
        await table.insert(a_response(status=status, tenant=status, owner=status))
        for status in ("in_progress", "completed", "queued", "failed", "incomplete", "cancelled")
    ]
    assert await table.unfinished() == [kept[0], kept[2]]


async def test_a_number_is_not_given_out_again_after_a_delete(db: Database) -> None:
    table = Responses(db)
    record = await table.insert(a_response())
    assert not await table.delete("other", record.id)
    assert await table.delete("default", record.id)
    assert not await table.delete("default", record.id)
    assert await table.get("default", record.id) is None
    assert (await table.insert(a_response())).number > record.number

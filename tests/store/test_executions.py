from dataclasses import replace
from pathlib import Path

import pytest

from limpet.core.errors import StoreFailed
from limpet.store.database import Database
from limpet.store.executions import Executions
from limpet.store.settings import DatabaseSettings
from tests.store.samples import an_execution

pytestmark = pytest.mark.anyio


async def test_an_intent_is_committed_when_it_returns(db: Database, database_url: str, tmp_path: Path) -> None:
    await Executions(db).intend(an_execution("resp_1"))
    if database_url == "sqlite::memory:":
        return
    async with Database(DatabaseSettings(url=database_url), home=tmp_path) as other:
        found = await Executions(other).of_response("resp_1")
    assert [(row.exec_id, row.boot_id, row.finished_at) for row in found] == [("resp_1.0.0.0", "boot-1", None)]


async def test_a_command_is_intended_once(db: Database) -> None:
    await Executions(db).intend(an_execution("resp_1"))
    with pytest.raises(StoreFailed, match=r"(?i)unique"):
        await Executions(db).intend(an_execution("resp_1", boot_id="boot-2"))
    assert await Executions(db).of_response("resp_1") == [an_execution("resp_1")]


async def test_the_first_outcome_of_a_command_holds(db: Database) -> None:
    table = Executions(db)
    intents = [an_execution("resp_1", index, container_id=f"cntr_{index % 2}") for index in range(4)]
    for intent in intents:
        await table.intend(intent)
    assert await table.finish(intents[0].exec_id, {"exited": 0}, 7)
    assert not await table.finish(intents[0].exec_id, {"lost": "its box is gone"}, 8)
    assert not await table.finish("resp_unknown.0.0.0", {"exited": 0}, 7)
    ended = replace(intents[0], outcome={"exited": 0}, finished_at=7)
    assert await table.of_response("resp_1") == [ended, *intents[1:]]
    assert await table.unfinished_in("cntr_0") == [intents[2]]
    assert await table.unfinished_in("cntr_1") == [intents[1], intents[3]]

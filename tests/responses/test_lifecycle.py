"""How a response ends: its row, its last event, and what its tenant has used up say the same."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from limpet.core.clock import SystemClock
from limpet.core.errors import StoreFailed
from limpet.responses.lifecycle import ResponseLifecycle
from limpet.responses.loop import Ending
from limpet.responses.metrics import Metrics
from limpet.responses.run_meter import Spendings
from limpet.responses.settings import BudgetSettings, TenantBudget
from limpet.responses.writer import Writer
from limpet.store.database import Database
from limpet.store.journal import TAKEN_OVER, Journal
from limpet.store.model_usage import ModelUsage
from limpet.store.responses import FIRST_EPOCH, Responses
from limpet.store.runs import LATEST, Runs
from limpet.store.settings import DatabaseSettings
from tests.store.samples import a_response

pytestmark = pytest.mark.anyio


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(DatabaseSettings(url="sqlite::memory:"), home=tmp_path) as db:
        yield db


@dataclass
class _CancellingClock(SystemClock):
    """Somebody cancels at the moment at which the end is written down."""

    scope: anyio.CancelScope

    def now(self) -> int:
        self.scope.cancel()
        return super().now()


def lifecycle_of(db: Database, clock: SystemClock) -> ResponseLifecycle:
    bounded = BudgetSettings(tenant=TenantBudget(max_turns=100))
    spendings = Spendings(ModelUsage(db), budgets=bounded, clock=clock)
    no_preparer = cast(Any, None)  # an end that is told asks it nothing
    return ResponseLifecycle(
        responses=Responses(db), preparer=no_preparer, spendings=spendings, clock=clock, metrics=Metrics()
    )


async def test_a_cancel_at_the_end_comes_too_late(db: Database) -> None:
    record = await Responses(db).insert(a_response())
    async with Journal(db) as journal:
        writer = Writer(journal.begin(record.id, tenant="default", stored=True, epoch=FIRST_EPOCH))
        with anyio.CancelScope() as scope:
            await lifecycle_of(db, _CancellingClock(scope)).finish(record, writer, Ending(status="completed"), None)
        await writer.close()
        told = [entry.type async for entry in journal.read(record.id)]
    ended = await Responses(db).get("default", record.id)
    assert ended is not None
    assert (ended.status, told) == ("completed", ["response.completed"])


async def test_a_run_that_another_process_carries_now_is_not_ended_here(db: Database) -> None:
    record = await Responses(db).insert(a_response())
    async with Journal(db) as journal:
        writer = Writer(journal.begin(record.id, tenant="default", stored=True, epoch=FIRST_EPOCH))
        await Runs(db).take_over("another", silent_since=LATEST, at=1)
        with pytest.raises(StoreFailed, match=TAKEN_OVER):
            await lifecycle_of(db, SystemClock()).finish(record, writer, Ending(status="failed"), None)
        await writer.close()
    unended = await Responses(db).get("default", record.id)
    assert unended is not None
    assert unended.status == "in_progress"

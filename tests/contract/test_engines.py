"""The lease engine holds what any engine must; engines with a fault are caught by the cases that ask for it, and by no other."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from limpet.store.database import Database
from limpet.store.settings import DatabaseSettings
from limpet.testing.engines import ENGINE_CASES, run_engine_case
from tests.support.engine_lab import DoubleStart, LeaseLab, LostWakeUp

pytestmark = pytest.mark.anyio
FAULTS = {
    "no_fence": ({"has_fence": False}, {"a_process_that_lost_its_run_appends_nothing_more"}),
    "double_start": ({"kind": DoubleStart}, {"a_run_that_is_started_twice_is_carried_once"}),
    "lost_wake_up": ({"kind": LostWakeUp}, {"every_run_is_carried_however_many_start_at_once"}),
}


@pytest.fixture(params=["memory", "postgres"])
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "postgres":
        with request.getfixturevalue("postgres").database() as url:
            yield url
    else:
        yield "sqlite::memory:"


@pytest.fixture
async def db(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(DatabaseSettings(url=database_url), home=tmp_path) as db:
        yield db


@pytest.mark.parametrize("name", ENGINE_CASES)
async def test_the_lease_engine_holds(name: str, db: Database) -> None:
    assert await run_engine_case(name, LeaseLab(db)) is None


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_bad_engine_is_caught_by_exactly_the_named_case(fault: str, tmp_path: Path) -> None:
    settings, named = FAULTS[fault]
    caught = set()
    for name in ENGINE_CASES:
        async with Database(DatabaseSettings(url="sqlite::memory:"), home=tmp_path) as db:
            within = 2.0 if name in named else 10.0
            if await run_engine_case(name, LeaseLab(db, **settings), within=within) is not None:
                caught.add(name)
    assert caught == named

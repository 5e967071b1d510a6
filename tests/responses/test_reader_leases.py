"""A foreground response lives by its readers, and for a grace time without any."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from limpet.core.clock import SystemClock
from limpet.responses.reader_leases import ReaderLeases
from limpet.store.database import Database
from limpet.store.responses import Responses
from limpet.store.runs import Runs
from limpet.store.settings import DatabaseSettings
from tests.store.samples import a_response

pytestmark = pytest.mark.anyio


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(DatabaseSettings(url="sqlite::memory:"), home=tmp_path) as db:
        yield db


def leases_of(db: Database, grace: float, expiries: "_Expiries") -> ReaderLeases:
    return ReaderLeases(grace, runs=Runs(db), clock=SystemClock(), expired=expiries.add)


class _Expiries:
    """The ids that expired, in order."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.news = anyio.Event()

    async def add(self, response_id: str) -> None:
        self.ids.append(response_id)
        self.news.set()
        self.news = anyio.Event()

    async def until(self, count: int) -> list[str]:
        with anyio.fail_after(5):
            while len(self.ids) < count:
                await self.news.wait()
        return self.ids


async def test_who_is_read_stays_and_who_was_left_expires(db: Database) -> None:
    expiries = _Expiries()
    async with leases_of(db, 0.05, expiries) as leases:
        leases.begin("read")
        leases.come("read")
        leases.come("read")
        leases.leave("read")  # one of two
        leases.begin("left")  # later, so that it expires later
        assert await expiries.until(1) == ["left"]
        leases.leave("read")
        assert await expiries.until(2) == ["left", "read"]


async def test_one_that_was_looked_at_gets_its_whole_time_again(db: Database) -> None:
    expiries = _Expiries()
    async with leases_of(db, 0.1, expiries) as leases:
        leases.begin("renewed")
        leases.begin("left")
        for _ in range(3):
            await anyio.sleep(0.02)
            await leases.renew(a_response(id="renewed"))
        assert await expiries.until(2) == ["left", "renewed"]


async def test_one_that_ended_never_expires(db: Database) -> None:
    expiries = _Expiries()
    async with leases_of(db, 0.05, expiries) as leases:
        leases.begin("ended")
        with leases.reading(a_response(id="ended")):
            leases.end("ended")
        leases.begin("left")
        assert await expiries.until(1) == ["left"]


async def test_a_reader_of_an_earlier_run_does_not_count_for_a_later_one(db: Database) -> None:
    expiries = _Expiries()
    async with leases_of(db, 0.05, expiries) as leases:
        leases.begin("again")
        with leases.reading(a_response(id="again")):
            leases.end("again")
            leases.begin("again")
            leases.come("again")
        leases.begin("left")
        assert await expiries.until(1) == ["left"]


class _SlowRuns(Runs):
    """Its database takes its time to say who reads elsewhere."""

    is_shared = True  # type: ignore[assignment]

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self.asked, self.answers = anyio.Event(), anyio.Event()

    async def seconds_since_read(self, response_id: str, *, now: int) -> float | None:
        self.asked.set()
        await self.answers.wait()
        return None


async def test_a_reader_who_comes_while_others_are_asked_for_counts(db: Database) -> None:
    expiries, runs = _Expiries(), _SlowRuns(db)
    async with ReaderLeases(0.01, runs=runs, clock=SystemClock(), expired=expiries.add) as leases:
        leases.begin("read")
        with anyio.fail_after(5):
            await runs.asked.wait()
        leases.come("read")
        runs.answers.set()
        leases.begin("left")
        assert await expiries.until(1) == ["left"]


async def test_a_reader_at_another_gateway_holds_it_too(postgres: Any, tmp_path: Path) -> None:
    """Both have one database; the reader's gateway carries neither of the runs."""
    expiries = _Expiries()
    with postgres.database() as url:
        async with Database(DatabaseSettings(url=url), home=tmp_path) as db:
            read, left = [await Responses(db).insert(a_response(owner="carrier")) for _ in range(2)]
            async with leases_of(db, 0.8, expiries) as carrier, leases_of(db, 0.8, expiries) as other:
                carrier.begin(read.id)
                with other.reading(read):
                    carrier.begin(left.id)
                    assert await expiries.until(1) == [left.id]
                assert await expiries.until(2) == [left.id, read.id]

"""Responses that ended long ago are deleted: all of them, with what belongs to them, and no chain from its middle."""

import pytest

from limpet.core.clock import MICROSECONDS
from limpet.responses.retention import AT_ONCE, DAY, RetentionSweep
from limpet.store.database import Database
from limpet.store.journal import Journal
from limpet.store.responses import Responses
from tests.containers.turned import TurnedClock
from tests.store.samples import a_response, entries

pytestmark = pytest.mark.anyio


async def ended(responses: Responses, at: int, **given: object) -> str:
    record = await responses.insert(a_response(**given))
    await responses.finish(record.id, status="completed", completed_at=at, items=[f"msg_of_{record.id}"])
    return record.id


async def test_what_is_older_goes_and_the_rest_stays(db: Database, journal: Journal) -> None:
    responses, clock = Responses(db), TurnedClock()
    now = clock.now()
    old, young = await ended(responses, now), await ended(responses, now + 2)
    running = (await responses.insert(a_response())).id
    log = journal.begin(old, tenant="default", stored=True)
    await log.append(*entries(0, 3))
    await log.close()
    clock.turn(2 * DAY)
    sweep = RetentionSweep(responses, days=2 - 1 / (DAY * MICROSECONDS), clock=clock)

    assert await sweep.sweep() == 1
    assert [await responses.get("default", id) is not None for id in (old, young, running)] == [False, True, True]
    assert [entry async for entry in journal.read(old)] == []
    assert set(await responses.holding("default", [f"msg_of_{old}", f"msg_of_{young}"])) == {f"msg_of_{young}"}


async def test_a_chain_is_whole_as_long_as_its_newest_response_is_kept(db: Database) -> None:
    responses, clock = Responses(db), TurnedClock()
    now = clock.now()
    first = await ended(responses, now)
    second = await ended(responses, now, previous_response_id=first)
    third = await ended(responses, now + DAY * MICROSECONDS, previous_response_id=second)
    clock.turn(1.5 * DAY)
    sweep = RetentionSweep(responses, days=1, clock=clock)

    assert await sweep.sweep() == 0
    clock.turn(DAY)
    assert await sweep.sweep() == 3
    assert await responses.get("default", third) is None


async def test_however_many_there_are_they_all_go(db: Database) -> None:
    responses, clock = Responses(db), TurnedClock()
    for _ in range(AT_ONCE + 1):
        await ended(responses, clock.now())
    clock.turn(2 * DAY)
    assert await RetentionSweep(responses, days=None, clock=clock).sweep() == 0
    assert await RetentionSweep(responses, days=1, clock=clock).sweep() == AT_ONCE + 1

"""Who carries a response: claims, and the fence that keeps every other process out of its journal."""

import anyio
import pytest

from limpet.core.errors import StoreFailed
from limpet.store.database import Database
from limpet.store.entries import Entry
from limpet.store.journal import TAKEN_OVER, Journal
from limpet.store.responses import FIRST_EPOCH, Responses
from limpet.store.runs import RunClaim, Runs
from tests.store.samples import a_response, entries

pytestmark = pytest.mark.anyio
SECOND = 1_000_000  # microseconds; what two clocks differ by is far less


async def _read(journal: Journal, response_id: str) -> list[Entry]:
    return [entry async for entry in journal.read(response_id)]


async def test_an_unfinished_run_is_claimed_by_one_process_only(db: Database) -> None:
    runs, responses = Runs(db), Responses(db)
    left = [(await responses.insert(a_response(owner="a"))).id for _ in range(2)]
    beating = (await responses.insert(a_response(owner="a"))).id
    await runs.beat([beating], owner="a", at=10 * SECOND)
    ended = (await responses.insert(a_response(owner="a"))).id
    await responses.finish(ended, status="completed", completed_at=2)
    claims: list[RunClaim] = []

    async def claim(owner: str) -> None:
        claims.extend(await runs.take_over(owner, silent_since=5 * SECOND, at=6 * SECOND))

    async with anyio.create_task_group() as group:
        group.start_soon(claim, "b")
        group.start_soon(claim, "c")

    assert [claim.response_id for claim in claims] == left
    assert {claim.epoch for claim in claims} == {FIRST_EPOCH + 1}


async def test_a_checkpoint_is_committed_with_the_entries_before_it(db: Database, journal: Journal) -> None:
    responses = Responses(db)
    kept = await responses.insert(a_response(owner="a"), checkpoint=b"from the start")
    changed = await responses.insert(a_response(owner="a"))
    log = journal.begin(changed.id, tenant="default", stored=True, epoch=FIRST_EPOCH)
    async with db.turn:  # the writer cannot begin
        await log.append(*entries(0, 1), checkpoint=b"one")
        await log.append(checkpoint=b"two")
        await log.append(*entries(2, 3))
    await log.close()

    claims = {
        claim.response_id: claim for claim in await Runs(db).take_over("b", silent_since=5 * SECOND, at=6 * SECOND)
    }

    assert claims[kept.id].checkpoint == b"from the start"
    assert claims[changed.id].checkpoint == b"two"
    assert await _read(journal, changed.id) == entries(0, 3)


async def test_a_process_whose_run_was_taken_over_does_not_end_it(db: Database) -> None:
    responses = Responses(db)
    record = await responses.insert(a_response(owner="asleep"), checkpoint=b"kept")
    (claim,) = await Runs(db).take_over("awake", silent_since=5 * SECOND, at=6 * SECOND)
    with pytest.raises(StoreFailed, match=TAKEN_OVER):
        await responses.finish(record.id, status="failed", completed_at=7, epoch=FIRST_EPOCH)

    unended = await responses.get("default", record.id)
    assert unended is not None
    assert unended.status == "in_progress"
    (again,) = await Runs(db).take_over("third", silent_since=13 * SECOND // 2, at=7 * SECOND)
    assert again.checkpoint == b"kept"
    assert not await responses.finish("resp_unknown", status="failed", completed_at=7, epoch=claim.epoch)
    assert await responses.finish(record.id, status="completed", completed_at=8, epoch=again.epoch)


async def test_a_process_whose_run_was_taken_over_appends_nothing_more(db: Database, journal: Journal) -> None:
    """Also not in one batch with logs of others, which are kept."""
    responses = Responses(db)
    mine, others = [await responses.insert(a_response(owner=owner)) for owner in ("asleep", "awake")]
    log, other = [
        journal.begin(record.id, tenant="default", stored=True, epoch=FIRST_EPOCH) for record in (mine, others)
    ]
    await log.append(*entries(0, 0))
    await log.flush()

    await Runs(db).take_over("awake", silent_since=5 * SECOND, at=6 * SECOND)
    async with db.turn:
        await log.append(*entries(1, 2), checkpoint=b"stale")
        await other.append(*entries(0, 2))
    await other.flush()
    with pytest.raises(StoreFailed, match=TAKEN_OVER):
        await log.flush()

    assert await _read(journal, mine.id) == entries(0, 0)
    assert (await Runs(db).take_over("third", silent_since=13 * SECOND // 2, at=7 * SECOND))[0].checkpoint is None

import anyio
import pytest

from limpet.core.errors import StoreFailed
from limpet.store.database import Database
from limpet.store.entries import PAGE, Entry
from limpet.store.executions import Executions
from limpet.store.journal import UNCOMMITTED_ENTRIES, Journal
from limpet.store.open_journal import RING_ENTRIES, OpenJournal
from limpet.store.responses import Responses
from tests.store.samples import a_response, an_execution, entries

pytestmark = pytest.mark.anyio


async def a_log(db: Database, journal: Journal) -> OpenJournal:
    record = await Responses(db).insert(a_response())
    return journal.begin(record.id, tenant="default", stored=True)


async def read(journal: Journal, log: OpenJournal, after: int = -1) -> list[Entry]:
    return [entry async for entry in journal.read(log.response_id, after=after)]


async def tail(journal: Journal, log: OpenJournal, after: int = -1) -> list[Entry]:
    with anyio.fail_after(5):
        return [entry async for entry in journal.tail(log.response_id, after=after)]


async def test_what_was_flushed_is_read_back_whole_and_in_order(db: Database, journal: Journal) -> None:
    log = await a_log(db, journal)
    written = [
        Entry(seq=0, step=0, type="response.created", data=b'{"a":1}'),
        Entry(seq=1, step=2, type="x", data=b"{}", exec_id="e.1", stream="stderr", raw_offset=2**40),
    ]
    await log.append(*written)
    await log.flush()
    assert await read(journal, log) == written


@pytest.mark.parametrize("count", [0, 1, PAGE, PAGE + 1, 3 * RING_ENTRIES])
async def test_a_tail_begins_exactly_behind_the_given_number(db: Database, journal: Journal, count: int) -> None:
    log = await a_log(db, journal)
    written = entries(0, count - 1)
    for start in range(0, count, 100):
        await log.append(*written[start : start + 100])
    await log.close()
    for after in {-2, -1, 0, count // 2, count - 2, count - 1, count, count + 1000}:
        wanted = written[max(after, -1) + 1 :]
        assert await tail(journal, log, after) == wanted
        assert await read(journal, log, after) == wanted


async def test_a_tail_sees_an_entry_only_once_it_is_committed(db: Database, journal: Journal) -> None:
    log = await a_log(db, journal)
    async with db.turn:  # the writer cannot begin
        await log.append(*entries(0, 2))
        with anyio.move_on_after(0.05) as waited:
            await anext(journal.tail(log.response_id))
        assert waited.cancelled_caught
        assert await read(journal, log) == []
    await log.flush()
    assert await read(journal, log) == entries(0, 2)


async def test_a_tail_follows_a_writer_live_and_ends_when_the_log_is_closed(db: Database, journal: Journal) -> None:
    log = await a_log(db, journal)
    seen: list[Entry] = []
    arrived = anyio.Event()

    async def follow() -> None:
        async for entry in journal.tail(log.response_id):
            seen.append(entry)
            arrived.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            for seq in range(20):
                arrived = anyio.Event()
                await log.append(*entries(seq, seq))
                await arrived.wait()
            await log.close()
    assert seen == entries(0, 19)


async def test_a_tail_that_fell_behind_the_memory_joins_again_without_gap_or_repeat(
    db: Database, journal: Journal
) -> None:
    log = await a_log(db, journal)
    await log.append(*entries(0, 4))
    await log.flush()
    slow = journal.tail(log.response_id)
    seen = [await anext(slow)]
    for start in range(5, 5 * RING_ENTRIES, 256):
        await log.append(*entries(start, start + 255))
    await log.flush()
    last = log.live(-1)
    assert last is None, "the beginning is no longer in memory"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.close)
        with anyio.fail_after(5):
            seen += [entry async for entry in slow]
    assert seen == entries(0, len(seen) - 1)
    assert len(seen) > 4 * RING_ENTRIES


async def test_memory_gives_all_that_is_behind_a_number_or_says_that_it_cannot(db: Database, journal: Journal) -> None:
    log = await a_log(db, journal)
    last = RING_ENTRIES + 9
    await log.append(*entries(0, last))
    await log.flush()
    assert log.remembered() == entries(10, last)
    for after in (-1, 8, 9, 10, last - 1, last, last + 1):
        assert log.live(after) == (None if after < 9 else entries(after + 1, last))
        assert await read(journal, log, after) == entries(after + 1, last)


async def test_large_entries_are_kept_in_memory_only_up_to_a_bound(db: Database, journal: Journal) -> None:
    log = await a_log(db, journal)
    written = entries(0, 9, size=100_000)
    await log.append(*written)
    await log.flush()
    assert len(log.remembered()) < 4
    await log.close()
    assert await tail(journal, log) == written


async def test_a_log_that_is_resumed_goes_on_where_it_was(db: Database) -> None:
    async with Journal(db) as first:
        log = await a_log(db, first)
        await log.append(*entries(0, 9))
    async with Journal(db) as second:
        assert not second.is_open(log.response_id)
        again = second.resume(log.response_id, tenant="default", next_seq=10)
        assert second.is_open(log.response_id)
        await again.append(*entries(10, 12))
        await again.close()
        assert not second.is_open(log.response_id)
        assert await tail(second, log) == entries(0, 12)


async def test_leaving_the_journal_commits_what_was_appended_and_ends_tails(db: Database) -> None:
    seen: list[Entry] = []

    async def follow(journal: Journal, log: OpenJournal) -> None:
        seen.extend(await tail(journal, log))

    async with anyio.create_task_group() as tasks, Journal(db) as journal:
        log = await a_log(db, journal)
        tasks.start_soon(follow, journal, log)
        await log.append(*entries(0, 99))
    assert seen == entries(0, 99)
    with pytest.raises(ValueError, match="closed"):
        await log.append(*entries(100, 100))


async def test_a_close_that_is_cancelled_still_shows_tails_all_that_was_appended(
    db: Database, journal: Journal
) -> None:
    log = await a_log(db, journal)
    seen: list[Entry] = []

    async def follow() -> None:
        seen.extend(await tail(journal, log))

    async with anyio.create_task_group() as tasks, db.turn:
        tasks.start_soon(follow)
        await log.append(*entries(0, 4))
        with anyio.move_on_after(0.02) as waited:
            await log.close()
        assert waited.cancelled_caught
        assert not journal.is_open(log.response_id)
        late = journal.tail(log.response_id)
    assert seen == entries(0, 4)
    assert [entry async for entry in late] == entries(0, 4)


async def test_a_log_that_is_not_stored_leaves_nothing_on_disk_and_lives_until_it_is_forgotten(
    db: Database, journal: Journal
) -> None:
    log = journal.begin("resp_memory", tenant="default", stored=False)
    await log.append(*entries(0, 3 * RING_ENTRIES))
    await log.flush()
    await log.close()
    assert await tail(journal, log) == entries(0, 3 * RING_ENTRIES)
    assert await tail(journal, log, 5) == entries(6, 3 * RING_ENTRIES)
    assert [entry async for entry in Journal(db).read("resp_memory")] == []
    await journal.forget("resp_memory")
    assert await tail(journal, log) == []


async def test_a_wrong_number_is_refused_and_nothing_of_that_call_is_taken(db: Database, journal: Journal) -> None:
    log = await a_log(db, journal)
    await log.append(*entries(0, 1))
    with pytest.raises(ValueError, match="number 2, not 3"):
        await log.append(*entries(3, 3))
    with pytest.raises(ValueError, match="number 3, not 5"):
        await log.append(*entries(2, 2), *entries(5, 5))
    await log.append(*entries(2, 2))
    await log.close()
    assert await tail(journal, log) == entries(0, 2)


async def test_a_log_whose_response_is_not_stored_fails_alone(db: Database, journal: Journal) -> None:
    good, bad = await a_log(db, journal), journal.begin("resp_nobody", tenant="default", stored=True)
    async with db.turn:  # so that both are in one batch
        await good.append(*entries(0, 4))
        await bad.append(*entries(0, 4))
    await good.flush()
    with pytest.raises(StoreFailed):
        await bad.flush()
    with pytest.raises(StoreFailed):
        await bad.append(*entries(5, 5))
    with pytest.raises(StoreFailed):
        await tail(journal, bad)
    with pytest.raises(StoreFailed):
        await bad.close()
    assert not journal.is_open("resp_nobody")
    await good.append(*entries(5, 5))
    await good.close()
    assert await tail(journal, good) == entries(0, 5)


async def test_forgetting_an_open_log_ends_its_tails_and_refuses_more(db: Database, journal: Journal) -> None:
    log = await a_log(db, journal)
    await log.append(*entries(0, 4))
    await log.flush()
    seen: list[Entry] = []
    begun = anyio.Event()

    async def follow() -> None:
        async for entry in journal.tail(log.response_id):
            seen.append(entry)
            begun.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await begun.wait()
            await log.append(*entries(5, 9))
            await journal.forget(log.response_id)
    assert seen == entries(0, len(seen) - 1)
    assert await read(journal, log) == []
    with pytest.raises(StoreFailed, match="deleted"):
        await log.append(*entries(10, 10))
    with pytest.raises(StoreFailed, match="deleted"):
        await log.flush()


async def test_deleting_a_response_deletes_its_journal_and_its_executions(db: Database, journal: Journal) -> None:
    log, other = await a_log(db, journal), await a_log(db, journal)
    for each in (log, other):
        await each.append(*entries(0, 4))
        await each.close()
        await Executions(db).intend(an_execution(each.response_id))
    assert not await Responses(db).delete("another tenant", log.response_id)
    assert await read(journal, log) == entries(0, 4)
    assert await Responses(db).delete("default", log.response_id)
    assert await read(journal, log) == []
    assert await Executions(db).of_response(log.response_id) == []
    assert await read(journal, other) == entries(0, 4)
    assert len(await Executions(db).of_response(other.response_id)) == 1


async def test_appending_waits_while_too_much_is_uncommitted(db: Database, journal: Journal) -> None:
    log = await a_log(db, journal)
    async with db.turn:
        await log.append(*entries(0, UNCOMMITTED_ENTRIES - 1))
        with anyio.move_on_after(0.05) as waited:
            await log.append(*entries(UNCOMMITTED_ENTRIES, UNCOMMITTED_ENTRIES))
        assert waited.cancelled_caught
    # It was cancelled, so it took nothing: the number is still free.
    await log.append(*entries(UNCOMMITTED_ENTRIES, UNCOMMITTED_ENTRIES))
    await log.close()
    assert len(await read(journal, log)) == UNCOMMITTED_ENTRIES + 1


async def test_rows_are_written_in_between_while_a_journal_writes_without_pause(db: Database, journal: Journal) -> None:
    log = await a_log(db, journal)
    done = anyio.Event()

    async def write_without_pause() -> None:
        seq = 0
        while not done.is_set():
            await log.append(*entries(seq, seq + 99))
            seq += 100
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_without_pause)
            for index in range(30):
                await Executions(db).intend(an_execution(log.response_id, index))
            done.set()
    assert len(await Executions(db).of_response(log.response_id)) == 30


async def test_a_thousand_logs_at_once_each_get_their_own_entries(db: Database, journal: Journal) -> None:
    logs = [await a_log(db, journal) for _ in range(1000)]

    async def write(log: OpenJournal) -> None:
        for seq in range(5):
            await log.append(*entries(seq, seq))
        await log.close()

    async with anyio.create_task_group() as tasks:
        for log in logs:
            tasks.start_soon(write, log)
    for log in logs[::50]:
        assert await read(journal, log) == entries(0, 4)


async def test_a_journal_that_is_left_by_cancellation_commits_what_was_appended(db: Database) -> None:
    with anyio.CancelScope() as scope:
        async with Journal(db) as journal:
            log = await a_log(db, journal)
            await log.append(*entries(0, 499))
            scope.cancel()
            await anyio.sleep(5)
    assert scope.cancelled_caught
    assert await read(Journal(db), log) == entries(0, 499)

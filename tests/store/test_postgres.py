"""What is PostgreSQL's own: whose database it is, how it is brought up to date, and several processes that write to it at once."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from anyio import to_thread
from sqlalchemy import create_engine

from limpet.core.errors import StoreFailed
from limpet.store.database import Database
from limpet.store.entries import Entry
from limpet.store.journal import TAKEN_OVER, Journal
from limpet.store.postgres import locate_server, without_password
from limpet.store.postgres_schema import migrate
from limpet.store.responses import FIRST_EPOCH, Responses
from limpet.store.runs import Runs
from limpet.store.schema import head
from limpet.store.settings import DatabaseSettings
from limpet.store.tables import metadata
from tests.store.samples import a_response, entries
from tests.store.test_database import later_steps, refusal
from tests.support.postgres import PASSWORD, Server

pytestmark = pytest.mark.anyio
SECOND = 1_000_000  # more than clocks of one machine differ by


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    """Of a database with today's tables."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def empty(postgres: Server) -> Iterator[str]:
    with postgres.database(migrated=False) as url:
        yield url


@pytest.fixture
async def nodes(url: str, tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    """The same database as two processes have it."""
    settings = DatabaseSettings(url=url)
    async with Database(settings, home=tmp_path) as one, Database(settings, home=tmp_path) as other:
        yield one, other


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


async def test_many_that_open_an_empty_database_at_once_make_one_set_of_tables(
    empty: str, postgres: Server, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:

        async def open_it() -> None:
            await stack.enter_async_context(Database(DatabaseSettings(url=empty), home=tmp_path))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(open_it)
    assert postgres.query(name_of(empty), "SELECT version_num FROM alembic_version") == [(head(),)]
    with create_engine(locate_server(empty).url).connect() as connection:
        compared = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(compared, metadata) == []


@pytest.mark.parametrize("fails", [False, True])
async def test_an_older_database_is_brought_up_to_date_or_left_as_it_was(
    url: str, postgres: Server, tmp_path: Path, fails: bool
) -> None:
    async with Database(DatabaseSettings(url=url), home=tmp_path) as db:
        await Responses(db).insert(a_response())
    before = postgres.dump(name_of(url))
    steps = later_steps(tmp_path, fails=fails)
    step = steps / "versions" / "later.py"
    step.write_text(step.read_text().replace(', recreate="always"', ""))
    engine = create_engine(locate_server(url).url)
    if fails:
        with pytest.raises(RuntimeError, match="half-way"):
            await to_thread.run_sync(lambda: migrate(engine, locate_server(url), migrations=steps))
    else:
        await to_thread.run_sync(lambda: migrate(engine, locate_server(url), migrations=steps))
        assert postgres.query(name_of(url), "SELECT count(*), count(later) FROM responses") == [(1, 0)]
    engine.dispose()
    assert (_without_noise(postgres.dump(name_of(url))) == _without_noise(before)) is fails


def _without_noise(dump: str) -> list[str]:
    """Without the words that pg_dump makes up anew each time."""
    return [line for line in dump.splitlines() if not line.startswith("\\")]


async def test_what_cannot_be_used_is_refused_in_words_and_left_alone(
    url: str, empty: str, postgres: Server, tmp_path: Path
) -> None:
    postgres.query(name_of(url), "UPDATE alembic_version SET version_num = '0999'")
    postgres.query(name_of(empty), "CREATE TABLE theirs (id integer)")
    assert f"A newer Limpet wrote it (tables 0999; this one knows them up to {head()})" in await refusal(tmp_path, url)
    assert "It belongs to another program. Make a database for Limpet alone" in await refusal(tmp_path, empty)
    postgres.query(name_of(empty), "CREATE TABLE alembic_version (version_num text)")
    assert "It belongs to another program" in await refusal(tmp_path, empty)
    said = await refusal(tmp_path, postgres.url("no_such"))
    assert 'database "no_such" does not exist. Look whether the server runs' in said
    assert PASSWORD not in said
    assert "Connection refused" in await refusal(tmp_path, f"postgresql://me:{PASSWORD}@127.0.0.1:1/limpet")
    assert "It names no database. Write it as" in await refusal(tmp_path, "postgresql://127.0.0.1")


@pytest.mark.parametrize(
    "url, shown",
    [
        ("postgresql://me:a%40b:c@db:5432/x", "postgresql://me@db:5432/x"),
        ("postgresql://db/x?user=me&password=secret&sslmode=require", "postgresql://db/x?user=me&sslmode=require"),
        ("postgresql:///x?password=secret", "postgresql:///x"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown
    assert locate_server(url).shown == shown


async def test_a_run_cannot_be_claimed_between_the_look_at_its_epoch_and_the_commit(
    nodes: tuple[Database, Database],
) -> None:
    """And what was claimed takes nothing more: whichever comes first, all that is in the journal was written by the run's owner."""
    mine, others = nodes
    record = await Responses(mine).insert(a_response(owner="asleep"))
    async with Journal(mine) as journal:
        log = journal.begin(record.id, tenant="default", stored=True, epoch=FIRST_EPOCH)
        kept: list[int] = []

        async def write() -> None:
            with pytest.raises(StoreFailed, match=TAKEN_OVER):
                for seq in itertools.count():
                    await log.append(*entries(seq, seq))
                    await log.flush()
                    begun.set()

        begun = anyio.Event()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                await begun.wait()
                while not await Runs(others).take_over("awake", silent_since=SECOND, at=2 * SECOND):
                    pass  # a batch held it at that moment
                kept = [entry.seq for entry in await _all(journal, record.id)]
        assert [entry.seq for entry in await _all(journal, record.id)] == kept == list(range(len(kept)))


async def test_two_that_claim_at_once_share_the_runs_and_wait_for_nobody_asleep(
    nodes: tuple[Database, Database],
) -> None:
    left = {(await Responses(nodes[0]).insert(a_response(owner="dead"))).id for _ in range(40)}
    claims: list[str] = []

    async def claim(db: Database, owner: str) -> None:
        claims.extend(
            claim.response_id for claim in await Runs(db).take_over(owner, silent_since=SECOND, at=2 * SECOND)
        )

    async with anyio.create_task_group() as tasks:
        for index in range(8):
            tasks.start_soon(claim, nodes[index % 2], f"node-{index}")
    for _ in range(2):  # what another held locked at that moment is left for the next time
        await claim(nodes[0], "last")
    assert sorted(claims) == sorted(left)


async def test_a_journal_whose_connection_breaks_goes_on_with_a_new_one(
    nodes: tuple[Database, Database], postgres: Server, url: str
) -> None:
    record = await Responses(nodes[0]).insert(a_response(owner="here"))
    async with Journal(nodes[0]) as journal:
        log = journal.begin(record.id, tenant="default", stored=True, epoch=FIRST_EPOCH)
        for seq in range(10):
            await log.append(*entries(seq, seq))
            await log.flush()
            postgres.query(
                "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name_of(url)
            )
        await log.close()
        assert await _all(journal, record.id) == entries(0, 9)


async def _all(journal: Journal, response_id: str) -> list[Entry]:
    return [entry async for entry in journal.read(response_id)]

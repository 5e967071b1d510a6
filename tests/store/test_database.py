import asyncio
import re
import shutil
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, func, insert, select, text

from limpet.core.errors import DatabaseUnusable, StoreFailed
from limpet.store.database import Database
from limpet.store.records import columns_of
from limpet.store.responses import Responses
from limpet.store.schema import MIGRATIONS, prepare
from limpet.store.settings import DatabaseSettings
from limpet.store.sqlite import locate
from limpet.store.tables import metadata, responses
from tests.store.disk import Disk
from tests.store.samples import a_response

pytestmark = pytest.mark.anyio

NEXT_STEP = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "later", "HEAD"
def upgrade():
    op.create_table("later", sa.Column("id", sa.Text))
    with op.batch_alter_table("responses", recreate="always") as table:
        table.add_column(sa.Column("later", sa.Text))
    FAIL
"""


async def opened(home: Path, url: str = "") -> None:
    async with Database(DatabaseSettings(url=url), home=home):
        pass


async def refusal(home: Path, url: str = "") -> str:
    with pytest.raises(DatabaseUnusable) as refused:
        await opened(home, url)
    return str(refused.value)


def content(home: Path) -> list[str]:
    connection = sqlite3.connect(home / "limpet.db")
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def change(home: Path, *statements: str) -> None:
    connection = sqlite3.connect(home / "limpet.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def with_a_response_and_its_journal(home: Path) -> None:
    async with Database(DatabaseSettings(), home=home) as db:
        record = await Responses(db).insert(a_response())
        async with db.writing() as connection:
            await connection.execute(
                text(
                    "INSERT INTO journal (response_id, seq, tenant, step, type, data) VALUES (:id, 0, 't', 0, 'x', 'y')"
                ),
                {"id": record.id},
            )


def head() -> str:
    return ScriptDirectory(str(MIGRATIONS)).get_current_head() or ""


def later_steps(tmp_path: Path, *, fails: bool) -> Path:
    steps = tmp_path / "steps"
    shutil.copytree(MIGRATIONS, steps, ignore=shutil.ignore_patterns("__pycache__"))
    last = NEXT_STEP.replace("FAIL", "raise RuntimeError('half-way')" if fails else "").replace("HEAD", head())
    (steps / "versions" / "later.py").write_text(last)
    return steps


async def test_a_new_file_is_ours_alone_and_written_ahead(tmp_path: Path) -> None:
    async with Database(DatabaseSettings(), home=tmp_path) as db, db.reading() as connection:
        pragmas = {
            name: (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert pragmas == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 5000}
    assert modes == dict.fromkeys(("limpet.db", "limpet.db-wal", "limpet.db-shm"), 0o600)


@pytest.mark.parametrize("url", ["sqlite:///{}/other name?%.db", "sqlite:{}/other name?%.db"])
async def test_a_url_names_the_file(tmp_path: Path, url: str) -> None:
    await opened(tmp_path, url.format(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["other name?%.db"]


async def test_a_database_in_memory_leaves_no_file_and_is_not_shared(tmp_path: Path) -> None:
    settings = DatabaseSettings(url="sqlite::memory:")
    async with Database(settings, home=tmp_path) as one, Database(settings, home=tmp_path) as other:
        record = await Responses(one).insert(a_response())
        assert await Responses(one).get("default", record.id) == record
        assert await Responses(other).get("default", record.id) is None
    assert list(tmp_path.iterdir()) == []


async def test_the_steps_lead_to_exactly_the_tables(tmp_path: Path) -> None:
    await opened(tmp_path)
    with create_engine(f"sqlite:///{tmp_path}/limpet.db").connect() as connection:
        compared = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(compared, metadata) == []
    assert all("tenant" in table.c for table in metadata.tables.values())


async def test_the_names_of_keys_are_the_same_from_the_steps_and_from_the_tables(tmp_path: Path) -> None:
    await opened(tmp_path)
    created = create_engine("sqlite://")
    metadata.create_all(created)
    tables = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%' AND sql IS NOT NULL ORDER BY name"

    def words(sql: str) -> list[str]:
        """The definition's parts, in any order: where a column was added later, and where a key stands, makes no difference."""
        head, _, inside = sql.rpartition(")")[0].partition("(")
        return sorted(" ".join(part.split()) for part in [head, *re.split(r",(?![^(]*\))", inside)])

    with created.connect() as connection:
        wanted = {name: words(sql) for name, sql in connection.exec_driver_sql(tables)}
    with create_engine(f"sqlite:///{tmp_path}/limpet.db").connect() as connection:
        assert {name: words(sql) for name, sql in connection.exec_driver_sql(tables)} == wanted


async def test_an_older_database_is_brought_up_to_date_and_keeps_its_rows(tmp_path: Path) -> None:
    await with_a_response_and_its_journal(tmp_path)
    prepare(locate("", home=tmp_path), migrations=later_steps(tmp_path, fails=False)).close()
    rows = content(tmp_path)
    assert sum('INSERT INTO "journal"' in row for row in rows) == 1
    assert any('CREATE TABLE "later"' in row or "CREATE TABLE later" in row for row in rows)


async def test_a_step_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    await with_a_response_and_its_journal(tmp_path)
    before = content(tmp_path)
    with pytest.raises(RuntimeError, match="half-way"):
        prepare(locate("", home=tmp_path), migrations=later_steps(tmp_path, fails=True))
    assert content(tmp_path) == before
    await opened(tmp_path)


async def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    await opened(tmp_path)
    change(tmp_path, "UPDATE alembic_version SET version_num = '0999'")
    before = content(tmp_path)
    said = await refusal(tmp_path)
    assert f"A newer Limpet wrote it (tables 0999; this one knows them up to {head()})" in said
    assert content(tmp_path) == before


async def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    change(tmp_path, "CREATE TABLE theirs (id)")
    before = (tmp_path / "limpet.db").read_bytes()
    assert "It belongs to another program" in await refusal(tmp_path)
    assert (tmp_path / "limpet.db").read_bytes() == before


@pytest.mark.parametrize("size", [10, 5000])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, size: int) -> None:
    (tmp_path / "limpet.db").write_bytes(b"garbage!" * size)
    assert "not a database" in await refusal(tmp_path)
    assert (tmp_path / "limpet.db").read_bytes() == b"garbage!" * size


@pytest.mark.parametrize("held", ["new", "ours"])
async def test_a_locked_database_is_refused(tmp_path: Path, held: str) -> None:
    if held == "ours":
        await opened(tmp_path)
    other = sqlite3.connect(tmp_path / "limpet.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert "Another program holds it locked. Stop that program" in await refusal(tmp_path)
    other.close()
    await opened(tmp_path)


async def test_a_read_only_disk_is_refused(disk: Disk) -> None:
    await opened(disk.path)
    disk.make_read_only()
    assert "Read-only file system" in await refusal(disk.path)


async def test_a_full_disk_is_refused_and_works_once_there_is_room(disk: Disk) -> None:
    disk.fill(leaving=8192)
    assert "Its disk is full" in await refusal(disk.path)
    disk.empty()
    await opened(disk.path)


@pytest.mark.parametrize(
    "url, said",
    [
        ("postgresql+asyncpg://db/limpet", "'postgresql+asyncpg' is not a kind of database. Write"),
        ("mysql://db/limpet", "'mysql' is not a kind of database. Write"),
        ("limpet.db", "'limpet.db' is not a kind of database. Write"),
        ("sqlite:", "It names no file"),
        ("sqlite:///dir/", "It names no file"),
        ("sqlite:////", "It names no file"),
        ("sqlite:////no/such/dir/x.db", "No such file or directory"),
        ("sqlite:////tmp", "It is a directory"),
    ],
)
async def test_a_url_that_cannot_be_used_is_refused_with_what_would_be_right(
    tmp_path: Path, url: str, said: str
) -> None:
    sentence = await refusal(tmp_path, url)
    assert said in sentence
    assert "secret" not in sentence
    assert list(tmp_path.iterdir()) == []


async def test_what_a_block_wrote_is_undone_when_it_raises(db: Database) -> None:
    with pytest.raises(LookupError):
        async with db.writing() as connection:
            await connection.execute(text("INSERT INTO counters VALUES ('t', 'n', 1)"))
            raise LookupError
    with pytest.raises(StoreFailed):
        async with db.writing() as connection:
            await connection.execute(text("INSERT INTO counters VALUES ('t', 'n', 1)"))
            await connection.execute(text("INSERT INTO counters VALUES ('t', 'n', 2)"))
    async with db.reading() as connection:
        assert (await connection.execute(text("SELECT * FROM counters"))).all() == []


async def test_calls_that_are_cancelled_at_any_moment_cost_nothing(db: Database) -> None:
    table = Responses(db)
    records = [a_response() for _ in range(60)]

    async def some_calls(index: int) -> None:
        with anyio.move_on_after(index / 5000):
            await table.insert(records[index])
            await table.get("default", records[index].id)

    async def killed_calls(index: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(index / 5000, task.cancel)
        with suppress(asyncio.CancelledError):
            await table.insert(replace(records[index], id=f"{records[index].id}-again"))
            await table.get("default", records[index].id)
            await anyio.sleep(1)

    async with anyio.create_task_group() as tasks:
        for index in range(len(records)):
            tasks.start_soon(some_calls, index)
            tasks.start_soon(killed_calls, index)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(table.insert, a_response())
        assert len(await table.unfinished()) >= 20


async def test_a_write_is_one_transaction_that_readers_see_whole_or_not_at_all(tmp_path: Path) -> None:
    record = a_response()

    def insert_and_break(connection: Connection) -> None:
        connection.execute(insert(responses).values(columns_of(record)))
        raise ZeroDivisionError

    def count(connection: Connection) -> int:
        return int(connection.execute(select(func.count()).select_from(responses)).scalar_one())

    async with Database(DatabaseSettings(), home=tmp_path) as db:
        with pytest.raises(ZeroDivisionError):
            await db.write(insert_and_break)
        assert await db.read(count) == 0
        await db.write(lambda connection: connection.execute(insert(responses).values(columns_of(record))))
        assert await db.read(count) == 1
        with pytest.raises(StoreFailed):
            await db.write(lambda connection: connection.execute(insert(responses).values(columns_of(record))))
        assert await db.read(count) == 1

"""All rows of one database in another: by a backup or at once, between the two kinds, while there are writers."""

import gzip
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from limpet.core.errors import DatabaseUnusable
from limpet.store import backup
from limpet.store.backup import BackupUnreadable
from limpet.store.containers import Containers
from limpet.store.database import Database, backend_of
from limpet.store.executions import Executions
from limpet.store.files import ContainerFiles
from limpet.store.journal import Journal
from limpet.store.keys import ApiKeys, NewKey
from limpet.store.responses import Responses
from limpet.store.settings import DatabaseSettings
from tests.store.samples import a_container, a_file, a_response, an_execution, entries

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024


class Empty:
    """New databases of either kind."""

    def __init__(self, request: pytest.FixtureRequest, directory: Path, stack: ExitStack) -> None:
        self._request, self._directory, self._stack = request, directory, stack
        self._count = 0

    def settings(self, kind: str) -> DatabaseSettings:
        self._count += 1
        if kind == "sqlite":
            return DatabaseSettings(url=f"sqlite:{self._directory}/{self._count}.db")
        server = self._request.getfixturevalue("postgres")
        return DatabaseSettings(url=self._stack.enter_context(server.database(migrated=False)))


@pytest.fixture
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Empty]:
    with ExitStack() as stack:
        yield Empty(request, tmp_path, stack)


async def with_rows(settings: DatabaseSettings, home: Path) -> None:
    async with Database(settings, home=home) as db, Journal(db) as journal:
        for _ in range(2):
            record = await Responses(db).insert(
                a_response(input=[{"text": "nul \0, half \udc80, \u00e4"}], background=True), checkpoint=b"\0\xff"
            )
            log = journal.begin(record.id, tenant="default", stored=True)
            await log.append(*entries(0, 450))
            await log.close()
            await Executions(db).intend(an_execution(record.id))
        container = await Containers(db).insert(a_container())
        await ContainerFiles(db).upsert(a_file(container.id, "/mnt/data/\udcff", identity=2**64 - 1))
        await ApiKeys(db).create(NewKey(name="one"), at=1)


def rows_of(settings: DatabaseSettings, home: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    with backend_of(settings, home=home).snapshot() as connection:
        for some in backup.contents_of(connection).rows:
            home_at = some.columns.index("home") if some.table == "containers" else None
            rows = [[value for at, value in enumerate(row) if at != home_at] for row in some.rows]
            found.setdefault(some.table, []).extend(rows)
    return found


@pytest.mark.parametrize("source", ["sqlite", "postgres"])
@pytest.mark.parametrize("target", ["sqlite", "postgres"])
async def test_all_rows_are_there_again_and_new_ones_are_numbered_behind_them(
    empty: Empty, tmp_path: Path, source: str, target: str
) -> None:
    old, new = empty.settings(source), empty.settings(target)
    await with_rows(old, tmp_path)
    before = rows_of(old, tmp_path)
    file = tmp_path / "backup"

    written = await to_thread.run_sync(lambda: backup.backed_up(backend_of(old, home=tmp_path), file))
    count = await to_thread.run_sync(lambda: backup.restored(backend_of(new, home=tmp_path), file, home="home_1"))

    assert written == count == sum(map(len, before.values())) > 900
    assert rows_of(old, tmp_path) == rows_of(new, tmp_path) == before
    async with Database(new, home=tmp_path) as db:
        assert (await Responses(db).insert(a_response())).number == 3
        assert (await Containers(db).insert(a_container())).number == 2
    with pytest.raises(DatabaseUnusable, match="It has tables already"):
        await to_thread.run_sync(lambda: backup.restored(backend_of(new, home=tmp_path), file, home="home_1"))


def test_large_rows_lie_in_several_frames_and_are_all_read_again(tmp_path: Path) -> None:
    rows = [[number, b"\0" * (6 * MIB)] for number in range(7)] + [[7, b"small"]]
    file = tmp_path / "backup"

    assert backup.write(backup.Contents("1", [backup.Rows("blob_parts", ["number", "data"], rows)]), file) == 8

    with gzip.open(file) as plain:
        lengths = []
        while prefix := plain.read(4):
            lengths.append(int.from_bytes(prefix, "big"))
            plain.seek(lengths[-1], 1)
    assert max(lengths) < backup.FRAME_BYTES + 7 * MIB
    assert [row for some in backup.read(file).rows for row in some.rows] == rows


def test_a_backup_follows_no_link_and_opens_no_file_that_is_there(tmp_path: Path) -> None:
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.write_text("kept")
    link.symlink_to(theirs)
    for file in (theirs, link):
        with pytest.raises(FileExistsError):
            backup.write(backup.Contents("1", []), file)
    assert theirs.read_text() == "kept"


async def test_a_database_is_moved_as_a_whole_or_not_at_all(empty: Empty, tmp_path: Path) -> None:
    old, new = empty.settings("sqlite"), empty.settings("postgres")
    await with_rows(old, tmp_path)
    one, other = (backend_of(settings, home=tmp_path) for settings in (old, new))
    file = tmp_path / "backup"
    await to_thread.run_sync(lambda: backup.backed_up(one, file))
    plain = gzip.decompress(file.read_bytes())
    for cut in (b"no backup", gzip.compress(plain[:-20]), gzip.compress(plain[:5000]), file.read_bytes()[:-9]):
        file.write_bytes(cut)
        with pytest.raises(BackupUnreadable):
            await to_thread.run_sync(lambda: backup.restored(other, file, home="home_1"))
        assert await to_thread.run_sync(other.version) is None

    await to_thread.run_sync(lambda: backup.moved(one, other, home="home_1"))
    assert rows_of(new, tmp_path) == rows_of(old, tmp_path)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_backup_has_one_state_of_the_data_while_it_is_written(empty: Empty, tmp_path: Path, kind: str) -> None:
    settings = empty.settings(kind)
    done = anyio.Event()
    async with Database(settings, home=tmp_path) as db, Journal(db) as journal:

        async def write() -> None:
            while not done.is_set():
                record = await Responses(db).insert(a_response())
                log = journal.begin(record.id, tenant="default", stored=True)
                await log.append(*entries(0, 9))
                await log.close()
                begun.set()

        begun = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await begun.wait()
            for number in range(5):
                file = tmp_path / f"backup-{number}"
                await to_thread.run_sync(lambda file=file: backup.backed_up(db.backend, file))
            done.set()
    target = empty.settings("sqlite")  # whose references are checked
    await to_thread.run_sync(lambda: backup.restored(backend_of(target, home=tmp_path), file, home="home_1"))
    async with Database(target, home=tmp_path) as db, Journal(db) as journal:
        for record in (await Responses(db).unfinished())[:-1]:
            assert [entry async for entry in journal.read(record.id)] == entries(0, 9)

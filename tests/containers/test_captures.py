"""Captures that go wrong or meet files in motion: nothing is lost, doubled or recorded as what it never was."""

import itertools
import os
import posixpath
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

from limpet.containers.attachments import IncomingFile
from limpet.containers.file_index import FileIndex
from limpet.containers.file_recorder import MOST_HASHED, TOGETHER
from limpet.containers.lease import Lease
from limpet.containers.manager import ContainerManager
from limpet.containers.settings import ContainerSettings
from limpet.core.errors import RequestInvalid
from limpet.core.ports import Runtime
from limpet.runtimes.memory import MemoryRuntime
from limpet.store.database import Database
from limpet.store.files import ContainerFileRecord, ContainerFiles
from limpet.store.settings import DatabaseSettings
from tests.containers.test_files import TENANT, captured, download, new, pieces_of
from tests.containers.turned import TurnedClock
from tests.store.disk import Disk, mount, unmount

pytestmark = pytest.mark.anyio
MIB = 1 << 20
ALL_AT_ONCE = ContainerSettings(max_files_per_exec=1_000_000)


@pytest.fixture
async def lease(containers: ContainerManager) -> AsyncIterator[Lease]:
    async with containers.lease(TENANT, await new(containers)) as lease:
        yield lease


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "disk"
    place.mkdir()
    if (reason := mount(place)) is not None:
        pytest.skip(reason)
    yield Disk(place)
    unmount(place)


def data_of(home: Path, lease: Lease) -> Path:
    return home / "boxes" / lease.record.id / "data"


async def listed(containers: ContainerManager, lease: Lease) -> dict[str, ContainerFileRecord]:
    page = await containers.files.list(TENANT, lease.record.id, limit=100)
    return {row.path.removeprefix("/mnt/data/"): row for row in page.records}


async def test_files_of_a_detached_process_are_captured_when_files_are_listed(
    containers: ContainerManager, lease: Lease
) -> None:
    assert await captured(lease, "mkdir -p a/b") == []
    await lease.shell.run("(until [ -e go ]; do sleep 0.01; done; mkdir c; echo late > c/late; touch done) >&- 2>&- &")
    await lease.shell.run("touch go; until [ -e done ]; do sleep 0.01; done")
    assert {"c/late", "done", "go"} == set(await listed(containers, lease))


async def test_a_file_that_never_stands_still_is_recorded_as_it_was_read(
    containers: ContainerManager, lease: Lease, tmp_path: Path
) -> None:
    path = data_of(tmp_path, lease) / "log"
    path.write_bytes(b"x")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_grow, path)
        for _ in range(20):
            for row in (await lease.capture()).files:
                assert row.sha256 == sha256(path.read_bytes()[: row.bytes]).hexdigest()
        tasks.cancel_scope.cancel()
    await lease.capture()
    row = (await listed(containers, lease))["log"]
    assert (row.bytes, row.sha256) == (path.stat().st_size, sha256(path.read_bytes()).hexdigest())


async def _grow(path: Path) -> None:
    while True:
        with path.open("ab") as file:
            file.write(os.urandom(5000))
        await anyio.sleep(0.001)  # slowly enough to stay below the limit of a file's size


async def test_a_file_that_changed_a_moment_ago_is_not_taken_for_known_until_the_moment_is_over(
    containers: ContainerManager, lease: Lease, tmp_path: Path
) -> None:
    """The kernel's clock for files stands still for some ms: a second write may leave size and times as they are."""
    path = data_of(tmp_path, lease) / "file"
    with anyio.fail_after(20):
        for length in itertools.count(1):  # a busy machine may take longer than that moment until it looks
            path.write_text("a" * length)
            (first,) = (await lease.capture()).files
            if first.changed == 0:
                break
        while (await listed(containers, lease))["file"].changed == 0:
            (path.parent / "other").touch()
    settled = (await listed(containers, lease))["file"]
    assert (settled.id, settled.changed) == (first.id, path.stat().st_ctime_ns)


async def test_what_is_no_file_is_left_alone_and_what_becomes_one_is_taken(lease: Lease, tmp_path: Path) -> None:
    data = data_of(tmp_path, lease)
    os.mkfifo(data / "pipe")
    (data / "link").symlink_to("/etc/passwd")
    (data / "up").symlink_to("..")
    assert await captured(lease, "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'") == []
    (data / "link").unlink()
    (data / "link").write_text("mine")
    assert await captured(lease, "true") == ["link"]


async def test_sparse_files_are_kept_up_to_the_limit_and_listed_beyond_it(
    containers: ContainerManager, lease: Lease
) -> None:
    assert await captured(
        lease, f"truncate -s {25 * MIB} fits; truncate -s {25 * MIB + 1} big; truncate -s 9T huge"
    ) == [
        "big",
        "fits",
        "huge",
    ]
    rows = await listed(containers, lease)
    assert rows["fits"].sha256 == sha256(bytes(25 * MIB)).hexdigest()
    assert [(rows[name].too_large, rows[name].bytes, rows[name].sha256) for name in ("big", "huge")] == [
        (True, 25 * MIB + 1, ""),
        (True, 9 << 40, ""),
    ]
    assert await captured(lease, "true") == []
    assert await captured(lease, "truncate -s 3 big") == ["big"]


@asynccontextmanager
async def leased(runtime: Runtime, db: Database, **given: Any) -> AsyncIterator[tuple[ContainerManager, Lease]]:
    """A manager of its own, and one new container of it."""
    async with (
        ContainerManager(runtime, db, **given) as manager,
        manager.lease(TENANT, await new(manager)) as lease,
    ):
        yield manager, lease


async def test_of_twenty_thousand_files_the_first_are_told_and_the_next_command_has_none_of_them(
    runtime: Runtime, db: Database, tmp_path: Path, clock: TurnedClock
) -> None:
    settings = ContainerSettings(max_files_per_exec=5)
    async with leased(runtime, db, home=tmp_path, settings=settings, clock=clock) as (manager, lease):
        data = data_of(tmp_path, lease)
        for directory in range(20):
            (data / f"{directory:02}").mkdir()
            for number in range(1000):
                (data / f"{directory:02}" / f"{number:03}").touch()
        first = await lease.capture("resp_1")
        (data / "00/000").unlink()
        (data / "19/new").touch()
        second = await lease.capture("resp_2")
        recorded = await manager.files.recorded(
            lease.record.id, [f"/mnt/data/19/{name}" for name in ("999", "new", "x")]
        )
    assert [row.path.removeprefix("/mnt/data/") for row in first.files] == [f"00/00{number}" for number in range(5)]
    assert [row.path.removeprefix("/mnt/data/") for row in second.files] == ["19/new"]
    assert ((first.more, first.left), (second.more, second.left)) == ((19_995, 0), (0, 0))
    assert recorded == {"/mnt/data/19/999", "/mnt/data/19/new"}


async def test_beyond_the_bound_of_entries_it_is_told_and_no_more_is_recorded(
    runtime: Runtime, db: Database, tmp_path: Path, clock: TurnedClock
) -> None:
    settings = ContainerSettings(max_entries=1000)
    async with leased(runtime, db, home=tmp_path, settings=settings, clock=clock) as (_, lease):
        data = data_of(tmp_path, lease)
        await lease.shell.run("mkdir many; cd many; seq 5000 | xargs touch")
        for _ in range(4):
            captured = await lease.capture()
            assert "more than 1000 files, directories and links in /mnt/data" in (captured.trouble or "")
            for path in sorted((data / "many").iterdir())[:900]:
                path.rename(path.with_name(f"x{path.name}"))
            assert len(await db_paths(db, lease.record.id)) <= 1000
        await lease.shell.run("rm -r many; echo kept > kept")
        assert [row.path for row in (await lease.capture()).files] == ["/mnt/data/kept"]
        assert await db_paths(db, lease.record.id) == ["/mnt/data/kept"]


async def db_paths(db: Database, container_id: str) -> list[str]:
    return [row.path for row in await ContainerFiles(db).of_container(container_id)]


async def test_generated_trees_are_neither_recorded_nor_told_in_a_runtime_that_keeps_files_in_memory(
    db: Database, tmp_path: Path, clock: TurnedClock
) -> None:
    settings = ContainerSettings(generated_directories=("cache",), max_entries=1000)
    async with (
        MemoryRuntime() as runtime,
        ContainerManager(runtime, db, home=tmp_path, clock=clock, settings=settings) as manager,
        manager.lease(TENANT, await new(manager)) as lease,
    ):
        made = "mkdir -p v/lib cache a; echo > v/pyvenv.cfg; echo > v/lib/x; echo > cache/x; echo > a/kept; echo > kept"
        assert await captured(lease, made) == ["a/kept", "kept"]
        assert (await lease.shell.files.read("v/lib/x")) == b"\n"


async def test_of_sparse_files_a_bounded_number_of_bytes_is_hashed(
    containers: ContainerManager, lease: Lease, tmp_path: Path
) -> None:
    assert len(await captured(lease, f"for i in $(seq 60); do truncate -s {25 * MIB} $i; done")) == 60
    rows = await listed(containers, lease)
    assert sum(row.bytes for row in rows.values() if row.sha256) <= MOST_HASHED
    assert await captured(lease, "true") == []


async def test_a_capture_that_is_broken_off_loses_nothing(
    containers: ContainerManager, lease: Lease, tmp_path: Path
) -> None:
    data = data_of(tmp_path, lease)
    broken = 0
    for turn in range(30):
        for number in range(10):
            (data / f"{turn}-{number}").write_text(f"{turn}-{number}")
        with anyio.move_on_after(turn / 2000) as scope:
            await lease.capture()
        broken += scope.cancelled_caught
    while (captured := await lease.capture()).left or captured.files:
        pass
    rows = await containers.files.list(TENANT, lease.record.id, limit=1000)
    assert {row.path.removeprefix("/mnt/data/"): row.sha256 for row in rows.records} == {
        name: sha256(name.encode()).hexdigest()
        for name in (f"{turn}-{number}" for turn in range(30) for number in range(10))
    }
    assert len({row.id for row in rows.records}) == 300
    assert broken > 0


async def test_a_memory_box_is_captured_too(db: Database, tmp_path: Path, clock: TurnedClock) -> None:
    async with MemoryRuntime() as runtime, ContainerManager(runtime, db, home=tmp_path, clock=clock) as manager:
        mine = await new(manager)
        async with manager.lease(TENANT, mine) as lease:
            assert await captured(lease, "mkdir a; echo 1 > a/one; echo 2 > two") == ["a/one", "two"]
            assert await captured(lease, "rm -r a") == []
            assert list(await listed(manager, lease)) == ["two"]
            assert await download(manager, mine, (await listed(manager, lease))["two"].id) == b"2\n"


async def test_an_upload_beyond_the_limit_of_captures_stays_the_users_and_is_not_captured(
    containers: ContainerManager, lease: Lease
) -> None:
    size = 26 * MIB
    await containers.files.put(TENANT, lease.record.id, "big", pieces_of(*[bytes(MIB)] * 26), is_bounded=False)
    assert await captured(lease, "wc -c big; echo > other") == ["other"]
    row = (await listed(containers, lease))["big"]
    assert (row.source, row.bytes, row.sha256, row.too_large) == ("user", size, sha256(bytes(size)).hexdigest(), False)


async def test_files_that_come_together_are_brought_in_all_or_not_at_all(
    containers: ContainerManager, lease: Lease
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise RequestInvalid("broke off")

    incoming = [IncomingFile(name="whole", open=lambda: pieces_of(b"x")), IncomingFile(name="half", open=broken)]
    with pytest.raises(RequestInvalid):
        await containers.files.bring(lease.record, incoming)
    assert (await lease.shell.run("ls -A")).stdout == b""
    assert await listed(containers, lease) == {}


def test_what_is_known_is_found_by_directory() -> None:
    paths = ["/mnt/data/a", "/mnt/data/b/c", "/mnt/data/b/d/e", "/mnt/data/b/d/f"]
    known = FileIndex(_row(path) for path in paths)
    assert (set(known.inside("/mnt/data/b")), set(known.directories("/mnt/data"))) == (
        {"/mnt/data/b/c"},
        {"/mnt/data/b"},
    )
    assert known.below("/mnt/data/b") == set(paths[1:])
    for path in paths[2:]:
        del known[path]
    assert (len(known.directories("/mnt/data/b")), known.below("/mnt/data"), len(known)) == (0, set(paths[:2]), 2)


def _row(path: str) -> ContainerFileRecord:
    now = time.time_ns()
    return ContainerFileRecord(
        id=path,
        tenant=TENANT,
        container_id="c",
        path=path,
        bytes=0,
        sha256="",
        source="user",
        created_at=0,
        modified=now,
    )


async def test_a_full_disk_in_the_middle_of_a_capture_is_told_and_what_it_left_is_taken_later(
    runtime: Runtime, tmp_path: Path, clock: TurnedClock, small_disk: Disk
) -> None:
    async with (
        Database(DatabaseSettings(), home=small_disk.path) as database,
        ContainerManager(runtime, database, home=tmp_path, clock=clock, settings=ALL_AT_ONCE) as manager,
        manager.lease(TENANT, await new(manager)) as lease,
    ):
        data = data_of(tmp_path, lease)
        names = [f"{number:04}{'x' * 100}" for number in range(600)]
        for name in names:
            (data / name).write_text(name)
        small_disk.fill(leaving=400_000)
        full = await lease.capture("resp_1")
        small_disk.empty()
        after = await lease.capture("resp_1")

        assert full.trouble is not None
        assert (len(full.files) + full.left, len(full.files) % TOGETHER) == (600, 0)
        assert sorted(posixpath.basename(row.path) for row in (*full.files, *after.files)) == names
        assert (after.trouble, after.left) == (None, 0)

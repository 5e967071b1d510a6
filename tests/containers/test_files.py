"""What is captured of a container's files, and what clients get of them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import to_builtins

from limpet.containers.lease import Lease
from limpet.containers.manager import ContainerManager
from limpet.containers.settings import ContainerSettings
from limpet.containers.wire_objects import container_file_object
from limpet.core.errors import NotFound, RequestInvalid, RequestTooLarge
from limpet.core.ports import Runtime
from limpet.runtimes.memory import MemoryRuntime
from limpet.store.database import Database
from limpet.store.files import ContainerFileRecord
from tests.containers.turned import TurnedClock

pytestmark = pytest.mark.anyio

TENANT = "default"
SMALL = ContainerSettings(max_files_per_exec=3, max_bytes_per_file=1000)


@pytest.fixture
async def small(runtime: Runtime, db: Database, tmp_path: Path, clock: TurnedClock) -> AsyncIterator[ContainerManager]:
    async with ContainerManager(runtime, db, home=tmp_path, settings=SMALL, clock=clock) as manager:
        yield manager


async def new(containers: ContainerManager) -> str:
    return (await containers.create(TENANT, name="box", spec=containers.narrow({}))).id


async def captured(lease: Lease, script: str) -> list[str]:
    assert (await lease.shell.run(script)).exit_code == 0
    return [row.path.removeprefix("/mnt/data/") for row in (await lease.capture("resp_1")).files]


async def download(containers: ContainerManager, container_id: str, file_id: str) -> bytes:
    _, pieces = await containers.files.open_content(TENANT, container_id, file_id)
    return b"".join([piece async for piece in pieces])


async def pieces_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_a_file_that_a_command_wrote_is_recorded_with_all_that_is_known_of_it(
    containers: ContainerManager, clock: TurnedClock
) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as lease:
        await lease.shell.run("mkdir out; printf 'a,b' > out/table.csv")
        (row,) = (await lease.capture("resp_1")).files

    assert to_builtins(container_file_object(row)) == {
        "id": row.id,
        "object": "container.file",
        "container_id": mine,
        "created_at": clock.now() // 1_000_000,
        "bytes": 3,
        "path": "/mnt/data/out/table.csv",
        "source": "assistant",
        "filename": "table.csv",
        "content_type": "text/csv",
    }
    assert (row.sha256, row.response_id, row.too_large) == (sha256(b"a,b").hexdigest(), "resp_1", False)
    assert await download(containers, mine, row.id) == b"a,b"


async def test_only_what_changed_is_captured_again(containers: ContainerManager) -> None:
    async with containers.lease(TENANT, await new(containers)) as lease:
        assert await captured(lease, "echo 1 > a; echo 1 > b") == ["a", "b"]
        assert await captured(lease, "cat a b") == []
        assert await captured(lease, "echo 2 > b; touch a; echo 1 > a") == ["b"]
        assert await captured(lease, "mv b c") == ["c"]


async def test_links_devices_and_directories_are_no_files(containers: ContainerManager) -> None:
    async with containers.lease(TENANT, await new(containers)) as lease:
        assert await captured(lease, "ln -s /etc/passwd link; ln -s / root; mkfifo pipe; mkdir empty; echo > real") == [
            "real"
        ]


async def test_a_file_that_became_a_link_is_not_given_out(containers: ContainerManager) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as lease:
        await lease.shell.run("echo mine > file")
        (row,) = (await lease.capture()).files
        await lease.shell.run("ln -sf /etc/passwd file")

    with pytest.raises(NotFound):
        await containers.files.open_content(TENANT, mine, row.id)


async def test_an_overwritten_path_keeps_its_id_and_a_deleted_one_is_forgotten(containers: ContainerManager) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as lease:
        await lease.shell.run("echo 1 > kept; echo 1 > gone")
        first = {row.path: row.id for row in (await lease.capture()).files}
        await lease.shell.run("rm gone; echo 22 > new; mv new kept")
        (second,) = (await lease.capture()).files

    listed = (await containers.files.list(TENANT, mine)).records
    assert (second.id, second.bytes, listed) == (first["/mnt/data/kept"], 3, [second])
    with pytest.raises(NotFound) as refused:
        await containers.files.get(TENANT, mine, first["/mnt/data/gone"])
    assert refused.value.code == "container_file_not_found"


async def test_of_many_files_some_are_told_and_all_are_recorded_as_written_by_their_own_command(
    small: ContainerManager,
) -> None:
    mine = await new(small)
    async with small.lease(TENANT, mine) as lease:
        await lease.shell.run("for i in 1 2 3 4 5; do echo $i > $i; done")
        first = await lease.capture("resp_1")
        assert ([row.path[-1] for row in first.files], first.more) == (["1", "2", "3"], 2)
        assert await captured(lease, "true") == []
        assert await captured(lease, "echo 6 > 6") == ["6"]
    rows = {row.path[-1]: row for row in (await small.files.list(TENANT, mine, limit=100)).records}
    assert {name: row.response_id for name, row in rows.items() if name != "6"} == dict.fromkeys("12345", "resp_1")
    assert (rows["5"].sha256, rows["5"].bytes) == ("", 2)
    assert await download(small, mine, rows["5"].id) == b"5\n"
    again = await small.files.get(TENANT, mine, rows["5"].id)
    assert again.sha256 == sha256(b"5\n").hexdigest()


async def test_a_file_too_large_is_listed_with_its_size_and_still_given_out_whole(small: ContainerManager) -> None:
    mine = await new(small)
    async with small.lease(TENANT, mine) as lease:
        await lease.shell.run("head -c 1001 /dev/zero > large")
        (row,) = (await lease.capture()).files

    assert (row.bytes, row.too_large, row.sha256) == (1001, True, "")
    assert await download(small, mine, row.id) == bytes(1001)


async def test_odd_names_are_kept_exactly_and_shown_as_text(containers: ContainerManager) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as lease:
        await lease.shell.run("echo 1 > $'a\\nb'; echo 2 > './-c d'; echo 3 > $'bad\\xff'; echo 4 > ü")
        rows = (await lease.capture()).files

    shown = [container_file_object(row).filename for row in rows]
    assert sorted(shown) == sorted(["a\nb", "-c d", "bad\ufffd", "ü"])
    assert sorted([await download(containers, mine, row.id) for row in rows]) == [b"1\n", b"2\n", b"3\n", b"4\n"]


async def test_what_a_detached_process_wrote_is_seen_when_files_are_listed(containers: ContainerManager) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as lease:
        await lease.shell.run("echo late > file")

    assert [row.path for row in (await containers.files.list(TENANT, mine)).records] == ["/mnt/data/file"]


async def test_a_download_is_of_the_file_as_it_is_now(containers: ContainerManager) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as lease:
        await lease.shell.run("echo 1 > file")
        (before,) = (await lease.capture()).files
        await lease.shell.run("echo longer > file")

    row, pieces = await containers.files.open_content(TENANT, mine, before.id)
    assert b"".join([piece async for piece in pieces]) == b"longer\n"
    assert (row.id, row.bytes, row.sha256) == (before.id, 7, sha256(b"longer\n").hexdigest())


async def test_an_upload_is_there_for_the_first_command_and_is_not_taken_for_a_command_s_work(
    containers: ContainerManager,
) -> None:
    mine = await new(containers)
    row = await containers.files.put(TENANT, mine, "../../etc/notes.txt", pieces_of(b"he", b"llo"))

    async with containers.lease(TENANT, mine) as lease:
        result = await lease.shell.run("cat notes.txt; echo x >> notes.txt; rm notes.txt; printf hello > notes.txt")
        assert (await lease.capture()).files == ()

    assert (row.path, row.source, row.bytes, result.stdout) == ("/mnt/data/notes.txt", "user", 5, b"hello")
    assert [listed.source for listed in (await containers.files.list(TENANT, mine)).records] == ["user"]


async def test_an_upload_that_is_too_large_leaves_what_was_there(small: ContainerManager) -> None:
    mine = await new(small)
    row = await small.files.put(TENANT, mine, "file", pieces_of(b"old"))

    with pytest.raises(RequestTooLarge):
        await small.files.put(TENANT, mine, "file", pieces_of(bytes(600), bytes(600)))

    assert await download(small, mine, row.id) == b"old"


async def test_a_deleted_file_is_gone_from_the_box_too(containers: ContainerManager) -> None:
    mine = await new(containers)
    row = await containers.files.put(TENANT, mine, "file", pieces_of(b"x"))
    await containers.files.delete(TENANT, mine, row.id)

    async with containers.lease(TENANT, mine) as lease:
        assert (await lease.shell.run("ls")).stdout == b""
    with pytest.raises(NotFound):
        await containers.files.delete(TENANT, mine, row.id)


async def test_the_data_of_an_expired_container_is_refused_and_its_list_stays(
    containers: ContainerManager, clock: TurnedClock
) -> None:
    mine = await new(containers)
    row = await containers.files.put(TENANT, mine, "file", pieces_of(b"x"))
    clock.turn(1201)

    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: containers.files.open_content(TENANT, mine, row.id),
        lambda: containers.files.put(TENANT, mine, "other", pieces_of(b"y")),
        lambda: containers.files.delete(TENANT, mine, row.id),
    ]
    for attempt in attempts:
        with pytest.raises(RequestInvalid) as refused:
            await attempt()
        assert refused.value.code == "container_expired"
    assert await containers.files.get(TENANT, mine, row.id) == row


async def test_a_file_is_found_only_in_its_own_container(containers: ContainerManager) -> None:
    mine, other = await new(containers), await new(containers)
    row = await containers.files.put(TENANT, mine, "file", pieces_of(b"x"))

    with pytest.raises(NotFound):
        await containers.files.get(TENANT, other, row.id)


async def test_a_runtime_without_directories_keeps_files_in_its_boxes_and_a_lost_box_says_what_is_gone(
    db: Database, tmp_path: Path, clock: TurnedClock
) -> None:
    async with MemoryRuntime() as runtime, ContainerManager(runtime, db, home=tmp_path, clock=clock) as before:
        mine = await new(before)
        row: ContainerFileRecord = await before.files.put(TENANT, mine, "up", pieces_of(b"x"))
        async with before.lease(TENANT, mine) as lease:
            assert await captured(lease, "cat up > copy") == ["copy"]
        assert await download(before, mine, row.id) == b"x"

    async with MemoryRuntime() as runtime, ContainerManager(runtime, db, home=tmp_path, clock=clock) as after:
        async with after.lease(TENANT, mine) as lease:
            assert lease.note is not None
            assert "2 of its files are gone" in lease.note
            assert (await lease.capture()).files == ()
        assert (await after.files.list(TENANT, mine)).records == []

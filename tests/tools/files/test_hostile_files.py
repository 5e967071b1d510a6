"""Files that are made to be read for ever: every file tool looks at a bounded part of them, and says so."""

import time
from typing import Any

import anyio
import pytest

from limpet.tools.operations import MOST_TEXT
from limpet.tools.shell_cmd.artifacts import describe
from limpet.workspace.files import EDIT_LIMIT
from limpet.workspace.workspace import Workspace
from tests.tools.files.test_file_tools import do

pytestmark = pytest.mark.anyio
BOUND = 20.0  # seconds, far below what 8 TiB take, and below the tools' own patience


async def done(box: Workspace, operation: str, **arguments: Any) -> dict[str, Any]:
    with anyio.fail_after(BOUND):
        answer = await do(box, operation, **arguments)
    assert answer.get("error", {}).get("code") != "timed_out"
    return answer


@pytest.fixture
async def sparse(real_box: Workspace) -> Workspace:
    made = "truncate -s 8T empty; echo text > begun; seq 100000 >> begun; truncate -s 8T begun; mkfifo fifo"
    assert (await real_box.run(made)).exit_code == 0
    return real_box


async def test_a_sparse_file_is_read_as_far_as_the_bound(sparse: Workspace) -> None:
    empty = await done(sparse, "read_file", path="empty")
    assert (empty["size"], empty["content"]) == (8 << 40, None)
    begun = await done(sparse, "read_file", path="begun", limit=2)
    assert (begun["content"], begun["nextOffset"]) == ("text\n1\n", 3)
    beyond = await done(sparse, "read_file", path="begun", offset=1_000_000)
    assert beyond["content"] in ("", None)
    assert "note" in beyond
    base64 = await done(sparse, "read_file", path="empty", encoding="base64", offset=7 << 40)
    assert (base64["content"], "first 64 MiB" in base64["note"]) == ("", True)
    assert len((await done(sparse, "read_file", path="empty", encoding="base64"))["content"]) > 1000


async def test_no_other_operation_reads_it_through(sparse: Workspace) -> None:
    assert (await done(sparse, "stat", path="empty"))["size"] == 8 << 40
    assert (await done(sparse, "edit_file", path="empty", old="x", new="y"))["error"]["code"] == "file_error"
    assert (await done(sparse, "write_file", path="empty", content="x", append=True))["error"]["code"] == "file_error"
    found = await done(sparse, "grep", pattern="text")
    assert (found["matches"], [path.rpartition("/")[2] for path in found["skippedPaths"]]) == ([], ["begun"])
    assert len((await done(sparse, "list_files"))["entries"]) == 3
    with anyio.fail_after(BOUND):
        assert await describe(sparse.files, "empty", shown="empty") == {"path": "empty", "bytes": 8 << 40}
        assert "error" in await describe(sparse.files, "fifo", shown="fifo")
    assert (await done(sparse, "write_file", path="empty", content="x"))["size"] == 1


async def test_what_is_no_file_is_not_opened(sparse: Workspace) -> None:
    for operation, arguments in (
        ("read_file", {}),
        ("edit_file", {"old": "x", "new": "y"}),
        ("write_file", {"content": "x"}),
        ("write_file", {"content": "x", "append": True}),
        ("grep", {"pattern": "x"}),
    ):
        answer = await done(sparse, operation, path="fifo", **arguments)
        assert answer["error"]["code"] == "file_error", operation


async def test_an_edit_that_would_grow_without_end_is_refused(real_box: Workspace) -> None:
    await real_box.files.write("many", b"a" * (4 << 20))
    grown = await done(real_box, "edit_file", path="many", old="a", new="b" * 1000, everywhere=True)
    assert grown["error"]["code"] == "file_error"
    assert (await real_box.files.stat("many")).size == 4 << 20
    assert EDIT_LIMIT < 4000 << 20


async def test_a_line_without_an_end_is_cut(real_box: Workspace) -> None:
    await real_box.run("head -c 300000000 /dev/zero | tr '\\0' x > line")
    begun = time.monotonic()
    read = await done(real_box, "read_file", path="line")
    assert (len(read["content"]), read["size"], "first 64 MiB" in read["note"]) == (MOST_TEXT, 300_000_000, True)
    assert time.monotonic() - begun < BOUND


async def test_of_a_huge_directory_some_entries_are_shown(real_box: Workspace) -> None:
    await real_box.run("mkdir many; cd many; seq 3000 | xargs touch")
    listed = await done(real_box, "list_files", path="many")
    assert (len(listed["entries"]) <= 1000, listed["total"], listed["complete"]) == (True, 3000, False)
    removed = await done(real_box, "remove", path="many")
    assert removed["error"]["code"] == "not_empty"
    assert (await done(real_box, "remove", path="many", recursive=True))["removed"]


async def test_a_list_looks_at_no_more_entries_than_it_is_told(box: Workspace) -> None:
    for name in "abc":
        await box.files.write(f"d/{name}/file", b"x")
    sandbox = box.files._sandbox.files
    assert len(await sandbox.list("/mnt/data", recursive=True, limit=4)) == 4
    assert len(await sandbox.list("/mnt/data", recursive=True, limit=100)) == 7


async def test_home_and_temporary_files_are_read_and_written(box: Workspace) -> None:
    for place in ("/home/agent/sub", "/tmp/limpet-test-files"):
        await done(box, "write_file", path=f"{place}/x", content="one\n")
        try:
            assert (await done(box, "read_file", path=f"{place}/x"))["content"] == "one\n"
            assert (await done(box, "edit_file", path=f"{place}/x", old="one", new="two"))["size"] == 4
            known = (await done(box, "stat", path=f"{place}/x"))["path"]
            assert (await box.run(f"cat {known}")).stdout == b"two\n"
        finally:
            await done(box, "remove", path=place, recursive=True)

"""The file tools in real boxes: results that are bounded, redacted and JSON, and errors that a model can act on."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from limpet.core.secret import Secret
from limpet.guard.redaction.redactor import Redaction
from limpet.tools.files import file_tools
from limpet.tools.operations import MOST_ENTRIES, MOST_TEXT, MOST_WRITTEN
from limpet.workspace.audit import AuditRecord
from limpet.workspace.opening import WorkspaceOptions, open_in
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio


async def do(box: Workspace, operation: str, **arguments: Any) -> dict[str, Any]:
    tool = next(one for one in file_tools(box, "box") if one.name == f"workspace__box__{operation}")
    result = await tool.call(arguments, call_id="call_1")
    assert len(json.dumps(result)) < 4 * MOST_TEXT
    return result


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


async def test_what_is_written_is_read_and_commands_see_it(box: Workspace) -> None:
    written = await do(box, "write_file", path="sub/deep/x.txt", content="one\ntwo ü\n")
    assert written == {"path": f"{box.directory}/sub/deep/x.txt", "size": 11}

    assert await do(box, "read_file", path="sub/deep/x.txt") == {
        "path": f"{box.directory}/sub/deep/x.txt",
        "content": "one\ntwo ü\n",
        "startLine": 1,
        "endLine": 2,
        "size": 11,
    }
    assert (await box.run("cat sub/deep/x.txt")).stdout == "one\ntwo ü\n".encode()
    assert (await do(box, "read_file", path=written["path"]))["content"] == "one\ntwo ü\n"


async def test_a_part_of_a_file_says_where_to_go_on(box: Workspace) -> None:
    await box.files.write("/mnt/data/long", b"".join(b"%d\n" % number for number in range(1, 101)))

    first = await do(box, "read_file", path="long", limit="3")
    assert (first["content"], first["nextOffset"]) == ("1\n2\n3\n", 4)
    last = await do(box, "read_file", path="long", offset=99)
    assert (last["content"], last["endLine"]) == ("99\n100\n", 100)
    assert "nextOffset" not in last
    beyond = await do(box, "read_file", path="long", offset=101)
    assert (beyond["content"], beyond["note"]) == ("", "The file has 100 lines; there is no line 101.")


async def test_every_line_of_a_large_file_can_be_reached(box: Workspace) -> None:
    whole = "".join(f"line {number} {'x' * (number % 200)}\n" for number in range(5_000))
    await box.files.write("/mnt/data/large", whole.encode())

    read, offset = "", 1
    while offset:
        part = await do(box, "read_file", path="large", offset=offset)
        assert len(part["content"]) <= MOST_TEXT
        read += part["content"]
        offset = part.get("nextOffset", 0)

    assert read == whole


async def test_a_line_without_an_end_is_cut_and_told(box: Workspace) -> None:
    await box.files.write("/mnt/data/line", b"x" * 3_000_000 + b"\nsecond\n")

    first = await do(box, "read_file", path="line")
    assert (len(first["content"]), first["nextOffset"]) == (MOST_TEXT, 2)
    assert "is cut" in first["note"]
    assert (await do(box, "read_file", path="line", offset=2))["content"] == "second\n"


async def test_bytes_of_any_kind_come_and_go_as_base64(box: Workspace) -> None:
    data = bytes(range(256)) * 500
    told = await do(box, "write_file", path="binary", content=base64.b64encode(data).decode(), encoding="base64")
    assert told["size"] == len(data)

    assert (await do(box, "read_file", path="binary"))["content"] is None
    read, offset = b"", 0
    while True:
        part = await do(box, "read_file", path="binary", encoding="base64", offset=offset)
        read += base64.b64decode(part["content"])
        if "nextOffset" not in part:
            break
        offset = part["nextOffset"]
    assert read == data
    few = await do(box, "read_file", path="binary", encoding="base64", offset=250, limit=10)
    assert (base64.b64decode(few["content"]), few["nextOffset"]) == (data[250:260], 260)


async def test_an_empty_file_is_no_error(box: Workspace) -> None:
    await do(box, "write_file", path="empty", content="")

    assert (await do(box, "read_file", path="empty"))["content"] == ""


async def test_a_file_is_added_to_and_edited(box: Workspace) -> None:
    await do(box, "write_file", path="notes", content="one\n")
    await do(box, "write_file", path="notes", content="two two\n", append="true")
    await do(box, "edit_file", path="notes", old="one", new="1")
    assert await box.files.read("/mnt/data/notes") == b"1\ntwo two\n"

    twice = await do(box, "edit_file", path="notes", old="two", new="2")
    assert "stands in it 2 times" in twice["error"]["message"]
    await do(box, "edit_file", path="notes", old="two", new="2", everywhere=True)
    assert await box.files.read("/mnt/data/notes") == b"1\n2 2\n"


async def test_a_list_names_what_is_there(box: Workspace) -> None:
    await box.run("mkdir sub; echo hi > sub/x; ln -s sub/x link")

    listed = await do(box, "list_files")
    assert {one["name"]: one["type"] for one in listed["entries"]} == {"link": "symlink", "sub": "directory"}
    assert (listed["path"], listed["total"], listed["complete"]) == (box.directory, 2, True)
    below = await do(box, "list_files", recursive=True)
    assert names(below["entries"]) == ["link", "sub", "x"]
    assert below["entries"][2]["size"] == 3


async def test_a_long_list_is_cut_and_says_so(box: Workspace) -> None:
    for number in range(1_100):
        await box.files.write(f"/mnt/data/many/{number:04}", b"")

    listed = await do(box, "list_files", path="many")
    assert (listed["total"], listed["complete"]) == (1_100, False)
    assert 0 < len(listed["entries"]) <= MOST_ENTRIES
    assert len((await do(box, "list_files", path="many", limit=5))["entries"]) == 5
    found = await do(box, "glob", pattern="many/*")
    assert not found["complete"]


async def test_names_and_lines_are_found(box: Workspace) -> None:
    await box.run("mkdir -p src/a; echo 'def main():' > src/a/m.py; echo 'Main road' > src/notes.txt; echo x > y.py")

    assert (await do(box, "glob", pattern="**/*.py"))["paths"] == [
        f"{box.directory}/src/a/m.py",
        f"{box.directory}/y.py",
    ]
    assert (await do(box, "glob", pattern="*.py", path="src/a"))["paths"] == [f"{box.directory}/src/a/m.py"]
    found = await do(box, "grep", pattern="MAIN", ignoreCase="true")
    assert found == {
        "matches": [
            {"path": f"{box.directory}/src/a/m.py", "lineNumber": 1, "line": "def main():"},
            {"path": f"{box.directory}/src/notes.txt", "lineNumber": 1, "line": "Main road"},
        ],
        "complete": True,
    }
    only = await do(box, "grep", pattern="[Mm]ain", includeGlob="*.txt")
    assert [one["line"] for one in only["matches"]] == ["Main road"]
    assert (await do(box, "grep", pattern="nothing"))["matches"] == []


async def test_many_and_long_matches_are_bounded(box: Workspace) -> None:
    await box.files.write("/mnt/data/log", (b"hit " + b"x" * 5_000 + b"\n") * 500)

    found = await do(box, "grep", pattern="hit")
    assert not found["complete"]
    assert "characters]" in found["matches"][0]["line"]
    assert len((await do(box, "grep", pattern="hit", maxResults=2))["matches"]) == 2


async def test_a_pattern_that_cannot_be_read_is_told(shared_box: Workspace) -> None:
    found = await do(shared_box, "grep", pattern="(")

    assert found["error"]["code"] == "file_error"
    assert "(" in found["error"]["message"]


async def test_stat_describes_and_never_follows(box: Workspace) -> None:
    await box.run("echo hi > x; ln -s /etc/passwd link")

    found = await do(box, "stat", path="x")
    assert (found["type"], found["size"], found["path"]) == ("file", 3, f"{box.directory}/x")
    link = await do(box, "stat", path="link")
    assert (link["type"], link["target"]) == ("symlink", "/etc/passwd")


async def test_directories_are_made_and_removed_whole_only_when_asked(box: Workspace) -> None:
    assert await do(box, "mkdir", path="a/b") == {"path": f"{box.directory}/a/b"}
    await box.files.write("/mnt/data/a/b/x", b"")

    refused = await do(box, "remove", path="a")
    assert refused["error"]["code"] == "not_empty"
    assert (await do(box, "remove", path="a/b/x"))["removed"] is True
    assert (await do(box, "remove", path="a/b"))["removed"] is True
    assert (await do(box, "remove", path="a", recursive=True))["removed"] is True
    assert (await do(box, "list_files"))["entries"] == []


@pytest.mark.parametrize(
    "operation, arguments",
    [
        ("read_file", {"path": "/etc/passwd"}), ("read_file", {"path": "../../etc/passwd"}), ("read_file", {"path": "link"}),
        ("read_file", {"path": "out/passwd"}), ("write_file", {"path": "out/new", "content": ""}), ("list_files", {"path": "out"}),
        ("grep", {"pattern": "root", "path": "/etc"}), ("glob", {"pattern": "*", "path": "/etc"}), ("remove", {"path": "/etc/passwd"}),
        ("mkdir", {"path": "/etc/x"}), ("edit_file", {"path": "link", "old": "a", "new": "b"}), ("stat", {"path": "/etc/passwd"}),
    ],
)  # fmt: skip
async def test_what_lies_outside_is_out_of_reach(
    shared_box: Workspace, operation: str, arguments: dict[str, Any]
) -> None:
    await shared_box.run("ln -sfn /etc/passwd link; ln -sfn /etc out")

    result = await do(shared_box, operation, **arguments)

    assert result["error"]["code"] == "file_error"
    assert "outside" in result["error"]["message"]


@pytest.mark.parametrize(
    "operation, arguments, problem",
    [
        ("read_file", {"path": "none"}, "none does not exist"), ("read_file", {"path": "dir"}, "is a directory"),
        ("list_files", {"path": "file"}, "is not a directory"), ("write_file", {"path": "file/x", "content": ""}, "not a directory"),
        ("remove", {"path": "none"}, "does not exist"), ("stat", {"path": "none"}, "does not exist"),
        ("edit_file", {"path": "none", "old": "a", "new": "b"}, "does not exist"),
        ("edit_file", {"path": "file", "old": "zzz", "new": "b"}, "is not in it"),
        ("glob", {"pattern": "*", "path": "none"}, "does not exist"), ("write_file", {"path": "dir", "content": ""}, "directory"),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_says_why(
    shared_box: Workspace, operation: str, arguments: dict[str, Any], problem: str
) -> None:
    await shared_box.run("mkdir -p dir; echo hi > file")

    result = await do(shared_box, operation, **arguments)

    assert result["error"]["code"] == "file_error"
    assert problem in result["error"]["message"]


@pytest.mark.parametrize(
    "operation, arguments, problem",
    [
        ("read_file", {}, "path is missing"), ("read_file", {"path": 5}, "path must be a text"), ("read_file", {"path": "x\0"}, "NUL"),
        ("read_file", {"path": "x", "offset": 0}, "1 or more"), ("read_file", {"path": "x", "limit": 10_000}, "from 1 to 2000"),
        ("read_file", {"path": "x", "limit": 1.5}, "whole number"), ("read_file", {"file": "x"}, '"file" is not an argument'),
        ("read_file", {"path": "\ud800"}, "half of a surrogate pair"), ("write_file", {"path": "x"}, "content is missing"),
        ("write_file", {"path": "x", "content": "\udfff"}, "half of a surrogate pair"),
        ("write_file", {"path": "x", "content": "???", "encoding": "base64"}, "not base64"),
        ("write_file", {"path": "x", "content": "x" * (MOST_WRITTEN + 1)}, "write it in parts"),
        ("write_file", {"path": "x", "content": ["a"]}, "content must be a text"), ("grep", {}, "pattern is missing"),
        ("grep", {"pattern": "x", "include": "*.py"}, "did you mean includeGlob"), ("glob", {"pattern": ["*"]}, "pattern must be a text"),
        ("list_files", {"recursive": "yes"}, "recursive must be true or false"), ("remove", {"paths": ["x"]}, "did you mean path"),
    ],
)  # fmt: skip
async def test_a_wrong_argument_is_told_with_an_example(
    memory_box: Workspace, operation: str, arguments: dict[str, Any], problem: str
) -> None:
    result = await do(memory_box, operation, **arguments)

    assert result["error"]["code"] == "invalid_arguments"
    assert problem in result["error"]["message"]
    assert "Example: {" in result["error"]["message"]


async def test_a_secret_is_seen_by_nobody_wherever_a_cut_falls(home: Path) -> None:
    value = "correct-horse-battery-staple"
    records: list[AuditRecord] = []
    asked = WorkspaceOptions(redaction=Redaction(secrets={"TOKEN": Secret(value)}), audit=records.append)
    async with opened("memory", home) as runtime, open_in(runtime, rules=asked) as box:
        await box.files.write("/mnt/data/secret", b"x" * (MOST_TEXT - 10) + value.encode() + b"\nkey=" + value.encode())
        await box.files.write(f"/mnt/data/{value}", b"")
        results = [
            await do(box, "read_file", path="secret"),
            await do(box, "read_file", path="secret", offset=2),
            await do(box, "grep", pattern="key"),
            await do(box, "list_files"),
            await do(box, "stat", path=value),
            await do(box, "read_file", path=f"none/{value}"),
        ]
        raw = await do(box, "read_file", path="secret", encoding="base64", offset=40_000)

    assert value not in repr(results) + repr(records)
    assert value[:10] not in repr(results[0])
    assert value[:10].encode() not in base64.b64decode(raw["content"])
    assert results[1]["content"] == "key=[REDACTED:TOKEN]"


async def test_each_operation_is_on_record(home: Path) -> None:
    records: list[AuditRecord] = []
    asked = WorkspaceOptions(audit=records.append)
    async with opened("memory", home) as runtime, open_in(runtime, rules=asked) as box:
        await do(box, "write_file", path="x", content="")
        await do(box, "read_file", path="none")

    assert [(one.action, one.command, one.call_id) for one in records] == [
        ("write_file", "write_file x", "call_1"),
        ("read_file", "read_file none", "call_1"),
    ]
    assert (records[0].error, records[1].error) == (None, "none does not exist.")


async def test_a_model_is_told_of_nine_tools_each_with_a_closed_schema(memory_box: Workspace) -> None:
    tools = file_tools(memory_box, "box")

    assert len(tools) == 9
    for tool in tools:
        assert tool.description
        assert tool.parameters["additionalProperties"] is False
        assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])


@pytest.mark.parametrize("pattern", ["/etc/*.conf", "../../etc/*"])
async def test_a_glob_that_leads_outside_is_told_and_not_empty(shared_box: Workspace, pattern: str) -> None:
    error = (await do(shared_box, "glob", pattern=pattern))["error"]

    assert (error["code"], "/etc is outside" in error["message"]) == ("file_error", True)


async def test_what_re2_says_of_a_pattern_is_said_in_words(shared_box: Workspace) -> None:
    assert "cannot be used: missing ): (. Patterns" in (await do(shared_box, "grep", pattern="("))["error"]["message"]

"""`workspace__<name>__run` in real boxes: what a model gets back, and the events while output arrives."""

import json
from typing import Any

import anyio
import pytest

from limpet.core.errors import ConfigInvalid
from limpet.core.secret import Secret
from limpet.guard.redaction.redactor import Redaction
from limpet.tools import RunTool, ShellCmdTool, ToolEvent, refuse_foreign, tools_for
from limpet.tools.run import MOST_OUTPUT
from limpet.tools.view import as_files_know
from limpet.workspace.audit import AuditRecord
from limpet.workspace.opening import WorkspaceOptions, open_in
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

MOST = 5.0  # seconds


async def run(box: Workspace, command: str, **arguments: Any) -> dict[str, Any]:
    result = await RunTool(box, "box").call({"command": command, **arguments}, call_id="call_1")
    json.dumps(result)
    return result


@pytest.mark.statement("s1-the-run-tool-answers-with-text-code-and-duration")
async def test_the_result_has_the_seeds_four_fields_and_no_other_where_all_is_said(box: Workspace) -> None:
    result = await run(box, "echo out; echo err >&2; exit 3")

    assert result.pop("durationMs") > 0
    assert result == {"stdout": "out\n", "stderr": "err\n", "exitCode": 3}


@pytest.mark.statement("s1-the-run-tool-is-named-after-its-workspace")
async def test_a_model_is_told_name_and_schema(memory_box: Workspace) -> None:
    tool = RunTool(memory_box, "box")

    assert tool.name == "workspace__box__run"
    assert set(tool.parameters["properties"]) == {"command", "cwd", "env", "timeoutMs"}
    assert tool.parameters["required"] == ["command"]
    assert memory_box.directory in tool.description


async def test_place_variables_and_time_reach_the_command(box: Workspace) -> None:
    await box.run("mkdir sub")

    result = await run(box, 'basename "$PWD"; echo $WHO $N', cwd="sub", env={"WHO": "me", "N": 5}, timeoutMs="5000")

    assert result["stdout"] == "sub\nme 5\n"


async def test_a_timeout_is_told_with_what_was_printed(real_box: Workspace) -> None:
    result = await run(real_box, "echo begun; sleep 60", timeoutMs=700)

    assert (result["stdout"], result["exitCode"], result["timedOut"]) == ("begun\n", 124, True)


async def test_long_output_is_bounded_and_whole_in_a_file(real_box: Workspace) -> None:
    result = await run(real_box, "seq 100000; echo end >&2")

    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    assert len(result["stdout"]) < MOST_OUTPUT + 100
    assert result["stdout"].startswith("1\n2\n")
    assert result["stdout"].endswith("99999\n100000\n")
    assert "bytes left out" in result["stdout"]
    assert (result["stdoutBytes"], result["stderr"]) == (len(whole), "end\n")
    assert await real_box.files.read(as_files_know(real_box, result["stdoutFile"])) == whole.encode()
    again = await run(real_box, f"wc -c < {result['stdoutFile']}")
    assert again["stdout"].strip() == str(len(whole))


async def test_a_cut_falls_between_characters(real_box: Workspace) -> None:
    await real_box.files.write("/mnt/data/wide", "🐚".encode() * 40_000)

    result = await run(real_box, "printf x; cat wide")

    assert "\ufffd" not in result["stdout"]
    assert "\ufffd" not in (await run(real_box, "cat wide; printf x"))["stdout"]


async def test_a_million_lines_without_an_end_and_a_hundred_thousand_with_are_bounded(real_box: Workspace) -> None:
    result = await run(real_box, "head -c 3000000 /dev/zero | tr '\\0' x; yes | head -n 100000 >&2")

    assert (result["stdoutBytes"], result["stderrBytes"]) == (3_000_000, 200_000)
    assert len(json.dumps(result)) < 4 * MOST_OUTPUT


async def test_binary_output_is_told_and_kept_byte_for_byte(real_box: Workspace) -> None:
    await real_box.files.write("/mnt/data/binary", bytes(range(256)))

    result = await run(real_box, "cat binary")

    assert result["stdoutBytes"] == 256
    assert await real_box.files.read(as_files_know(real_box, result["stdoutFile"])) == bytes(range(256))


@pytest.mark.statement("s1-the-run-tool-streams-events")
async def test_events_arrive_in_order_with_whole_characters(real_box: Workspace) -> None:
    events: list[ToolEvent] = []

    async def listen(event: ToolEvent) -> None:
        events.append(event)

    tool = RunTool(real_box, "box", on_event=listen)
    result = await tool.call(
        {"command": "printf 'a\\303'; sleep 0.2; printf '\\274\\n'; echo oh >&2; printf '\\360\\237'"}, call_id="call_9"
    )

    assert [event.data["sequence"] for event in events] == list(range(len(events)))
    assert {(event.data["workspace"], event.data["callId"]) for event in events} == {("box", "call_9")}
    told = {
        kind: "".join(event.data["text"] for event in events if event.type == kind)
        for kind in ("workspace_stdout", "workspace_stderr")
    }
    assert told == {"workspace_stdout": result["stdout"], "workspace_stderr": result["stderr"]}
    assert told["workspace_stdout"] == "aü\n\ufffd"
    times = [event.data["time"] for event in events]
    assert times == sorted(times)
    json.dumps([event.data for event in events])


@pytest.mark.statement("s1-the-run-tool-streams-events")
async def test_an_event_comes_while_the_command_still_runs(real_box: Workspace) -> None:
    async def listen(event: ToolEvent) -> None:
        await real_box.files.write("/mnt/data/heard", b"")

    tool = RunTool(real_box, "box", on_event=listen)
    with anyio.fail_after(MOST):
        result = await tool.call({"command": "echo first; while [ ! -e heard ]; do sleep 0.02; done; echo second"})

    assert result["stdout"] == "first\nsecond\n"


async def test_a_slow_listener_slows_the_command_down(real_box: Workspace) -> None:
    seen = anyio.Event()
    go_on = anyio.Event()

    async def listen(event: ToolEvent) -> None:
        seen.set()
        await go_on.wait()

    tool = RunTool(real_box, "box", on_event=listen)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tool.call, {"command": "head -c 300000000 /dev/zero; touch ended"})
        with anyio.fail_after(MOST):
            await seen.wait()
        await real_box.run("sleep 0.3")
        assert "ended" not in {one.path.rsplit("/", 1)[-1] for one in await real_box.files.list("/mnt/data")}
        tasks.cancel_scope.cancel()


async def test_a_listener_that_fails_changes_nothing_but_is_counted(real_box: Workspace) -> None:
    async def listen(event: ToolEvent) -> None:
        raise ValueError(event.type)

    result = await RunTool(real_box, "box", on_event=listen).call({"command": "echo hi"})

    assert (result["stdout"], result["exitCode"], result["callbackErrors"]) == ("hi\n", 0, 1)


async def test_a_caller_who_is_cancelled_leaves_no_process(real_box: Workspace) -> None:
    with anyio.CancelScope() as scope:

        async def listen(event: ToolEvent) -> None:
            scope.cancel()

        await RunTool(real_box, "box", on_event=listen).call({"command": "echo begun; exec sleep 4243"})

    assert scope.cancelled_caught
    assert (await real_box.run("pgrep -fx 'sleep 4243' || echo none")).stdout == b"none\n"


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ({}, "command is missing"), ({"command": " "}, "command is empty"), ({"command": ["ls"]}, "command must be a text"),
        ({"command": "ls", "timeout": 5}, "did you mean timeoutMs"), ({"command": "ls", "timeoutMs": 0}, "from 1 to 604800000"),
        ({"command": "ls", "timeoutMs": "1s"}, "timeoutMs must be a number"), ({"command": "ls", "env": "A=1"}, "env must be an object"),
        ({"command": "ls", "env": {"A": ["1"]}}, "must be a text"), ({"command": "ls\0"}, "NUL character at position 2"),
        ({"command": "echo \udcff"}, "half of a surrogate pair (U+DCFF) at position 5"),
        ({"command": "ls", "cwd": 5}, "cwd must be a text"),
        ({"command": "ls", "env": {"A": "\0"}}, "NUL character"),
    ],
)  # fmt: skip
async def test_a_wrong_argument_is_told_with_an_example(
    memory_box: Workspace, arguments: dict[str, Any], problem: str
) -> None:
    result = await RunTool(memory_box, "box").call(arguments)

    assert result["error"]["code"] == "invalid_arguments"
    assert problem in result["error"]["message"]
    assert result["error"]["message"].endswith('Example: {"command": "ls -la", "timeoutMs": 30000}')


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ({"command": "ls", "cwd": "nowhere"}, "nowhere is not a directory"), ({"command": "ls", "env": {"A=B": "1"}}, "'A=B' cannot be"),
        ({"command": "x" * 3_000_000}, "too long"),
    ],
)  # fmt: skip
async def test_what_cannot_start_is_told_as_a_refusal(box: Workspace, arguments: dict[str, Any], problem: str) -> None:
    result = await RunTool(box, "box").call(arguments)

    assert result["error"]["code"] == "refused"
    assert problem in result["error"]["message"]


async def test_secrets_leave_by_no_exit(home: Any) -> None:
    value = "correct-horse-battery-staple"
    half = len(value) // 2
    events: list[ToolEvent] = []
    records: list[AuditRecord] = []

    async def listen(event: ToolEvent) -> None:
        events.append(event)

    asked = WorkspaceOptions(redaction=Redaction(secrets={"TOKEN": Secret(value)}), audit=records.append)
    async with opened("bubblewrap", home) as runtime, open_in(runtime, rules=asked) as box:
        await box.files.write("/mnt/data/first", value[:half].encode())
        await box.files.write("/mnt/data/second", value[half:].encode())
        said = f"cat first; sleep 0.1; cat second; echo; printf '{value}\\n' >&2; printf {value} | base64; seq 100000"
        result = await RunTool(box, "box", on_event=listen).call({"command": said})
        whole = await box.files.read(result["stdoutFile"])
        wrong = await RunTool(box, "box").call({"command": "ls", "cwd": value})
        command = await ShellCmdTool(box, session="s", on_event=listen).call({"command": "echo", "parameters": [value]})

    for exit_ in (result, wrong, command, events, records, whole):
        assert value not in repr(exit_)
        assert value[half:] not in repr(exit_)
    assert "[REDACTED:TOKEN]" in result["stdout"]


async def test_a_workspace_that_is_gone_is_told(home: Any) -> None:
    async with opened("local", home) as runtime:
        async with open_in(runtime) as box:
            tool = RunTool(box, "box")
        result = await tool.call({"command": "ls"})

    assert result["error"]["code"] == "workspace_gone"


async def test_a_workspace_has_the_tools_of_what_it_has(home: Any) -> None:
    async with opened("memory", home) as runtime:
        async with open_in(runtime, "box") as box:
            everything = [tool.name for tool in tools_for(box)]
        async with open_in(runtime, "box", rules=WorkspaceOptions(capabilities={"files": True})) as box:
            only_files = [tool.name for tool in tools_for(box, "docs")]
        async with open_in(runtime, "box", rules=WorkspaceOptions(capabilities={"shell": True})) as box:
            only_shell = [tool.name for tool in tools_for(box)]

    names = ["read_file", "write_file", "edit_file", "list_files", "glob", "grep", "stat", "remove", "mkdir"]
    assert everything == [f"workspace__box__{name}" for name in ("run", *names)]
    assert only_files == [f"workspace__docs__{name}" for name in names]
    assert only_shell == ["workspace__box__run"]


@pytest.mark.statement("s1-the-prefix-is-reserved")
async def test_the_prefix_is_reserved_and_names_are_taken_once(memory_box: Workspace) -> None:
    own = RunTool(memory_box, "box")
    other = ShellCmdTool(memory_box, session="s")

    refuse_foreign([other])
    assert [tool.name for tool in tools_for(memory_box, beside=[other])][-1] == "shell_cmd"
    with pytest.raises(ConfigInvalid, match="workspace__"):
        tools_for(memory_box, beside=[own])
    with pytest.raises(ConfigInvalid, match="two tools"):
        refuse_foreign([other, other])
    with pytest.raises(ConfigInvalid):
        tools_for(memory_box, "a__b")

"""What a client sees and gets, over each transport and in both eras of the protocol. Real boxes."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.mcp.conftest import Connect, text_of
from tests.support.fetching import fetching

pytestmark = pytest.mark.anyio

FILE_TOOLS = ["read_file", "write_file", "edit_file", "list_files", "glob", "grep", "stat", "remove", "mkdir"]


async def test_the_tools_of_the_workspace_are_listed_with_what_they_do(client_of: Connect) -> None:
    async with client_of("--name", "den", "--shell-cmd") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == [
        "workspace__den__run",
        *(f"workspace__den__{name}" for name in FILE_TOOLS),
        "Bash",
        "shell_cmd",
    ]
    assert {name: tool.annotations.read_only_hint for name, tool in tools.items() if tool.annotations} == {
        name: name.endswith(("read_file", "list_files", "glob", "grep", "stat")) for name in tools
    }
    assert all(tool.input_schema["type"] == "object" and tool.description and tool.title for tool in tools.values())


async def test_a_client_is_told_what_the_box_reaches(stdio: Connect) -> None:
    told: dict[tuple[str, ...], Any] = {}
    for arguments in ((), ("--allow-host", "api.good.example", "--allow-host", "*.files.example")):
        async with stdio(*arguments) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            words = [client.instructions, tools["Bash"].description, tools["workspace__box__run"].description]
            refused = await client.call_tool("Bash", {"command": fetching("http://evil.example/")})
        assert [text for text in words if text is None] == []
        told[arguments] = (words, tools["Bash"].annotations, text_of(refused))
    closed, opened = told.values()
    assert ["There is no network" in text for text in closed[0]] == [True] * 3
    assert ["api.good.example, *.files.example" in text for text in opened[0]] == [True] * 3
    assert (closed[1].open_world_hint, opened[1].open_world_hint) == (False, True)
    assert "Allowed: api.good.example, *.files.example. Do not retry" in opened[2]


async def test_a_command_runs_in_the_box_and_its_files_stay(client_of: Connect) -> None:
    async with client_of() as client:
        made = await client.call_tool("Bash", {"command": "mkdir -p sub && cd sub && echo 41 > n"})
        seen = await client.call_tool("Bash", {"command": "echo $(( $(cat n) + 1 ))"})
        read = await client.call_tool("workspace__box__read_file", {"path": "sub/n"})
        ran = await client.call_tool("workspace__box__run", {"command": "cat sub/n; exit 3"})
    assert (made.is_error, made.structured_content["next_cwd"]) == (False, "/mnt/data/sub")
    assert seen.structured_content["stdout"] == "42\n"
    assert "41" in text_of(read)
    assert (ran.is_error, ran.structured_content["stdout"], ran.structured_content["exitCode"]) == (False, "41\n", 3)
    assert json.loads(text_of(ran)) == ran.structured_content


async def test_output_arrives_as_progress_while_the_command_runs(client_of: Connect) -> None:
    told: list[tuple[float, str]] = []
    first = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message or ""))
        first.set()

    results: list[Any] = []
    async with client_of() as client:

        async def call(tool: str) -> None:
            command = {"command": "echo one; until [ -e go ]; do sleep 0.02; done; echo two >&2"}
            results.append(await client.call_tool(tool, command, progress_callback=hear))

        for tool in ("workspace__box__run", "Bash"):
            told.clear()
            first = anyio.Event()
            with anyio.fail_after(10):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call, tool)
                    await first.wait()
                    await client.call_tool("workspace__box__write_file", {"path": "go", "content": ""})
            assert told == [(4.0, "one\n"), (8.0, "two\n")]
            await client.call_tool("workspace__box__remove", {"path": "go"})
    assert [result.structured_content["stdout"] for result in results] == ["one\n", "one\n"]


async def test_a_fast_command_floods_nobody_and_its_result_is_bounded(stdio: Connect) -> None:
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with stdio() as client:
        result = await client.call_tool("workspace__box__run", {"command": "seq 1 2000000"}, progress_callback=hear)
    assert max(map(len, told)) < 5_000
    assert len(told) <= 10 * (result.structured_content["durationMs"] / 1000 + 1) + 2
    assert len(text_of(result)) < 200_000
    assert result.structured_content["stdoutBytes"] == 14_888_896
    assert result.structured_content["stdoutFile"].startswith("/home/agent/")


async def test_a_cancelled_call_ends_its_command(client_of: Connect) -> None:
    async with client_of() as client:
        for tool in ("workspace__box__run", "Bash"):
            begun = anyio.Event()

            async def hear(
                progress: float, total: float | None, message: str | None, begun: anyio.Event = begun
            ) -> None:
                begun.set()

            async with anyio.create_task_group() as tasks:
                command = {"command": "echo $$ > pid; echo begun; setsid sleep 4321; true"}

                async def call(tool: str = tool, command: Any = command, hear: Any = hear) -> None:
                    await client.call_tool(tool, command, progress_callback=hear)

                tasks.start_soon(call)
                with anyio.fail_after(10):
                    await begun.wait()
                tasks.cancel_scope.cancel()
            gone = (
                'for i in $(seq 100); do pgrep -f "sleep 432[1]" >/dev/null || { echo gone; break; }; sleep 0.05; done'
            )
            seen = await client.call_tool("workspace__box__run", {"command": gone})
            assert seen.structured_content["stdout"] == "gone\n"


async def test_errors_are_sentences_that_a_model_can_act_on(client_of: Connect) -> None:
    async with client_of("--block", "curl") as client:
        missing = await client.call_tool("workspace__box__run", {"comand": "ls"})
        denied = await client.call_tool("Bash", {"command": "curl http://example.com"})
        absent = await client.call_tool("workspace__box__read_file", {"path": "nothing"})
        with pytest.raises(Exception, match=r"Unknown tool 'Bsah'; there are: .*Bash"):
            await client.call_tool("Bsah", {"command": "ls"})
        after = await client.call_tool("Bash", {"command": "echo on"})
    assert [result.is_error for result in (missing, denied, absent)] == [True, True, True]
    assert "did you mean command" in text_of(missing)
    assert (denied.structured_content["error"]["rule"], "curl" in text_of(denied)) == ("blocked_commands", True)
    assert "nothing" in text_of(absent)
    assert after.structured_content["stdout"] == "on\n"


async def test_readonly_offers_no_tool_that_changes_files(stdio: Connect) -> None:
    async with stdio("--readonly") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        denied = await client.call_tool("Bash", {"command": "touch x"})
        seen = await client.call_tool("Bash", {"command": "ls -A | wc -l"})
    assert not {f"workspace__box__{name}" for name in ("write_file", "edit_file", "remove", "mkdir")} & set(tools)
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
    assert (denied.is_error, denied.structured_content["error"]["rule"]) == (True, "readonly")
    assert seen.structured_content["stdout"] == "0\n"


async def test_a_secret_in_output_is_redacted_in_progress_and_result(stdio: Connect) -> None:
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with stdio() as client:
        for tool in ("workspace__box__run", "Bash"):
            result = await client.call_tool(
                tool, {"command": f"echo {token[:10]}''{token[10:]}"}, progress_callback=hear
            )
            assert "[REDACTED" in result.structured_content["stdout"]
            assert token not in text_of(result)
    assert "".join(told).count("[REDACTED") == 2


async def test_files_of_a_given_directory_outlive_the_session(stdio: Connect, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for word in ("one", "two"):
        async with stdio("--directory", str(kept)) as client:
            result = await client.call_tool("workspace__box__run", {"command": f"echo {word} >> note.txt"})
        assert result.structured_content["stderr"] == ""
    assert (kept / "data/note.txt").read_text() == "one\ntwo\n"


async def test_several_calls_of_a_session_run_at_once_each_with_its_own_progress(client_of: Connect) -> None:
    told: dict[str, list[str]] = {"a": [], "b": []}
    results: dict[str, Any] = {}

    async with client_of() as client:

        async def call(name: str, other: str) -> None:
            async def hear(progress: float, total: float | None, message: str | None) -> None:
                told[name].append(message or "")

            # Each waits for the other: one after the other they would never end.
            command = f"echo {name}; touch {name}; until [ -e {other} ]; do sleep 0.02; done"
            results[name] = await client.call_tool("Bash", {"command": command}, progress_callback=hear)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, "a", "b")
                tasks.start_soon(call, "b", "a")
    assert told == {"a": ["a\n"], "b": ["b\n"]}
    assert {name: result.structured_content["stdout"] for name, result in results.items()} == {"a": "a\n", "b": "b\n"}


async def test_odd_output_names_and_arguments_come_through_or_are_refused_in_words(stdio: Connect) -> None:
    for mode in ("auto", "legacy"):
        async with stdio(mode=mode) as client:
            await client.call_tool("Bash", {"command": "touch $'a\\xffb' 'c d' ü"})
            listed = await client.call_tool("workspace__box__list_files", {})
            binary = await client.call_tool(
                "workspace__box__run", {"command": "head -c 300 /dev/urandom; printf '\\0'"}
            )
            nul = await client.call_tool("Bash", {"command": "echo a\0b"})
            large = await client.call_tool("Bash", {"command": f"echo {'x' * 1_000_000} | wc -c"})
            number = await client.call_tool("Bash", {"command": 7})
        names = {entry["name"] for entry in listed.structured_content["entries"]}
        assert {"c d", "ü"} < names
        assert (len(names), binary.is_error, binary.structured_content["stdoutBytes"]) == (3, False, 301)
        assert (nul.is_error, "NUL" in text_of(nul)) == (True, True)
        assert (number.is_error, "must be a text" in text_of(number)) == (True, True)
        assert large.is_error or large.structured_content["stdout"] == "1000001\n"

"""`shell_cmd` while a command runs: its input, its time, its output as it comes, and how it is stopped."""

from typing import Any

import anyio
import pytest

from limpet.tools.events import ToolEvent
from limpet.tools.shell_cmd.executions import Executions
from limpet.workspace.workspace import Workspace
from tests.tools.shell_cmd.calls import as_json, script, tool

pytestmark = pytest.mark.anyio

MOST = 5.0  # seconds


async def test_a_command_without_input_does_not_wait_for_any(box: Workspace) -> None:
    with anyio.fail_after(MOST):
        result = await as_json(box, "cat")

    assert (result["exit_code"], result["stdout"]) == (0, "")


@pytest.mark.statement("s3-timeout-is-in-milliseconds")
async def test_a_timeout_kills_and_keeps_what_was_printed(real_box: Workspace) -> None:
    await script(real_box, "slow", b"echo begun; sleep 60\n")
    shared = Executions()

    result = await tool(real_box, executions=shared).call(
        {"command": "./slow", "timeout": "1500", "output_format": "json"}
    )

    assert (result["timed_out"], result["stdout"], result["exit_code"]) == (True, "begun\n", 124)
    assert [one.status for one in shared.list(session="s")] == ["timed_out"]


@pytest.mark.statement("s3-chunks-are-tool-stream-events")
async def test_output_is_told_while_it_arrives_with_the_calls_id(real_box: Workspace) -> None:
    await script(real_box, "talk", b"printf '\\303'; sleep 0.2; printf '\\274b'; echo oh >&2\n")
    events: list[ToolEvent] = []

    async def listen(event: ToolEvent) -> None:
        events.append(event)

    shared = Executions()
    await tool(real_box, executions=shared, on_event=listen).call({"command": "./talk"}, call_id="call_7")

    execution = shared.list(session="s")[0]
    assert {event.type for event in events} == {"tool-stream"}
    assert [event.data["sequence"] for event in events] == list(range(len(events)))
    assert "".join(event.data["content"] for event in events if event.data["stream"] == "stdout") == "üb"
    assert "".join(event.data["content"] for event in events if event.data["stream"] == "stderr") == "oh\n"
    assert {(event.data["toolName"], event.data["messageId"], event.data["executionId"]) for event in events} == {
        ("shell_cmd", "call_7", execution.id)
    }


async def test_a_listener_that_fails_changes_nothing_about_the_command(real_box: Workspace) -> None:
    async def listen(event: ToolEvent) -> None:
        raise ValueError(event.type)

    result = await tool(real_box, on_event=listen).call(
        {"command": "echo", "parameters": ["hi"], "output_format": "json"}
    )

    assert (result["exit_code"], result["stdout"]) == (0, "hi\n")


@pytest.mark.statement("s3-a-session-or-a-chat-is-cancelled")
async def test_a_stop_of_the_chat_kills_its_command_and_leaves_the_others(real_box: Workspace) -> None:
    await script(real_box, "wait", b"trap '' TERM; echo $1; while [ ! -e go ]; do sleep 0.05; done; echo done\n")
    shared = Executions()
    results: dict[str, dict[str, Any]] = {}

    async with anyio.create_task_group() as tasks:
        begun = {chat: anyio.Event() for chat in "ab"}

        async def run(chat: str) -> None:
            async def listen(event: ToolEvent) -> None:
                begun[chat].set()

            call = {"command": "./wait", "parameters": [chat], "output_format": "json"}
            results[chat] = await tool(real_box, chat=chat, executions=shared, on_event=listen).call(call)

        for chat in "ab":
            tasks.start_soon(run, chat)
        with anyio.fail_after(MOST):
            for event in begun.values():
                await event.wait()
        assert {one.status for one in shared.list(session="s", only_active=True)} == {"running"}
        assert shared.cancel(session="s", chat="a") == 1
        assert shared.cancel(session="s", chat="a") == 0
        with anyio.fail_after(MOST):
            while "a" not in results:
                await anyio.sleep(0.01)
        await real_box.files.write("/mnt/data/go", b"")

    assert (results["a"]["canceled"], results["a"]["exit_code"], results["a"]["stdout"]) == (True, -1, "a\n")
    assert (results["b"]["exit_code"], results["b"]["stdout"]) == (0, "b\ndone\n")
    assert {one.chat: one.status for one in shared.list(session="s")} == {"a": "canceled", "b": "completed"}


async def test_a_caller_who_is_cancelled_leaves_a_canceled_record_and_no_process(real_box: Workspace) -> None:
    await script(real_box, "wait", b"echo begun; exec sleep 4242\n")
    shared = Executions()
    with anyio.CancelScope() as scope:

        async def listen(event: ToolEvent) -> None:
            scope.cancel()

        await tool(real_box, executions=shared, on_event=listen).call({"command": "./wait"})

    assert [one.status for one in shared.list(session="s")] == ["canceled"]
    assert (await real_box.run("pgrep -fx 'sleep 4242' || echo none")).stdout == b"none\n"


@pytest.mark.statement("s3-a-lifecycle-is-tracked")
async def test_records_say_how_each_command_ended(box: Workspace) -> None:
    shared = Executions()
    here = tool(box, executions=shared, chat="c")
    await here.call({"command": "echo", "parameters": ["hi"]})
    await here.call({"command": "cat", "parameters": ["none"]})
    await here.call({"command": "ls", "directory": "nowhere"})
    await here.call({"command": "sh", "parameters": ["-c", "id"]})

    records = shared.list(session="s", chat="c")
    assert [(one.command, one.status, one.exit_code) for one in records] == [
        ("ls", "failed", None),
        ("cat none", "failed", 1),
        ("echo hi", "completed", 0),
    ]
    assert records[2].stdout_bytes == 3

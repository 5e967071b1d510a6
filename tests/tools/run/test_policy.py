"""A workspace's policy binds its tools."""

from pathlib import Path

import pytest

from limpet.guard.policy.policy import Policy
from limpet.tools import RunTool
from limpet.workspace.audit import AuditRecord
from limpet.workspace.opening import WorkspaceOptions, open_in
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio


async def test_what_is_left_out_is_in_a_file_also_where_commands_may_write_none(home: Path) -> None:
    asked = WorkspaceOptions(policy=Policy(readonly=True))
    async with opened("bubblewrap", home) as runtime, open_in(runtime, rules=asked) as box:
        tool = RunTool(box, "box")
        result = await tool.call({"command": "seq 100000"})
        last = await tool.call({"command": f"tail -n 1 {result['stdoutFile']}"})

    assert "bytes left out" in result["stdout"]
    assert last["stdout"] == "100000\n"


async def test_where_nothing_takes_a_file_the_count_says_what_is_missing(home: Path) -> None:
    async with opened("bubblewrap", home) as runtime, open_in(runtime) as box:
        tool = RunTool(box, "box")
        await tool.call({"command": "touch ~/.limpet; chmod 555 /tmp"})
        result = await tool.call({"command": "seq 100000"})

    assert result["stdoutBytes"] == 588_895
    assert "stdoutFile" not in result
    assert "bytes left out" in result["stdout"]


async def test_the_policy_binds_the_tool_and_its_denial_is_on_record(home: Path) -> None:
    records: list[AuditRecord] = []
    asked = WorkspaceOptions(
        policy=Policy(allowed_commands=frozenset({"echo", "ls"}), max_duration=5.0), audit=records.append
    )
    async with opened("local", home) as runtime, open_in(runtime, "shop", rules=asked) as box:
        tool = RunTool(box, "shop")
        fine = await tool.call({"command": "echo hi"}, call_id="a")
        denied = await tool.call({"command": "ls; id"}, call_id="b")

    assert fine["stdout"] == "hi\n"
    assert (denied["error"]["code"], denied["error"]["rule"]) == ("denied", "allowed_commands")
    assert "5 seconds" in tool.description
    assert [(one.action, one.verdict, one.call_id) for one in records] == [
        ("run", "allowed", "a"),
        ("run", "denied", "b"),
    ]


async def test_wrong_arguments_are_on_record_too(home: Path) -> None:
    records: list[AuditRecord] = []
    async with opened("memory", home) as runtime, open_in(runtime, rules=WorkspaceOptions(audit=records.append)) as box:
        await RunTool(box, "box").call({"command": 5}, call_id="a")

    assert [(one.action, one.call_id, one.exit_code) for one in records] == [("run", "a", None)]
    assert "command must be a text" in (records[0].error or "")


async def test_no_call_gets_more_time_than_the_policy_gives(home: Path) -> None:
    rules = WorkspaceOptions(capabilities={"shell": {"maxDurationMs": 500}})
    async with opened("local", home) as runtime, open_in(runtime, rules=rules) as box:
        asked = await RunTool(box, "box").call({"command": "sleep 60", "timeoutMs": 600000})
        not_asked = await RunTool(box, "box").call({"command": "sleep 60"})

    assert (asked["timedOut"], not_asked["timedOut"]) == (True, True)
    assert max(asked["durationMs"], not_asked["durationMs"]) < 5_000

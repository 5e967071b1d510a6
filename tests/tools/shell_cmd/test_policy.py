"""The workspace's policy and its approver decide over `shell_cmd` too; every refusal is on record."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from limpet.core.secret import Secret
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction
from limpet.tools.shell_cmd.config import ShellCmdConfig
from limpet.tools.shell_cmd.executions import Executions
from limpet.tools.shell_cmd.tool import ShellCmdTool
from limpet.workspace.approvals import ApprovalQueue, ApprovalRequest
from limpet.workspace.audit import AuditRecord
from limpet.workspace.opening import WorkspaceOptions, open_in
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

MOST = 5.0  # seconds
REMOVE: dict[str, Any] = {"command": "rm", "parameters": ["-rf", "build"], "output_format": "json"}
CONFIRMED = Policy(confirm_destructive=True)


async def test_what_destroys_runs_once_somebody_says_so(home: Path) -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    rules = WorkspaceOptions(policy=CONFIRMED, approver=approve, session="s")
    async with opened("local", home) as runtime, open_in(runtime, rules=rules) as box:
        await box.files.write("/mnt/data/build/x", b"")
        result = await ShellCmdTool(box, session="s").call(REMOVE)
        left = await box.files.list("/mnt/data")

    assert (result["exit_code"], left) == (0, [])
    assert [(request.command, request.session) for request in asked] == [("rm -rf build", "s")]


async def test_what_nobody_approves_does_not_run_and_is_told(home: Path) -> None:
    records: list[AuditRecord] = []
    shared = Executions()
    async with (
        opened("local", home) as runtime,
        open_in(runtime, rules=WorkspaceOptions(policy=CONFIRMED, audit=records.append)) as box,
    ):
        await box.files.write("/mnt/data/build/x", b"")
        result = await ShellCmdTool(box, session="s", executions=shared).call(REMOVE, call_id="call_1")
        left = await box.files.list("/mnt/data")

    assert (result["error"]["code"], result["error"]["rule"]) == ("denied", "confirm_destructive")
    assert [one.path for one in left] == ["/mnt/data/build"]
    assert [one.status for one in shared.list(session="s")] == ["failed"]
    assert [(one.action, one.verdict, one.call_id) for one in records] == [("shell_cmd", "denied", "call_1")]


async def test_a_stop_ends_the_wait_for_an_approval(home: Path) -> None:
    queue = ApprovalQueue()
    shared = Executions()
    results: list[dict[str, Any]] = []
    async with (
        opened("local", home) as runtime,
        open_in(runtime, rules=WorkspaceOptions(policy=CONFIRMED, approver=queue)) as box,
    ):
        tool = ShellCmdTool(box, session="s", chat="c", executions=shared)

        async def call() -> None:
            results.append(await tool.call(REMOVE))

        with anyio.fail_after(MOST):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                while not queue.pending():
                    await queue.changed()
                assert tool.cancel(chat="c") == 1

    assert [(one["canceled"], one["stdout"]) for one in results] == [(True, "")]
    assert [one.status for one in shared.list(session="s")] == ["canceled"]


@pytest.mark.parametrize(
    "policy, command, parameters, rule",
    [
        (Policy(), "mkfs", ["x"], "blocked_commands"), (Policy(), "rm", ["-rf", "--no-preserve-root", "."], "blocked_commands"),
        (Policy(allowed_commands=frozenset({"ls"})), "cat", ["x"], "allowed_commands"), (Policy(readonly=True), "touch", ["x"], "readonly"),
        (Policy(blocked_commands=frozenset({"git"})), "git", ["status"], "blocked_commands"),
    ],
)  # fmt: skip
async def test_every_rule_of_the_policy_holds(
    home: Path, policy: Policy, command: str, parameters: list[str], rule: str
) -> None:
    async with opened("local", home) as runtime, open_in(runtime, rules=WorkspaceOptions(policy=policy)) as box:
        result = await ShellCmdTool(box, session="s").call({"command": command, "parameters": parameters})

    assert (result["error"]["code"], result["error"]["rule"]) == ("denied", rule)


async def test_no_call_gets_more_time_than_the_policy_gives(home: Path) -> None:
    async with (
        opened("local", home) as runtime,
        open_in(runtime, rules=WorkspaceOptions(policy=Policy(max_duration=0.5))) as box,
    ):
        call = {"command": "sleep", "parameters": ["60"], "timeout": 900000, "output_format": "json"}
        with anyio.fail_after(MOST):
            result = await ShellCmdTool(box, session="s").call(call)

    assert result["timed_out"] is True


async def test_words_outside_what_the_policy_lets_be_seen_are_denied(home: Path) -> None:
    policy = Policy(allowed_paths=())
    async with opened("bubblewrap", home) as runtime, open_in(runtime, rules=WorkspaceOptions(policy=policy)) as box:
        await box.files.write("/mnt/data/sub/x", b"hi\n")
        tool = ShellCmdTool(box, session="s", config=ShellCmdConfig(working_directory="/mnt/data/sub"))
        result = await tool.call({"command": "cat", "parameters": ["x"], "output_format": "json"})

    assert result["stdout"] == "hi\n"


async def test_each_call_and_each_rejection_is_on_record_without_its_secrets(home: Path) -> None:
    value = "correct-horse-battery-staple"
    records: list[AuditRecord] = []
    shared = Executions()
    rules = WorkspaceOptions(redaction=Redaction(secrets={"TOKEN": Secret(value)}), audit=records.append)
    async with opened("local", home) as runtime, open_in(runtime, rules=rules) as box:
        tool = ShellCmdTool(box, session="s", executions=shared)
        results = [
            await tool.call({"command": "echo", "parameters": [value]}, call_id="a"),
            await tool.call({"command": "cat", "parameters": [f"/etc/{value}"]}, call_id="b"),
            await tool.call({"command": "sh", "parameters": ["-c", value]}, call_id="c"),
            await tool.call({"command": "ls", "directory": value}, call_id="d"),
            await tool.call({"command": "ls", "artifact_paths": [value], "output_format": "json"}, call_id="e"),
            await tool.call({"command": "ls", value: "x"}, call_id="f"),
            await tool.call({"command": "codex", "parameters": [value]}, call_id="g"),
        ]

    assert value not in repr(results) + repr(records) + repr(shared.list(session="s"))
    told = [(one.action, one.call_id, one.verdict) for one in records]
    assert ("shell_cmd", "b", "denied") in told
    assert ("shell_cmd", "c", "denied") in told
    assert [call_id for _, call_id, _ in told] == ["a", "b", "c", "d", "e", "f", "g"]

"""Policy, redaction and records, as they reach the model: nothing that is secret leaves, nothing that is refused ran."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from limpet.core.secret import Secret
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.tools.bash import BashTool
from limpet.tools.events import ToolEvent
from limpet.workspace.approvals import ApprovalRequest
from limpet.workspace.audit import AuditRecord
from limpet.workspace.kept_outputs import KEPT
from limpet.workspace.opening import WorkspaceOptions, open_in
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import opened
from tests.tools.bash.conftest import MOST
from tests.tools.bash.test_config import SEED

pytestmark = pytest.mark.anyio

SECRET = "hunter2-correct-horse"
TOKEN = "ghp_" + "A1b2C3d4E5" * 4


class Recorded:
    """A box with a known secret, a tool on it, and everything that left it."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []
        self.notes: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.tool: BashTool
        self.box: Workspace

    async def __call__(self, command: str | None = None, **arguments: Any) -> dict[str, Any]:
        given = {**arguments, **({} if command is None else {"command": command})}
        answer = await self.tool.call(given, call_id="call_1")
        self.answers.append(answer)
        return answer

    async def note(self, note: dict[str, Any]) -> None:
        self.notes.append(note)

    def everything(self) -> str:
        return json.dumps([self.answers, self.notes, [repr(record) for record in self.records]])


@asynccontextmanager
async def recorded(block: dict[str, Any] | None = None) -> AsyncIterator[Recorded]:
    made = Recorded()
    asked = WorkspaceOptions(
        redaction=Redaction(secrets={"DB": Secret(SECRET)}), audit=made.records.append, session="conversation"
    )
    async with LocalRuntime() as runtime, open_in(runtime, rules=asked) as box:
        made.box = box
        made.tool = (
            BashTool(box, notify=made.note) if block is None else BashTool.configured(box, block, notify=made.note)
        )
        async with made.tool:
            yield made


@pytest.mark.statement("s2-output-is-redacted")
async def test_a_secret_leaves_by_no_exit() -> None:
    async with recorded() as bash:
        await bash(f"echo {SECRET}; echo {TOKEN} >&2; echo {SECRET} | base64", description=f"shows {SECRET}")
        await bash(f"for i in $(seq 5000); do echo line {SECRET}; done")
        await bash.box.files.mkdir(SECRET)
        await bash(f"cd {SECRET}", cwd=SECRET)
        await bash("true", cwd=SECRET)
        await bash("true", cwd=SECRET, run_in_background=True)
        await bash(f"{SECRET}\0")
        await bash(kill=SECRET)
        await bash(task_id=SECRET)
        task = (await bash(f"read -r x; echo $x {SECRET}; sleep 60", run_in_background=True, stream=True))["task_id"]
        await bash(task_id=task, stdin_text=TOKEN)
        await bash(task_id=task, stream=True, stream_pattern=f"(({SECRET}")
        await bash(task_id=task, kill=True)
        await bash("sleep 60", description=SECRET, run_in_background=True)
        spilled = await bash.box.files.list("/mnt/data/.limpet/tool-results")
        files = [await bash.box.files.read(file.path) for file in spilled]

    assert bash.notes
    assert len(files) == 1
    assert b"[REDACTED:DB]" in files[0]
    for exit_ in (bash.everything(), *(file.decode() for file in files)):
        assert SECRET not in exit_
        assert TOKEN not in exit_


@pytest.mark.statement("s2-patterns-can-be-added")
async def test_patterns_of_the_configuration_are_hidden_and_the_marker_may_be_plain() -> None:
    block = {"config": {"extra_sensitive_patterns": ["INT-[0-9]+"], "redaction_names": False}}
    async with recorded(block) as bash:
        answer = await bash("echo code INT-4711 end")

    assert answer["stdout"] == "code [REDACTED] end\n"


@pytest.mark.statement("s2-every-call-is-audited", "s2-description-travels")
async def test_every_call_in_every_mode_writes_one_record() -> None:
    async with recorded() as bash:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("run", {"command": "cd /; exit 3", "description": "Look around"}),
            ("run", {"command": "x" * 200_000}),
            ("invalid", {"command": 5}),
            ("run", {}),
            ("start", {"command": "sleep 60", "run_in_background": True}),
            ("status", {}),
            ("stdin", {"stdin_text": "x"}),
            ("stream", {"stream": True}),
            ("wait", {"wait": True, "timeout": 1}),
            ("kill", {"kill": True}),
            ("status", {"task_id": "nosuch"}),
        ]
        task: dict[str, Any] = {}
        for action, arguments in calls:
            before = len(bash.records)
            is_of_task = action not in ("run", "invalid", "start") and "task_id" not in arguments
            answer = await bash(**arguments, **(task if is_of_task else {}))
            task = {"task_id": answer["task_id"]} if "task_id" in answer else task
            assert [record.action for record in bash.records[before:]] == [action], arguments

    first, kill = bash.records[0], bash.records[9]
    assert (first.command, first.description, first.exit_code, first.session) == (
        "cd /; exit 3", "Look around", 3, "conversation",
    )  # fmt: skip
    assert first.timestamp.endswith("+00:00")
    assert (kill.command, kill.task_id, kill.exit_code) == ("sleep 60", task["task_id"], 143)
    assert all(record.call_id == "call_1" for record in bash.records)
    assert "no background task nosuch" in (bash.records[10].error or "")


@pytest.mark.statement("s2-description-travels")
async def test_a_description_is_on_the_record_of_every_mode_and_on_live_events() -> None:
    async with recorded() as bash:
        events: list[ToolEvent] = []

        async def hear(event: ToolEvent) -> None:
            events.append(event)

        live = BashTool(bash.box, on_event=hear)
        async with live:
            await live.call({"command": "echo out; echo err >&2", "description": f"Says {SECRET}"})
        started = await bash("sleep 60", description="Waits", run_in_background=True)
        for arguments in ({}, {"wait": True, "timeout": 1}, {"stream": True}, {"kill": True}):
            await bash(task_id=started["task_id"], **arguments)
        await bash(command=5, description="Wrong")
        await bash("sleep 60", description="Ended with its session", run_in_background=True)
        await bash.tool.cleanup_session()

    assert {event.data["description"] for event in events} == {"Says [REDACTED:DB]"}
    assert [(record.action, record.description) for record in bash.records] == [
        ("run", "Says [REDACTED:DB]"),
        ("start", "Waits"),
        ("status", "Waits"),
        ("wait", "Waits"),
        ("stream", "Waits"),
        ("kill", "Waits"),
        ("invalid", "Wrong"),
        ("start", "Ended with its session"),
        ("cancel", "Ended with its session"),
    ]


@pytest.mark.parametrize(
    "command", ["cd /tmp; echo err >&2", "cat /missing", "true", "for i in 1 2; do printf e >&2; done"]
)
async def test_the_records_stderr_bytes_are_the_commands_own(command: str) -> None:
    async with recorded() as bash:
        answer = await bash(command)
    assert bash.records[0].stderr_bytes == len(answer["stderr"])


async def test_a_session_that_ends_is_on_record_for_each_task() -> None:
    async with recorded() as bash:
        await bash("sleep 60", run_in_background=True)

    assert [record.action for record in bash.records] == ["start", "cancel"]


@pytest.mark.statement(
    "s2-allowed-commands-bind", "s2-blocked-commands-add-to-the-platforms", "s2-readonly-refuses-what-writes"
)
@pytest.mark.parametrize(
    "constraints, command",
    [
        ({"allowed_commands": ["ls", "echo"]}, "touch ran"),
        ({"allowed_commands": ["ls", "echo"]}, "echo x; touch ran"),
        ({"blocked_commands": ["touch"]}, "t'ou'ch ran"),
        ({"readonly": True}, "touch ran"),
        ({}, "cat /etc/passwd"),
        ({}, "shutdown now"),
        ({"unrestricted": True}, "rm -rf /"),
    ],
)
@pytest.mark.parametrize("background", [False, True])
async def test_what_the_policy_refuses_runs_in_no_mode(
    constraints: dict[str, Any], command: str, background: bool
) -> None:
    async with recorded({"constraints": constraints}) as bash:
        answer = await bash(command, run_in_background=background)
        left = [file.path for file in await bash.box.files.list()]

    assert answer["error"]["code"] == "denied"
    assert answer["error"]["rule"]
    assert (answer["exit_code"], left) == (None, [])
    assert [record.verdict for record in bash.records] == ["denied"]


@pytest.mark.statement("s2-commands-are-chained")
async def test_under_the_seeds_configuration_everyday_commands_run_and_the_directory_stays() -> None:
    async with recorded(SEED) as bash:
        made = await bash("mkdir -p src && cd src && echo hello > a.txt && ls")
        after = await bash("cat a.txt | wc -l")
        task = await bash("for i in 1 2 3; do echo $i; done", run_in_background=True, wait=True)

    assert (made["stdout"], after["stdout"].strip(), task["stdout"]) == ("a.txt\n", "1", "1\n2\n3\n")
    assert after["cwd"].endswith("/data/src")
    assert [record.command for record in bash.records[:2]] == [
        "mkdir -p src && cd src && echo hello > a.txt && ls",
        "cat a.txt | wc -l",
    ]


@pytest.mark.statement("s2-allowed-paths-add-roots", "s2-a-path-outside-is-refused-with-the-constraint")
async def test_confined_a_directory_outside_is_refused_for_a_call_and_not_carried() -> None:
    async with recorded({"constraints": {"allowed_paths": ["/usr/share"]}}) as bash:
        inside = await bash("pwd", cwd="/usr/share")
        outside = await bash("pwd", cwd="/etc")

    assert inside["stdout"] == "/usr/share\n"
    assert outside["error"]["code"] == "outside"
    assert "add /etc to allowed_paths" in outside["error"]["message"]


@pytest.mark.statement("s2-destructive-commands-need-a-yes")
async def test_an_approval_is_asked_once_for_the_command_as_the_model_wrote_it() -> None:
    asked: list[str] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request.command)
        return True

    command = "mkdir d; rm -rf d; echo gone"
    rules = WorkspaceOptions(policy=Policy(confirm_destructive=True), approver=approve)
    async with LocalRuntime() as runtime, open_in(runtime, rules=rules) as box, BashTool(box) as tool:
        answer = await tool.call({"command": command})
        task = await tool.call({"command": f"{command}; true", "run_in_background": True, "wait": True})

    assert (answer["stdout"], task["stdout"]) == ("gone\n", "gone\n")
    assert asked == [command, f"{command}; true"]


async def test_where_nobody_approves_it_is_denied() -> None:
    async with (
        LocalRuntime() as runtime,
        open_in(runtime, rules=WorkspaceOptions(policy=Policy(confirm_destructive=True))) as box,
    ):
        answer = await BashTool(box).call({"command": "git reset --hard"})

    assert (answer["error"]["code"], answer["error"]["rule"]) == ("denied", "confirm_destructive")


@pytest.mark.statement("s2-no-shell-no-process")
async def test_a_workspace_without_a_shell_starts_nothing() -> None:
    async with LocalRuntime() as runtime, open_in(runtime, rules=WorkspaceOptions(capabilities={"files": True})) as box:
        async with BashTool(box) as tool:
            for arguments in ({}, {"run_in_background": True}):
                answer = await tool.call({"command": "touch ran", **arguments})
                assert "error" in answer
        assert await box.files.list() == []


async def test_a_workspace_that_commands_may_not_write_still_keeps_all_that_they_printed() -> None:
    async with recorded({"constraints": {"readonly": True}}) as bash:
        answer = await bash("seq 200000")
        last = await bash(f"tail -n 1 {answer['stdout_file']}")

        assert answer["stdout_file"].startswith(f"{bash.box.places.home}/{KEPT}/bash_")
        assert last["stdout"] == "200000\n"
        assert await bash.box.files.list() == []


async def test_where_nothing_takes_a_file_more_stands_in_the_result_and_the_rest_is_counted(
    home: Path,
) -> None:
    async with opened("bubblewrap", home) as runtime, open_in(runtime) as box, BashTool(box) as tool:
        await tool.call({"command": "touch .limpet ~/.limpet; chmod 555 /tmp"})
        some = await tool.call({"command": "seq 20000"})
        more = await tool.call({"command": "seq 200000"})

    assert some["stdout"] == "".join(f"{number}\n" for number in range(1, 20_001))
    assert "no file could be written: ask for parts" in more["stdout"]
    assert more["stdout_left_out_bytes"] > 1_000_000


async def test_a_ceiling_of_the_workspace_holds_and_is_said() -> None:
    rules = WorkspaceOptions(capabilities={"shell": {"maxDurationMs": 1000}, "files": True})
    async with LocalRuntime() as runtime, open_in(runtime, rules=rules) as box:
        with anyio.fail_after(2 * MOST):
            answer = await BashTool(box).call({"command": "sleep 60", "timeout": 30})

    assert answer["timed_out"]
    assert answer["notes"] == ["timeout 30 is more than this workspace allows; 1 seconds were used."]


async def test_where_perl_may_not_run_nothing_is_said_of_it() -> None:
    policy = Policy(allowed_commands=frozenset({"mkdir", "cd", "echo"}))
    async with LocalRuntime() as runtime, open_in(runtime, rules=WorkspaceOptions(policy=policy)) as box:
        answer = await BashTool(box).call({"command": "mkdir sub && cd sub && echo out; echo err >&2"})

    assert (answer["stdout"], answer["stderr"], answer["next_cwd"]) == ("out\n", "err\n", f"{box.directory}/sub")


async def test_a_configured_tool_tells_while_a_command_prints() -> None:
    texts: list[str] = []

    async def hear(event: ToolEvent) -> None:
        texts.append(event.data["text"])

    async with LocalRuntime() as runtime, open_in(runtime) as box:
        await BashTool.configured(box, SEED, on_event=hear).call({"command": "echo told"})

    assert "".join(texts) == "told\n"

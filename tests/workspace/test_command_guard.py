"""A workspace behind rules: what is refused, who is asked, what is seen of secrets, and what is on record."""

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from limpet.core.command import Aborted, Command, Exited, Script, TimedOut
from limpet.core.errors import CommandDenied, WorkingDirectoryMissing
from limpet.core.ports import Runtime
from limpet.core.secret import Secret
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction
from limpet.workspace.approvals import ApprovalQueue, ApprovalRequest, Refused
from limpet.workspace.audit import AuditRecord, Call
from limpet.workspace.opening import SandboxOptions, WorkspaceOptions, open_in
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

MOST = 5.0
KNOWN = "correct-horse-battery"
TOKEN = "ghp_" + "a1B2" * 9


class Records(list[AuditRecord]):
    """What was told."""

    async def __call__(self, record: AuditRecord) -> None:
        self.append(record)

    def brief(self) -> list[tuple[str, str, str, int | None]]:
        return [(one.action, one.verdict, one.command, one.exit_code) for one in self]


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture(params=["local", "bubblewrap"])
async def runtime(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Runtime]:
    async with opened(request.param, home) as runtime:
        yield runtime


@asynccontextmanager
async def boxed(runtime: Runtime, env: Mapping[str, str] | None = None, **rules: Any) -> AsyncIterator[Workspace]:
    async with open_in(
        runtime, "box", SandboxOptions(env=env or {}), rules=WorkspaceOptions(session="mine", **rules)
    ) as box:
        yield box


# --- judging -------------------------------------------------------------------------------------------------------


async def test_what_the_policy_refuses_does_not_run_and_is_on_record(runtime: Runtime, records: Records) -> None:
    async with boxed(runtime, policy=Policy(allowed_commands=frozenset({"echo"})), audit=records) as box:
        with pytest.raises(CommandDenied) as refused:
            await box.run("touch made", call=Call(description="Making a file"))
        with pytest.raises(CommandDenied):
            await box.spawn("touch made")
        assert (await box.run("echo fine")).stdout == b"fine\n"
        assert await box.files.list() == []

    assert (refused.value.rule, "touch" in refused.value.reason) == ("allowed_commands", True)
    assert records.brief() == [
        ("run", "denied", "touch made", None),
        ("spawn", "denied", "touch made", None),
        ("run", "allowed", "echo fine", 0),
    ]
    assert records[0].error == refused.value.message
    assert (records[0].rule, records[0].description) == ("allowed_commands", "Making a file")


async def test_variables_of_a_call_that_change_programs_are_refused(runtime: Runtime) -> None:
    async with boxed(runtime, policy=Policy()) as box:
        with pytest.raises(CommandDenied, match="LD_PRELOAD"):
            await box.run("true", env={"LD_PRELOAD": "/mnt/data/x.so"})
        assert (await box.run("echo $WHO $PAGER", env={"WHO": "me", "PAGER": "cat"})).stdout == b"me cat\n"


async def test_what_a_tool_put_around_a_command_is_neither_judged_nor_recorded(
    runtime: Runtime, records: Records
) -> None:
    async with boxed(runtime, policy=Policy(allowed_commands=frozenset({"echo"})), audit=records) as box:
        result = await box.run("trap 'pwd >&2' EXIT\necho hi", call=Call(action="Bash", judged="echo hi"))
        with pytest.raises(CommandDenied):
            await box.run("echo hi", call=Call(judged="touch made"))

    assert result.stdout == b"hi\n"
    assert records.brief() == [("Bash", "allowed", "echo hi", 0), ("run", "denied", "touch made", None)]


async def test_a_view_adds_rules_and_takes_none_away(runtime: Runtime) -> None:
    async with boxed(runtime, policy=Policy(blocked_commands=frozenset({"touch"}), max_duration=60)) as box:
        view = box.guarded(policy=Policy(blocked_commands=frozenset({"mkdir"}), max_duration=0.2), session="other")

        for command in ("touch made", "mkdir made"):
            with pytest.raises(CommandDenied):
                await view.run(command)
        await box.run("mkdir made")
        assert (await view.run("sleep 30")).outcome == TimedOut()
        assert (box.max_duration, view.max_duration, box.session, view.session) == (60, 0.2, "mine", "other")


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_no_command_runs_longer_than_the_policy_says(runtime: Runtime, timeout: float | None) -> None:
    async with boxed(runtime, policy=Policy(max_duration=0.2)) as box:
        assert (await box.run("sleep 30", timeout=timeout)).outcome == TimedOut()
        assert await (await box.spawn("sleep 30", timeout=timeout)).wait() == TimedOut()


async def test_a_shorter_time_is_kept(runtime: Runtime) -> None:
    async with boxed(runtime, policy=Policy(max_duration=600)) as box:
        assert (await box.run("sleep 30", timeout=0.2)).outcome == TimedOut()


async def test_judging_alone_runs_nothing(runtime: Runtime, records: Records) -> None:
    async with boxed(runtime, policy=Policy(), audit=records) as box:
        await box.judge(Command(what=Script("touch made")))
        with pytest.raises(CommandDenied):
            await box.judge(Command(what=Script("rm -rf /")))

        assert await box.files.list() == []
    assert records.brief() == [("judge", "denied", "rm -rf /", None)]


# --- asking --------------------------------------------------------------------------------------------------------

DESTRUCTIVE = "rm -rf build"
ASKS = Policy(confirm_destructive=True)


async def test_with_nobody_to_ask_it_is_denied_and_the_message_says_how_to_ask(runtime: Runtime) -> None:
    async with boxed(runtime, policy=ASKS) as box:
        with pytest.raises(CommandDenied, match=r"approver=.*confirm_destructive"):
            await box.run(DESTRUCTIVE)
        assert (await box.run("echo fine")).exit_code == 0


async def test_an_approval_lets_exactly_this_command_of_this_session_run(runtime: Runtime, records: Records) -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    async with boxed(runtime, policy=ASKS, approver=approve, audit=records) as box:
        for _ in range(2):
            assert (await box.run(DESTRUCTIVE, call=Call(description="Cleaning"))).exit_code == 0
        assert len(asked) == 1
        await box.run(DESTRUCTIVE + "2")
        await box.run(DESTRUCTIVE, cwd="/home/agent")
        await box.run(DESTRUCTIVE, env={"WHERE": "there"})
        await box.run(DESTRUCTIVE, stdin=b"one")
        await box.run(DESTRUCTIVE, stdin=b"two")
        await box.guarded(session="other").run(DESTRUCTIVE)

    assert len(asked) == 7
    assert len({one.id for one in asked}) == 7
    assert [one.stdin for one in asked[4:6]] == ["one", "two"]
    assert (asked[0].workspace, asked[0].session, asked[0].command) == ("box", "mine", DESTRUCTIVE)
    assert (asked[0].description, asked[0].rule) == ("Cleaning", "confirm_destructive")
    assert {one.verdict for one in records} == {"approved"}


async def test_a_refusal_tells_its_reason(runtime: Runtime, records: Records) -> None:
    async with boxed(runtime, policy=ASKS, approver=lambda _: Refused("Move it to trash/."), audit=records) as box:
        with pytest.raises(CommandDenied, match=r"was not approved\. Move it to trash/\."):
            await box.run(DESTRUCTIVE)

    assert records.brief() == [("run", "denied", DESTRUCTIVE, None)]


async def test_an_approver_that_fails_is_a_no(runtime: Runtime) -> None:
    async def fail(_: ApprovalRequest) -> bool:
        raise RuntimeError("the chat is down")

    async with boxed(runtime, policy=ASKS, approver=fail) as box:
        with pytest.raises(CommandDenied, match="the chat is down"):
            await box.run(DESTRUCTIVE)


async def test_an_abort_ends_the_waiting_for_an_approval(runtime: Runtime, records: Records) -> None:
    queue, abort = ApprovalQueue(), anyio.Event()

    async with boxed(runtime, policy=ASKS, approver=queue, audit=records) as box:
        with anyio.fail_after(MOST):
            async with anyio.create_task_group() as tasks:

                async def stop() -> None:
                    await queue.changed()
                    abort.set()

                tasks.start_soon(stop)
                result = await box.run(DESTRUCTIVE, abort=abort)

    assert (result.outcome, queue.pending()) == (Aborted(), [])
    assert records.brief() == [("run", "denied", DESTRUCTIVE, None)]


# --- screening -----------------------------------------------------------------------------------------------------

HIDES = Redaction(secrets={"db": Secret(KNOWN)})


async def test_output_is_screened_in_the_result_and_on_its_way(runtime: Runtime) -> None:
    seen = bytearray()

    async def see(data: bytes) -> None:
        seen.extend(data)

    async with boxed(runtime, redaction=HIDES) as box:
        result = await box.run(f"echo is {KNOWN}; printf %s {TOKEN}; echo {KNOWN} | base64 >&2", on_stdout=see)

    assert result.stdout == b"is [REDACTED:db]\n[REDACTED:github]"
    assert bytes(seen) == result.stdout
    assert b"[REDACTED:db]" in result.stderr


async def test_without_a_redaction_output_is_what_was_printed(runtime: Runtime) -> None:
    async with boxed(runtime) as box:
        assert not box.screens
        assert (await box.run(f"echo {TOKEN}")).stdout == f"{TOKEN}\n".encode()
        assert (await box.guarded(redaction=Redaction()).run(f"echo {TOKEN}")).stdout == b"[REDACTED:github]\n"


async def test_two_redactions_hide_what_either_does(runtime: Runtime) -> None:
    async with boxed(runtime, redaction=HIDES) as box:
        view = box.guarded(redaction=Redaction(patterns=["ticket-[0-9]+"]))

        assert (await view.run(f"echo ticket-77 {KNOWN}")).stdout == b"[REDACTED:pattern] [REDACTED:db]\n"


async def test_a_secret_variable_of_the_call_is_hidden_too(runtime: Runtime) -> None:
    async with boxed(runtime, redaction=Redaction()) as box:
        result = await box.run("echo $API_TOKEN", env={"API_TOKEN": "Zk3-plain-looking-9"})
        process = await box.spawn("echo $API_TOKEN", env={"API_TOKEN": "Zk3-plain-looking-9"})

        assert result.stdout == b"[REDACTED:API_TOKEN]\n"
        assert b"".join([chunk.data async for chunk in process.output()]) == b"[REDACTED:API_TOKEN]\n"


async def test_the_secrets_of_the_workspaces_own_variables_are_hidden(runtime: Runtime, records: Records) -> None:
    env = {"API_TOKEN": "Zk3-plain-looking-9"}
    async with boxed(runtime, env, audit=records) as box:
        await box.run("echo Zk3-plain-looking-9")
        view = box.guarded(redaction=Redaction(families=False))

        assert (await view.run(f"echo $API_TOKEN {TOKEN}")).stdout == f"[REDACTED:API_TOKEN] {TOKEN}\n".encode()
    assert records[0].command == "echo [REDACTED:API_TOKEN]"


async def test_the_hosts_own_variables_do_not_reach_a_command(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "planted-on-the-host")
    async with boxed(runtime) as box:
        assert b"planted" not in (await box.run("env; cat /proc/self/environ")).stdout


async def test_what_is_refused_and_recorded_shows_no_secret(
    runtime: Runtime, records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "limpet.shell_audit")
    policy = Policy(allowed_commands=frozenset({"echo"}), confirm_destructive=True)
    asked: list[ApprovalRequest] = []

    def refuse(request: ApprovalRequest) -> bool:
        asked.append(request)
        return False

    async with boxed(runtime, policy=policy, redaction=HIDES, audit=records, approver=refuse) as box:
        with pytest.raises(CommandDenied) as refused:
            await box.run(f"{KNOWN} --now", call=Call(description=f"with {KNOWN}"))
        await box.run(f"echo {KNOWN}", call=Call(description=TOKEN))
        with pytest.raises(WorkingDirectoryMissing):
            await box.run("echo", cwd=f"/mnt/data/{KNOWN}")
        await box.audit("status", command=f"echo {KNOWN}", error=TOKEN, task_id="t1")

    told = repr([records, asked, caplog.text, refused.value])
    assert KNOWN not in told
    assert TOKEN not in told
    assert len(records) == 4
    assert records[1].stdout_bytes == len(b"[REDACTED:db]\n")


# --- recording -----------------------------------------------------------------------------------------------------


async def test_a_record_says_who_what_where_and_how_it_ended(runtime: Runtime, records: Records) -> None:
    async with boxed(runtime, audit=records) as box:
        await box.run("echo out; echo errs >&2; exit 3", cwd="/home/agent", call=Call(call_id="call_1", task_id="t"))

    [record] = records
    assert (record.workspace, record.session, record.action, record.call_id) == ("box", "mine", "run", "call_1")
    assert (record.cwd, record.exit_code, record.stdout_bytes, record.stderr_bytes) == ("/home/agent", 3, 4, 5)
    assert (record.verdict, record.error, record.task_id) == ("allowed", None, "t")
    assert record.duration is not None
    assert 0 < record.duration < MOST
    assert record.timestamp.endswith("+00:00")


async def test_every_way_to_end_is_on_record_once(runtime: Runtime, records: Records) -> None:
    abort = anyio.Event()
    abort.set()
    async with boxed(runtime, audit=records) as box:
        await box.run("sleep 30", timeout=0.1)
        await box.run("true", abort=abort)
        with pytest.raises(WorkingDirectoryMissing):
            await box.run("true", cwd="nowhere")
        with anyio.move_on_after(0.2):
            await box.run("sleep 30")
        process = await box.spawn(["cat"])
        await process.close_stdin()
        await process.wait()

    assert [(one.action, one.exit_code) for one in records] == [
        ("run", 124),
        ("run", -1),
        ("run", None),
        ("run", None),
        ("spawn", None),
    ]
    assert [one.error is not None for one in records] == [False, True, True, True, False]


async def test_records_go_to_the_log_as_one_line_each(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "limpet.shell_audit")
    async with boxed(runtime) as box:
        await box.run("printf 'a\\nb'\nprintf c")

    [line] = [one for one in caplog.messages if one.startswith("shell_audit ")]
    facts = dict(part.split("=", 1) for part in line.removeprefix("shell_audit ").split(" ") if "=" in part)
    assert "\n" not in line
    assert (json.loads(facts["action"]), facts["exit_code"], facts["verdict"]) == ("run", "0", '"allowed"')


async def test_a_callback_that_fails_changes_nothing_and_is_told(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: AuditRecord) -> None:
        raise RuntimeError("no room for records")

    async with boxed(runtime, audit=fail) as box:
        assert (await box.run("echo fine")).stdout == b"fine\n"

    assert [one.levelname for one in caplog.records] == ["ERROR"]
    assert "no room for records" in caplog.text


async def test_a_tools_own_mode_is_recorded_with_what_it_says(runtime: Runtime, records: Records) -> None:
    async with boxed(runtime, audit=records) as box:
        await box.audit("kill", command="sleep 60", task_id="t1", exit_code=143, description="Stop it", duration=1.5)

    [record] = records
    assert (record.action, record.command, record.task_id) == ("kill", "sleep 60", "t1")
    assert (record.exit_code, record.description, record.duration) == (143, "Stop it", 1.5)


async def test_output_that_was_not_asked_for_is_still_counted(runtime: Runtime, records: Records) -> None:
    async with boxed(runtime, audit=records, redaction=HIDES) as box:
        result = await box.run("head -c 3000000 /dev/zero", keep_output=False)

    assert (result.outcome, records[0].stdout_bytes) == (Exited(0), 3_000_000)

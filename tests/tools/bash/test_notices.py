"""Notifications of background tasks: matching lines, progress, ends, questions; throttled and bounded."""

from typing import Any

import anyio
import pytest

from limpet.tools.bash import BashConfig, BashTool
from limpet.tools.bash.notifications import MOST_PENDING, NotificationQueue
from limpet.workspace.workspace import Workspace
from tests.tools.bash.conftest import MOST, Session

pytestmark = pytest.mark.anyio
# One agent keeps the processes of both runtimes, and tests/contract asks each of them for all that a task needs of it.
RUNTIMES = ("bubblewrap",)


@pytest.mark.statement("s2-matching-lines-are-pushed")
async def test_matching_lines_of_a_new_task_are_told(bash: Session) -> None:
    task = await bash.start("echo a; echo ERROR one; echo b; echo WARN two >&2; sleep 60", stream_pattern="ERROR|WARN")

    told: list[str] = []
    for _ in range(2):
        if len(told) < 2:
            note = await bash.note("progress")
            bash.notes.remove(note)
            told += note["result_preview"].split("\n")
            assert (note["task_id"], note["tool_name"], note["session_id"]) == (task, "Bash", "s1")
    assert sorted(told) == ["ERROR one", "WARN two"]


@pytest.mark.statement("s2-matching-lines-are-pushed")
async def test_matching_lines_of_a_running_task_are_told_from_then_on(bash: Session) -> None:
    task = await bash.start("while read -r line; do echo saw $line; done")
    await bash(task_id=task, stdin_text="match early")
    await bash(task_id=task, stream=True, stream_pattern="match")
    await bash(task_id=task, stdin_text="other")
    await bash(task_id=task, stdin_text="match late")

    note = await bash.note("progress")

    assert (note["result_preview"], note["matched_lines"]) == ("saw match late", 1)


async def test_a_flood_of_matching_lines_is_a_few_notifications(box: Workspace) -> None:
    bash = Session(box, stream_every=0.2)
    async with bash.tool:
        await bash.start("for i in $(seq 20000); do echo hit $i; done; echo last; sleep 60", stream=True)
        with anyio.fail_after(2 * MOST):
            while sum(note["matched_lines"] for note in bash.notes) < 20_001:
                await anyio.sleep(0.02)

    streamed = [note for note in bash.notes if note["status"] == "progress"]
    assert len(streamed) < 60
    assert all(len(note["result_preview"]) < 5_000 for note in streamed)


async def test_a_task_has_a_bound_of_such_notifications_and_the_last_says_so(box: Workspace) -> None:
    bash = Session(box, stream_every=0.0, stream_most=3)
    async with bash.tool:
        task = await bash.start("while read -r line; do echo $line; done", stream=True)
        for number in range(6):
            await bash(task_id=task, stdin_text=str(number))

    streamed = [note for note in bash.notes if note["status"] == "progress"]
    assert len(streamed) == 3
    assert "It is the last notification of this kind" in streamed[-1]["hint"]


@pytest.mark.parametrize("how", ["new", "running"])
async def test_a_pattern_that_cannot_be_read_is_an_error_and_nothing_is_done(bash: Session, how: str) -> None:
    if how == "new":
        answer = await bash("touch ran", stream=True, stream_pattern="ERR(OR")
        assert "ran" not in (await bash("ls"))["stdout"]
    else:
        task = await bash.start("sleep 60")
        answer = await bash(task_id=task, stream=True, stream_pattern="(?=x)")

    assert answer["error"]["code"] == "invalid_pattern"
    assert "RE2" in answer["error"]["message"]


@pytest.mark.parametrize(
    "command, status, code", [("sleep 0.6; echo fine", "completed", 0), ("sleep 0.6; exit 3", "failed", 3)]
)
async def test_the_end_is_told_with_the_newest_output(bash: Session, command: str, status: str, code: int) -> None:
    task = await bash.start(command)

    note = await bash.note(status)

    assert (note["task_id"], note["exit_code"]) == (task, code)
    assert note["result_preview"] == ("fine\n" if code == 0 else "")


async def test_who_waits_for_the_end_is_not_told_beside(bash: Session) -> None:
    task = await bash.start("sleep 0.6")
    await bash(task_id=task, wait=True)
    await bash(task_id=task)

    assert bash.notes == []


async def test_progress_is_told_while_there_is_some(box: Workspace) -> None:
    bash = Session(box, progress_at=(0.4, 0.8), progress_every=0.4)
    async with bash.tool:
        await bash.start("echo begun; sleep 60")
        note = await bash.note("progress")
        await anyio.sleep(1.0)
        assert len(bash.notes) == 1

    assert note["result_preview"] == "begun\n"
    assert note["elapsed_seconds"] >= 0.3


async def test_a_task_that_stands_still_at_a_question_is_told_once(box: Workspace) -> None:
    bash = Session(box, progress_at=(0.3, 0.6), progress_every=0.3)
    async with bash.tool:
        task = await bash.start("printf 'Overwrite it? [y/N] '; read -r x; echo got $x")
        note = await bash.note("hang_detected")
        assert "Overwrite it? [y/N]" in note["hang_directive"]
        assert f'task_id="{task}", stdin_text=' in note["hang_directive"]
        assert "got yes" in (await bash(task_id=task, stdin_text="yes", wait=True))["stdout"]

    assert sum(note["status"] == "hang_detected" for note in bash.notes) == 1


async def test_a_callback_that_raises_harms_nothing_and_is_known(box: Workspace) -> None:
    async def fail(note: dict[str, Any]) -> None:
        raise ValueError(note["status"])

    async with BashTool(box, notify=fail) as tool:
        await tool.call({"command": "sleep 60", "run_in_background": True})
        assert (await tool.call({"command": "echo on"}))["stdout"] == "on\n"

    assert [str(error) for error in tool.notify_errors] == ["cancelled"]


async def test_a_callback_that_never_returns_stops_no_task(box: Workspace) -> None:
    async def stuck(_: dict[str, Any]) -> None:
        await anyio.sleep_forever()

    async with BashTool(box, notify=stuck, config=BashConfig(stream_every=0.0)) as tool:
        answer = await tool.call({"command": "seq 5000; echo end", "stream": True, "wait": True})

    assert answer["stdout_lines"] == 5001


async def test_what_waits_to_be_told_is_bounded_but_ends_are_never_dropped() -> None:
    heard: list[dict[str, Any]] = []

    async def hear(note: dict[str, Any]) -> None:
        heard.append(note)

    notices = NotificationQueue(hear)
    taken = [notices.put({"status": "progress"}) for _ in range(MOST_PENDING + 10)]
    notices.put({"status": "completed"})
    async with anyio.create_task_group() as serving:
        serving.start_soon(notices.serve)
        await notices.flush()
        notices.stop()

    assert taken.count(False) == 10
    assert heard[-1]["status"] == "completed"
    assert heard[0]["dropped_notifications"] == 10

"""Tasks that run while the session goes on: started, asked, fed, waited for, ended; whole trees, and never another session's."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from limpet.core.command import START, Chunk, Position
from limpet.tools.bash import BashTool
from limpet.workspace.opening import open_in
from limpet.workspace.workspace import Workspace
from tests.support.bad_runtimes import Faulty, FaultyProcess, FaultySandbox
from tests.support.users import again_as_an_ordinary_user
from tests.tools.bash.conftest import MOST, Session

pytestmark = pytest.mark.anyio
# One agent keeps the processes of both runtimes, and tests/contract asks each of them for all that a task needs of it.
RUNTIMES = ("bubblewrap",)


@pytest.mark.statement("s2-async-returns-a-task", "s2-nine-parameters-are-hidden")
async def test_a_task_answers_at_once_with_its_id_its_pid_and_its_start(bash: Session) -> None:
    answer = await bash("echo up; sleep 60; true", run_in_background=True)

    assert (answer["is_running"], answer["exit_code"], answer["stdout"]) == (True, None, "up\n")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(answer["started_at"])).total_seconds()) < 10
    assert (await bash(f"cat /proc/{answer['pid']}/comm"))["stdout"] == "bash\n"
    assert answer["uptime_seconds"] < MOST
    for word in ("wait=true", "kill=true", "stdin_text=", "stream=true", answer["task_id"]):
        assert word in answer["next"]


@pytest.mark.parametrize("command, code", [("echo done", 0), ("echo done; exit 3", 3), ("echo done; kill -9 $$", 137)])
async def test_a_task_that_ends_at_once_is_a_finished_result(bash: Session, command: str, code: int) -> None:
    answer = await bash(command, run_in_background=True)

    assert (answer["is_running"], answer["exit_code"], answer["stdout"]) == (False, code, "done\n")
    assert isinstance(answer["pid"], int)
    assert bash.notes == []


async def test_the_pid_is_that_of_the_shell_and_its_group(bash: Session) -> None:
    answer = await bash("echo $$ $(cut -d ' ' -f 5 /proc/$$/stat); sleep 60", run_in_background=True)

    assert answer["stdout"] == f"{answer['pid']} {answer['pid']}\n"


@pytest.mark.statement("s2-a-task-can-be-polled", "s2-output-lines-are-bounded")
async def test_status_shows_the_newest_lines_with_true_totals(box: Workspace) -> None:
    bash = Session(box, max_output_lines=100)
    async with bash.tool:
        task = await bash.start("seq 1000; echo ready; echo oops >&2; sleep 60")
        answer = await bash.until_prints(task, "ready")

    assert answer["stdout"].startswith("952\n")
    assert answer["stdout"].endswith("1000\nready\n")
    assert (answer["stdout_lines"], answer["stdout_dropped_lines"], answer["stdout_shown_lines"]) == (1001, 901, 50)
    assert (answer["stdout_bytes"], answer["stderr"], answer["stderr_lines"]) == (3899, "oops\n", 1)


@pytest.mark.statement("s2-a-task-can-be-awaited")
async def test_waiting_gives_all_that_is_kept_and_the_code(bash: Session) -> None:
    task = await bash.start("sleep 0.5; seq 200; exit 7")

    answer = await bash(task_id=task, wait=True)

    assert (answer["exit_code"], answer["is_running"]) == (7, False)
    assert answer["stdout"] == "".join(f"{number}\n" for number in range(1, 201))


async def test_waiting_has_an_end_of_its_own_and_the_task_goes_on(bash: Session) -> None:
    task = await bash.start("sleep 60")

    answer = await bash(task_id=task, wait=True, timeout=1)

    assert answer["is_running"]
    assert "the wait of 1 seconds is over" in answer["notes"][0]


async def test_a_timeout_bounds_a_task_and_none_was_given_does_not(bash: Session) -> None:
    bounded = await bash("sleep 60", run_in_background=True, timeout=1, wait=True)
    free = await bash.start("sleep 60")

    assert (bounded["exit_code"], bounded["timed_out"], bounded["is_running"]) == (124, True, False)
    assert (await bash(task_id=free))["is_running"]


async def test_long_output_of_a_task_goes_to_a_file(bash: Session) -> None:
    answer = await bash("seq 9000", run_in_background=True, wait=True)

    assert await bash.content(answer["stdout_file"]) == b"".join(b"%d\n" % n for n in range(1, 9001))


@pytest.mark.statement("s2-stdin-reaches-a-task")
async def test_input_reaches_a_task_and_the_answer_is_in_the_result(bash: Session) -> None:
    task = await bash.start("while read -r line; do echo got $line; done; echo over")

    first = await bash(task_id=task, stdin_text="one")
    last = await bash(task_id=task, stdin_text="two", close_stdin=True, wait=True)

    assert (first["stdout"], last["stdout"], last["exit_code"]) == ("got one\n", "got one\ngot two\nover\n", 0)


async def test_a_command_may_start_with_input(bash: Session) -> None:
    answer = await bash("read -r x; echo got $x", run_in_background=True, stdin_text="first", wait=True)

    assert answer["stdout"] == "got first\n"


async def test_input_to_a_task_that_has_ended_is_refused(bash: Session) -> None:
    task = await bash.start("true")

    answer = await bash(task_id=task, stdin_text="late")

    assert answer["error"]["code"] == "task_ended"


async def test_a_task_that_does_not_read_holds_nobody_up(bash: Session) -> None:
    task = await bash.start("sleep 60")

    with anyio.fail_after(4 * MOST):
        answer = await bash(task_id=task, stdin_text="x" * 5_000_000)
        assert (await bash(task_id=task))["is_running"]

    assert answer["exit_code"] is None
    assert "error" not in answer or answer["error"]["code"] == "input_not_taken"


async def test_a_task_on_a_terminal_is_talked_to_like_a_person_would(bash: Session) -> None:
    task = await bash.start("test -t 0 && read -r -p 'Name? ' x; echo hi $x", pty=True)
    asked = await bash.until_prints(task, "Name?")
    answer = await bash(task_id=task, stdin_text="me", wait=True)

    assert "It waits at 'Name?'" in asked["hang_directive"]
    assert answer["stdout"] == "Name? me\nhi me\n"


@pytest.mark.statement("s2-kill-is-term-then-kill")
@pytest.mark.parametrize("on_terminal", [False, True])
async def test_kill_lets_a_task_clean_up_and_leaves_nothing_of_its_tree(bash: Session, on_terminal: bool) -> None:
    mark = f"63.{secrets.randbelow(10**9)}"
    command = f"trap 'echo bye; exit 5' TERM; setsid sleep {mark} & sleep {mark} & echo up; wait"
    task = await bash.start(command, pty=on_terminal)
    await bash.until_prints(task, "up")

    answer = await bash(task_id=task, kill=True)

    assert (answer["exit_code"], answer["is_running"], answer["stdout"]) == (5, False, "up\nbye\n")
    assert not await lives(bash, mark)
    assert bash.notes == []


@pytest.mark.statement("s2-kill-is-term-then-kill")
async def test_kill_takes_two_seconds_where_a_task_does_not_listen(bash: Session) -> None:
    mark = f"64.{secrets.randbelow(10**9)}"
    task = await bash.start(f"trap '' TERM; echo up; sleep {mark} & while :; do sleep 0.1; done")
    await bash.until_prints(task, "up")

    begun = anyio.current_time()
    answer = await bash(task_id=task, kill=True)

    assert 1.9 < anyio.current_time() - begun < MOST
    assert (answer["exit_code"], answer["killed"]) == (137, True)
    assert not await lives(bash, mark)


async def test_killing_what_has_ended_is_quiet(bash: Session) -> None:
    task = await bash.start("exit 4", wait=True)

    assert (await bash(task_id=task, kill=True))["exit_code"] == 4


@pytest.mark.parametrize("on_terminal", [False, True])
async def test_a_task_that_ends_its_own_group_ends(bash: Session, on_terminal: bool) -> None:
    with anyio.fail_after(2 * MOST):
        answer = await bash("echo up; kill 0", run_in_background=True, pty=on_terminal, wait=True)

    assert (answer["is_running"], answer["exit_code"], answer["stdout"]) == (False, 143, "up\n")


async def test_what_a_task_detached_goes_on_after_its_end(bash: Session) -> None:
    mark = f"65.{secrets.randbelow(10**9)}"
    answer = await bash(f"setsid sleep {mark} >/dev/null 2>&1 & echo off", run_in_background=True, wait=True)

    assert answer["exit_code"] == 0
    assert await lives(bash, mark)


async def test_cancelling_a_call_leaves_a_task_running(bash: Session) -> None:
    task = await bash.start("echo up; sleep 60")
    with anyio.move_on_after(0.1):
        await bash(task_id=task, wait=True)

    assert (await bash(task_id=task))["is_running"]


@pytest.mark.statement("s2-tasks-belong-to-their-session")
async def test_a_task_of_another_session_is_unknown_and_none_is_named(box: Workspace) -> None:
    async with BashTool(box, session="1") as one, BashTool(box, session="2") as two:
        task = (await one.call({"command": "sleep 60", "run_in_background": True}))["task_id"]
        for arguments in ({}, {"kill": True}, {"stdin_text": "x"}, {"wait": True}, {"stream": True}):
            answer = await two.call({"task_id": task, **arguments})
            assert answer["error"]["code"] == "unknown_task"
            assert "This session has none." in answer["error"]["message"]
        mine = await one.call({"task_id": "nosuch"})
        assert task in mine["error"]["message"]
        assert (await one.call({"task_id": task}))["is_running"]


async def test_no_more_tasks_than_the_limit_run_at_once(box: Workspace) -> None:
    bash = Session(box, max_tasks=2)
    async with bash.tool:
        first = await bash.start("sleep 60")
        await bash.start("sleep 60")
        refused = await bash("sleep 60", run_in_background=True)
        await bash(task_id=first, kill=True)
        await bash.start("sleep 60")

    assert refused["error"]["code"] == "too_many_tasks"
    assert first in refused["error"]["message"]


async def test_tasks_that_ended_long_ago_are_forgotten(box: Workspace) -> None:
    bash = Session(box, kept_for=0.0)
    async with bash.tool:
        task = await bash.start("true")
        assert (await bash(task_id=task))["error"]["code"] == "unknown_task"


async def test_a_line_without_an_end_and_binary_output_stop_nothing(bash: Session) -> None:
    answer = await bash("head -c 2000000 /dev/zero; printf '\\377\\n'; echo end", run_in_background=True, wait=True)

    assert (answer["stdout_lines"], answer["exit_code"]) == (2, 0)
    assert answer["stdout"].endswith("\ufffd\nend\n")
    assert "characters left out" in answer["stdout"]


@pytest.mark.statement("s2-cleanup-runs-by-itself", "s2-cleanup-kills-and-notifies")
async def test_a_session_that_ends_ends_its_tasks_and_tells_each_once(box: Workspace) -> None:
    mark = f"66.{secrets.randbelow(10**9)}"
    bash = Session(box)
    async with bash.tool:
        tasks = [
            await bash.start(f"sleep {mark}; true"),
            await bash.start(f"trap '' TERM; setsid sleep {mark} & wait; wait"),
        ]
        begun = anyio.current_time()

    assert anyio.current_time() - begun < MOST
    assert sorted((note["task_id"], note["status"]) for note in bash.notes) == sorted(
        (task, "cancelled") for task in tasks
    )
    assert not await lives(bash, mark)


@pytest.mark.statement("s2-cleanup-runs-by-itself")
async def test_a_session_that_is_aborted_ends_its_tasks_too(box: Workspace) -> None:
    mark = f"67.{secrets.randbelow(10**9)}"
    bash = Session(box)
    with anyio.move_on_after(1.0):
        async with bash.tool:
            await bash.start(f"sleep {mark}")
            await anyio.sleep_forever()

    assert [note["status"] for note in bash.notes] == ["cancelled"]
    assert not await lives(bash, mark)


async def test_cleanup_may_be_called_and_the_session_goes_on(bash: Session) -> None:
    await bash.start("sleep 60")

    assert (await bash.tool.cleanup_session(), await bash.tool.cleanup_session()) == (1, 0)
    assert (await bash("echo on"))["stdout"] == "on\n"


async def test_two_tasks_and_a_command_do_not_mix(bash: Session) -> None:
    answers: dict[str, Any] = {}

    async def run(name: str) -> None:
        answers[name] = await bash(
            f"for i in 1 2 3; do echo {name}; sleep 0.05; done", run_in_background=name != "c", wait=True
        )

    async with anyio.create_task_group() as calls:
        for name in "abc":
            calls.start_soon(run, name)

    assert {name: answer["stdout"] for name, answer in answers.items()} == {name: f"{name}\n" * 3 for name in "abc"}


async def test_a_box_that_dies_under_a_task_is_said(box: Workspace) -> None:
    bash = Session(box)
    async with bash.tool:
        task = await bash.start("sleep 60")
        await box._shell.sandbox.destroy()
        note = await bash.note("failed")
        answer = await bash(task_id=task)

    assert (note["exit_code"], answer["exit_code"]) == (125, 125)
    assert answer["lost"]


async def lives(bash: Session, mark: str) -> bool:
    found = await bash.box.run(
        f"for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -x 'sleep {mark} '; done"
    )
    return found.stdout != b""


def test_tasks_of_an_ordinary_user_keep_the_same_promises() -> None:
    again_as_an_ordinary_user(
        "tests/tools/bash/test_background.py", "-k", "kill_lets or input_reaches or is_aborted or detached or pid_is"
    )


class _BreakingProcess(FaultyProcess):
    """One whose output meets a fault that nothing expects, where it prints that it shall."""

    async def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        async for chunk in self.real.output(since):
            if b"break" in chunk.data:
                raise IndexError("made up")
            yield chunk


class _BreakingSandbox(FaultySandbox):
    process = _BreakingProcess


class _Breaking(Faulty):
    sandbox = _BreakingSandbox


async def test_a_task_that_meets_a_fault_of_ours_ends_alone() -> None:
    async with _Breaking() as runtime, open_in(runtime) as box:
        bash = Session(box)
        async with bash.tool:
            other = await bash.start("sleep 0.5; echo done")
            broken = await bash.start("sleep 0.2; echo break; sleep 60")
            ended = await bash(task_id=broken, wait=True)
            finished = await bash(task_id=other, wait=True)

    assert (ended["exit_code"], finished["exit_code"], finished["stdout"]) == (125, 0, "done\n")

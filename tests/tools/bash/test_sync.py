"""A command that runs to its end: its result, its limits, what it is told and what it cannot do."""

import json
import secrets

import anyio
import pytest

from limpet.runtimes.memory import MemoryRuntime
from limpet.tools.bash import BashConfig, BashTool
from limpet.tools.events import ToolEvent
from limpet.tools.tool import Tool
from limpet.workspace.opening import open_in
from limpet.workspace.workspace import Workspace
from tests.tools.bash.conftest import MOST, Session

pytestmark = pytest.mark.anyio

ALWAYS = {"stdout", "stderr", "exit_code", "duration", "cwd", "command"}


@pytest.mark.statement("s2-sync-returns-the-whole-story", "s2-every-result-has-the-six-fields")
async def test_a_result_has_both_streams_the_code_the_duration_the_place_and_the_command(bash: Session) -> None:
    answer = await bash("echo out; echo err >&2; exit 42")

    duration = answer.pop("duration")
    assert 0 < duration < MOST
    assert answer == {
        "stdout": "out\n",
        "stderr": "err\n",
        "exit_code": 42,
        "cwd": bash.box.directory,
        "command": "echo out; echo err >&2; exit 42",
        "stdout_bytes": 4,
        "stderr_bytes": 4,
    }


@pytest.mark.parametrize(
    "command, code",
    [("true", 0), ("false", 1), ("nosuch", 127), ("kill -9 $$", 137), ("exec sh -c 'exit 9'", 9), ("if", 2)],
)
async def test_the_code_is_that_of_the_shell(bash: Session, command: str, code: int) -> None:
    assert (await bash(command))["exit_code"] == code


async def test_messages_line_numbers_and_traps_are_those_of_a_bare_shell(bash: Session) -> None:
    script = "trap 'echo bye $?' EXIT\ntrap -p\necho $LINENO $- ${#BASH_EXECUTION_STRING}\nnosuch\nfi"

    answer = await bash(script)
    bare = await bash.box.run(["/bin/bash", "-c", script])

    assert answer["stdout"] == bare.stdout.decode()
    assert answer["stderr"] == bare.stderr.decode()
    assert answer["exit_code"] == bare.exit_code


async def test_a_code_that_is_not_0_is_put_into_words(bash: Session) -> None:
    assert "No line matched" in (await bash("grep nothing /dev/null"))["exit_code_meaning"]


async def test_when_the_time_is_over_what_came_before_is_kept_and_nothing_runs_on(bash: Session) -> None:
    mark = f"61.{secrets.randbelow(10**9)}"
    answer = await bash(f"echo before; setsid sleep {mark} & sleep {mark}", timeout=1)

    assert (answer["stdout"], answer["exit_code"], answer["timed_out"]) == ("before\n", 124, True)
    assert not await lives(bash, mark)


async def test_a_timeout_outside_the_bounds_is_clamped_and_the_result_says_so(bash: Session) -> None:
    answer = await bash("true", timeout="5000")

    assert answer["notes"] == ["timeout 5000 is outside 1 to 1800 seconds; 1800 was used."]


@pytest.mark.statement("s2-timeout-default-is-configured")
async def test_a_call_that_names_no_timeout_gets_the_configured_one(box: Workspace) -> None:
    answer = await BashTool(box, config=BashConfig(timeout_default=1.0)).call({"command": "sleep 60"})

    assert (answer["timed_out"], answer["exit_code"]) == (True, 124)


async def test_cancelling_the_call_kills_the_command(bash: Session) -> None:
    mark = f"62.{secrets.randbelow(10**9)}"
    with anyio.move_on_after(0.5):
        await bash(f"setsid sleep {mark} & sleep {mark}; true")

    assert not await lives(bash, mark)


async def test_input_is_empty_unless_it_is_given(bash: Session) -> None:
    with anyio.fail_after(MOST):
        assert (await bash("cat; echo end"))["stdout"] == "end\n"
        assert (await bash("cat; echo end", stdin_text="line"))["stdout"] == "line\nend\n"


async def test_a_question_that_nobody_answers_is_named_with_what_avoids_it(bash: Session) -> None:
    answer = await bash("printf 'Do you want to continue? [Y/n] '; read -r x || { echo Abort.; exit 1; }")

    assert "Do you want to continue? [Y/n]" in answer["hang_directive"]
    assert "-y" in answer["hang_directive"]


async def test_programs_are_told_that_nobody_is_there(bash: Session) -> None:
    answer = await bash('echo "$CI $GIT_TERMINAL_PROMPT $PAGER"')

    assert answer["stdout"] == "true 0 cat\n"


async def test_the_developers_variables_win_over_the_defaults(box: Workspace) -> None:
    tool = BashTool(box, config=BashConfig(environment={"CI": "no", "MINE": "yes"}))

    assert (await tool.call({"command": 'echo "$CI $MINE"'}))["stdout"] == "no yes\n"


async def test_a_hundred_thousand_lines_are_in_a_file_that_the_result_names(bash: Session) -> None:
    answer = await bash("seq 100000")

    path = answer["stdout_file"]
    assert await bash.content(path) == b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert answer["stdout"].startswith("1\n2\n")
    assert answer["stdout"].endswith("99999\n100000\n")
    assert path in answer["stdout"]
    assert answer["stdout_bytes"] == 588_895
    assert len(json.dumps(answer)) < 30_000


async def test_one_line_of_five_megabytes_is_kept_too(bash: Session) -> None:
    answer = await bash("head -c 5000000 /dev/zero | tr '\\0' x >&2")

    assert await bash.content(answer["stderr_file"]) == b"x" * 5_000_000
    assert len(answer["stderr"]) < 25_000


async def test_binary_output_is_shown_as_text_and_kept_as_it_is(bash: Session) -> None:
    answer = await bash("printf 'a\\0\\377b'")

    assert (answer["stdout"], answer["stdout_is_binary"]) == ("a\0\ufffdb", True)
    assert await bash.content(answer["stdout_file"]) == b"a\0\xffb"
    json.dumps(answer).encode()


async def test_where_no_file_can_be_written_in_the_workspace_another_place_is_named(bash: Session) -> None:
    await bash("mkdir -p .limpet && touch .limpet/tool-results")

    answer = await bash("seq 100000")

    assert answer["stdout_file"].startswith(bash.place("/home/agent/"))
    assert len(await bash.content(answer["stdout_file"])) == 588_895


async def test_a_command_of_three_megabytes_is_refused_with_what_to_do(bash: Session) -> None:
    assert (await bash("echo " + "x" * (1 << 20)))["exit_code"] == 0
    answer = await bash("echo " + "x" * (3 << 20))

    assert answer["error"]["code"] == "refused"
    assert "Write it to a file" in answer["error"]["message"]
    assert answer.keys() >= ALWAYS


@pytest.mark.statement("s2-every-result-has-the-six-fields")
@pytest.mark.parametrize(
    "arguments, says",
    [
        ({}, "give command to run something, or task_id"),
        ({"command": ""}, "give command to run something"),
        ({"command": "ls", "task_id": "a"}, "leave one of them out"),
        ({"command": "ls", "kill": True}, "no task to kill"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": ["ls"]}, "command must be a text"),
        ({"task_id": "nosuch"}, "no background task nosuch in this session"),
    ],
)
async def test_what_cannot_be_done_is_a_result_with_a_sentence(
    bash: Session, arguments: dict[str, object], says: str
) -> None:
    answer = await bash.tool.call(arguments)

    assert says in answer["error"]["message"]
    assert answer.keys() >= ALWAYS
    assert answer["exit_code"] is None


async def test_numbers_and_truth_values_as_text_are_taken(bash: Session) -> None:
    answer = await bash("sleep 9", timeout="1", run_in_background="false")

    assert answer["timed_out"] is True


async def test_another_shell_runs_where_it_is_configured(box: Workspace) -> None:
    tool = BashTool(box, config=BashConfig(shell="/bin/sh"))

    assert (await tool.call({"command": "mkdir -p s && cd s && echo ${BASH_VERSION:-none}"}))["stdout"] == "none\n"
    assert (await tool.call({"command": "pwd"}))["cwd"] == f"{box.directory}/s"


async def test_a_tool_that_was_not_opened_runs_commands_but_no_tasks(box: Workspace) -> None:
    tool = BashTool(box)

    assert (await tool.call({"command": "echo hello"}))["stdout"] == "hello\n"
    refused = await tool.call({"command": "sleep 9", "run_in_background": True})
    assert refused["error"]["code"] == "not_open"


@pytest.mark.statement("s2-a-shell-is-all-it-needs")
async def test_in_memory_commands_run_and_background_is_refused_by_name() -> None:
    async with MemoryRuntime() as runtime, open_in(runtime) as box, BashTool(box) as tool:
        assert (await tool.call({"command": "echo hello | tr h j"}))["stdout"] == "jello\n"
        refused = await tool.call({"command": "sleep 9", "run_in_background": True})

    assert "memory does not offer" in refused["error"]["message"]


async def lives(bash: Session, mark: str) -> bool:
    found = await bash.box.run(
        f"for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -x 'sleep {mark} '; done"
    )
    return found.stdout != b""


@pytest.mark.statement("s2-one-tool-named-bash")
async def test_its_name_is_bash_and_its_description_says_how_it_is_used(bash: Session) -> None:
    tool: Tool = bash.tool

    assert tool.name == "Bash"
    for word in ("run_in_background=true", "task_id", "working directory"):
        assert word in bash.tool.description


async def test_output_is_told_live_without_what_the_shell_says_of_itself(real_box: Workspace) -> None:
    told: list[tuple[str, str]] = []

    async def hear(event: ToolEvent) -> None:
        told.append((event.type, event.data["text"]))

    result = await BashTool(real_box, on_event=hear).call(
        {"command": "cd /tmp; echo out; printf '\\036limpet' >&2; printf mid >&2"}
    )

    heard = {kind: "".join(text for each, text in told if each == kind) for kind, _ in told}
    assert heard == {"workspace_stdout": "out\n", "workspace_stderr": "\x1elimpetmid"}
    assert (result["stderr"], result["next_cwd"]) == ("\x1elimpetmid", "/tmp")

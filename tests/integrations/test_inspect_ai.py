"""The sandbox "limpet" as inspect_ai's users have it: found by its name, in whole runs, and what its own check leaves out."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import inspect_ai
import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessageTool, Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash, bash_session, text_editor
from inspect_ai.util import (
    ExecCompleted,
    OutputLimitExceededError,
    SandboxEnvironmentSpec,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
)
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy
from inspect_ai.util._sandbox.limits import override_max_exec_output_size

from limpet.core.errors import ConfigInvalid
from limpet.core.ports import Limits
from limpet.integrations.inspect_ai import LimpetConfig, WorkspaceSandbox
from limpet.wiring.inspect_ai import LimpetSandbox
from tests.runtimes.bubblewrap.boxes import processes_naming

MODEL = "mockllm/model"


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[WorkspaceSandbox]:
    environments = await LimpetSandbox.sample_init("test", None, {})
    yield environments["default"].as_type(WorkspaceSandbox)
    await LimpetSandbox.sample_cleanup("test", None, environments, False)


def scripted(*outputs: ModelOutput) -> Model:
    """A model that says this, and how much that was: to count it, the framework would load a table from the internet."""
    for output in outputs:
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return get_model(MODEL, custom_outputs=list(outputs))


def ran(task: Task, model: Model, directory: Path) -> EvalLog:
    (log,) = inspect_ai.eval(task, model=model, display="none", log_dir=str(directory))
    assert log.status == "success", log.error and log.error.message
    return log


def left(home: Path) -> list[str]:
    """What there is of boxes: directories, sockets, records, and processes of the one kind that names them."""
    paths = (path for name in ("boxes", "run") for path in (home / name).glob("*"))
    return sorted(map(str, paths)) + processes_naming(str(home))


def said_by_tools(log: EvalLog) -> list[str]:
    (sample,) = log.samples or []
    assert sample.error is None
    assert [
        message.error for message in sample.messages if isinstance(message, ChatMessageTool) and message.error
    ] == []
    return [message.text for message in sample.messages if isinstance(message, ChatMessageTool)]


def test_a_whole_run_finds_the_sandbox_by_its_name(tmp_path: Path) -> None:
    sample = Sample(input="Greet.", target="done", files={"a/greeting.txt": "hello\n"}, setup="echo ready > setup.txt")
    task = Task(dataset=[sample], solver=[use_tools(bash(timeout=10)), generate()], scorer=includes(), sandbox="limpet")
    model = scripted(
        ModelOutput.for_tool_call(MODEL, "bash", {"command": "cat a/greeting.txt setup.txt; pwd; whoami"}),
        ModelOutput.from_content(MODEL, "done"),
    )

    log = ran(task, model, tmp_path)

    assert said_by_tools(log) == ["hello\nready\n/mnt/data\nagent\n"]


def test_the_tools_that_it_puts_into_a_sandbox_work_there(tmp_path: Path) -> None:
    task = Task(
        dataset=[Sample(input="Edit.", files={"note.txt": "one\n"})],
        solver=[use_tools(text_editor(), bash_session()), generate()],
        sandbox="limpet",
    )
    edit = {"command": "str_replace", "path": "/mnt/data/note.txt", "old_str": "one", "new_str": "two"}
    model = scripted(
        ModelOutput.for_tool_call(MODEL, "text_editor", edit),
        ModelOutput.for_tool_call(MODEL, "bash_session", {"action": "type_submit", "input": "cat note.txt"}),
        ModelOutput.from_content(MODEL, "done"),
    )

    edited, session = said_by_tools(ran(task, model, tmp_path))

    assert "has been edited" in edited
    assert "two" in session


def test_a_task_says_what_its_boxes_are_like(tmp_path: Path) -> None:
    config = LimpetConfig(limits=Limits(processes=50), env={"COLOUR": "red"})
    task = Task(
        dataset=[Sample(input="Look.")],
        solver=[use_tools(bash()), generate()],
        sandbox=SandboxEnvironmentSpec("limpet", config),
    )
    model = scripted(
        ModelOutput.for_tool_call(MODEL, "bash", {"command": "echo $COLOUR"}), ModelOutput.from_content(MODEL, "done")
    )

    log = ran(task, model, tmp_path)

    assert said_by_tools(log) == ["red\n"]
    assert LimpetSandbox.config_deserialize(config.model_dump()) == config


@pytest.mark.anyio
async def test_a_file_of_settings_does_too(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text('runtime = "local"\nenv = {COLOUR = "blue"}\n')
    config = str(tmp_path / "limpet.toml")
    environments = await LimpetSandbox.sample_init("test", config, {})
    try:
        result = await environments["default"].exec(["sh", "-c", "echo $COLOUR"])
    finally:
        await LimpetSandbox.sample_cleanup("test", config, environments, False)

    assert result.stdout == "blue\n"


@pytest.mark.anyio
async def test_a_box_that_cannot_be_had_says_why() -> None:
    with pytest.raises(ConfigInvalid, match="'microsandbox' is not built yet"):
        await LimpetSandbox.sample_init("test", LimpetConfig(runtime="microsandbox"), {})


@pytest.mark.anyio
async def test_nothing_of_a_sample_is_left_when_it_is_over(boxes: Path) -> None:
    before = left(boxes)
    environments = await LimpetSandbox.sample_init("test", None, {})
    sandbox = environments["default"]
    await sandbox.exec(["sh", "-c", "sleep 1000 > /dev/null 2>&1 &"])
    await LimpetSandbox.sample_cleanup("test", None, environments, False)

    assert left(boxes) == before
    with pytest.raises(SandboxUnavailableError, match="closed"):
        await sandbox.exec(["true"])


@pytest.mark.anyio
async def test_a_run_that_is_cancelled_while_its_box_starts_leaves_none(boxes: Path) -> None:
    before = left(boxes)
    async with anyio.create_task_group() as group:

        async def start() -> None:
            await LimpetSandbox.sample_init("test", None, {})
            pytest.fail("it was started before it could be cancelled")

        group.start_soon(start)
        while left(boxes) == before:
            await anyio.sleep(0)  # its first trace is written long before it is up
        group.cancel_scope.cancel()

    assert left(boxes) == before


@pytest.mark.anyio
async def test_output_over_the_limit_is_an_error_that_shows_its_head(sandbox: WorkspaceSandbox) -> None:
    with override_max_exec_output_size(1024), pytest.raises(OutputLimitExceededError) as caught:
        await sandbox.exec(["sh", "-c", "yes | head -c 5000; echo over > over.txt"])

    assert caught.value.truncated_output == "y\n" * 512
    assert await sandbox.read_file("over.txt") == "over\n"


@pytest.mark.anyio
async def test_its_own_user_is_the_only_one(sandbox: WorkspaceSandbox) -> None:
    assert (await sandbox.exec(["whoami"], user="agent")).stdout == "agent\n"
    with pytest.raises(SandboxUserUnsupportedError, match="nothing in it runs as 'root'"):
        await sandbox.exec(["whoami"], user="root")


@pytest.mark.anyio
async def test_a_command_that_ran_out_of_time_is_not_run_again(sandbox: WorkspaceSandbox) -> None:
    with pytest.raises(TimeoutError):
        await sandbox.exec(["sh", "-c", "echo run >> runs.txt; sleep 1000"], timeout=1, timeout_retry=True)

    assert await sandbox.read_file("runs.txt") == "run\n"


@pytest.mark.anyio
async def test_a_directory_that_is_missing_is_a_missing_file(sandbox: WorkspaceSandbox) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        await sandbox.exec(["true"], cwd="nowhere")


@pytest.mark.anyio
async def test_a_command_that_no_program_can_receive_is_a_result(sandbox: WorkspaceSandbox) -> None:
    result = await sandbox.exec(["echo", "a\0b"])

    assert (result.success, result.returncode) == (False, 126)
    assert "NUL" in result.stderr


@pytest.mark.anyio
async def test_a_file_of_any_size_is_written_whole(sandbox: WorkspaceSandbox) -> None:
    data = os.urandom(1 << 20) * 70

    await sandbox.write_file("large.bin", data)

    assert await sandbox.read_file("large.bin", text=False) == data


@pytest.mark.anyio
async def test_a_place_that_is_read_only_is_a_matter_of_permission(sandbox: WorkspaceSandbox) -> None:
    with pytest.raises(PermissionError, match="/usr/bin/mine"):
        await sandbox.write_file("/usr/bin/mine", "")


@pytest.mark.anyio
async def test_text_that_is_none_is_told(sandbox: WorkspaceSandbox) -> None:
    await sandbox.write_file("bytes", b"\xff")

    with pytest.raises(UnicodeDecodeError):
        await sandbox.read_file("bytes")


@pytest.mark.anyio
async def test_a_process_is_followed_from_afar(sandbox: WorkspaceSandbox) -> None:
    process = await SandboxEnvironmentProxy(sandbox).exec_remote(["sh", "-c", "echo here; exit 3"])
    events = [event async for event in process]

    assert events[-1] == ExecCompleted(exit_code=3)

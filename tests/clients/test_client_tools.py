"""Official clients that carry out a model's calls themselves: shell commands and patches, behind a provider that knows neither tool."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
    apply_diff,
)
from agents.editor import ApplyPatchOperation, ApplyPatchResult

from tests.clients.turns import run_node
from tests.support.gateway import Gateway, running
from tests.support.providers.turns import FunctionCall
from tests.wire.provider import Provider

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def client_gateway(chat: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One that leaves all execution to its clients."""
    provider = f'[providers.chat]\ntype = "openai_chat"\nbase_url = "{chat.server.base_url}"\nmodels = ["chat-*"]\n'
    config = f'[features.shell]\ntype = "client_passthrough"\n{provider}'
    with running(tmp_path_factory.mktemp("delegating"), runtime=None, config=config) as gateway:
        yield gateway


class Editor:
    """Changes files of a directory of this host, as the SDK's manual does."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        (self._directory / operation.path).write_text(apply_diff("", operation.diff or "", mode="create"))
        return ApplyPatchResult(status="completed", output="made")

    def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        file = self._directory / operation.path
        file.write_text(apply_diff(file.read_text(), operation.diff or ""))
        return ApplyPatchResult(status="completed", output="changed")

    def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        (self._directory / operation.path).unlink()
        return ApplyPatchResult(status="completed", output="deleted")


@pytest.mark.anyio
@STREAMED
async def test_openai_agents_runs_commands_and_applies_patches(
    client_gateway: Gateway, chat: Provider, tmp_path: Path, streamed: bool
) -> None:
    async def execute(request: ShellCommandRequest) -> ShellResult:
        outputs = []
        for command in request.data.action.commands:
            done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
            outcome = ShellCallOutcome(type="exit", exit_code=done.returncode)
            outputs.append(ShellCommandOutput(stdout=done.stdout, stderr=done.stderr, outcome=outcome, command=command))
        return ShellResult(output=outputs)

    chat.play(
        FunctionCall("shell", {"commands": ["echo one > file; cat file"]}, call_id="call_1"),
        FunctionCall(
            "apply_patch", {"type": "update_file", "path": "file", "diff": "@@\n-one\n+two"}, call_id="call_2"
        ),
        FunctionCall("shell", {"commands": ["cat file; exit 3"]}, call_id="call_3"),
        "Done.",
    )
    async with openai.AsyncOpenAI(base_url=f"{client_gateway.url}/v1", api_key="none", max_retries=0) as client:
        agent = Agent(
            name="worker",
            model=OpenAIResponsesModel("chat-1", client),
            tools=[ShellTool(executor=execute), ApplyPatchTool(editor=Editor(tmp_path))],
        )
        quiet = RunConfig(tracing_disabled=True)
        if streamed:
            result: Any = Runner.run_streamed(agent, "Go.", run_config=quiet)
            async for _ in result.stream_events():
                continue
        else:
            result = await Runner.run(agent, "Go.", run_config=quiet)

    assert (result.final_output, (tmp_path / "file").read_text()) == ("Done.", "two\n")
    told = [message["content"] for message in chat.asked[-1]["messages"] if message["role"] == "tool"]
    assert told == ["exit code: 0\nstdout:\none", "completed: changed", "exit code: 3\nstdout:\ntwo"]


@STREAMED
def test_the_ai_sdk_runs_commands(client_gateway: Gateway, chat: Provider, tmp_path: Path, streamed: bool) -> None:
    chat.play(FunctionCall("shell", {"commands": ["echo one | tee file"]}, call_id="call_1"), "Done.")
    asked = {"model": "chat-1", "prompt": "Go.", "directory": str(tmp_path), "streamed": streamed}
    done = run_node("ai_sdk_local.mjs", url=f"{client_gateway.url}/v1", **asked)
    assert done == {"text": "Done.", "steps": 2, "tools": [{"type": "shell"}]}
    assert (tmp_path / "file").read_text() == "one\n"
    told = [message["content"] for message in chat.asked[-1]["messages"] if message["role"] == "tool"]
    assert told == ["exit code: 0\nstdout:\none"]

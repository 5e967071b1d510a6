"""The Agents SDK itself: its ShellTool runs in a workspace, or through the gateway; its agents call limpet's tools."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    Model,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    ShellActionRequest,
    ShellCallData,
    ShellCallOutcome,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
)
from agents.run_context import RunContextWrapper
from agents.testing import ScriptedModel, assistant_message, function_call

from limpet.guard.policy.policy import Policy
from limpet.integrations.openai_agents import function_tools, limpet_shell
from limpet.tools import tools_for
from limpet.workspace.workspace import Workspace
from tests.support.gateway import Gateway, running

pytestmark = pytest.mark.anyio
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("agents")) as gateway:
        yield gateway


@pytest.fixture
async def script(gateway: Gateway) -> AsyncIterator[Model]:
    """The built-in model, behind the gateway."""
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none needed", max_retries=0) as client:
        yield OpenAIResponsesModel("limpet/script", client)


async def executed(box: Workspace, *commands: str, **settings: Any) -> ShellResult:
    action = ShellActionRequest(commands=list(commands), **settings)
    request = ShellCommandRequest(ctx_wrapper=RunContextWrapper(None), data=ShellCallData(call_id="c1", action=action))
    return await limpet_shell(box)(request)


async def test_a_model_behind_the_gateway_works_in_a_workspace_here(script: Model, box: Workspace) -> None:
    agent = Agent(name="worker", model=script, tools=[ShellTool(executor=limpet_shell(box))])

    result = await Runner.run(
        agent, "```sh\necho hello > note.txt\n```\n```sh\ncat note.txt; exit 3\n```", run_config=QUIET
    )

    assert "exit code 3" in result.final_output
    assert "hello" in result.final_output
    assert await box.files.read("note.txt") == b"hello\n"


async def test_the_hosted_shell_runs_in_a_container_of_the_gateway(script: Model) -> None:
    agent = Agent(name="worker", model=script, tools=[ShellTool(environment={"type": "container_auto"})])

    result = await Runner.run(agent, "```sh\necho $((6 * 7)) | tee answer.txt\n```", run_config=QUIET)

    assert [item.type for item in result.new_items] == [
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]
    assert "42" in result.final_output


async def test_the_hosted_shell_streams(script: Model) -> None:
    agent = Agent(name="worker", model=script, tools=[ShellTool(environment={"type": "container_auto"})])

    streamed = Runner.run_streamed(agent, "```sh\necho streamed\n```", run_config=QUIET)
    types = [event.data.type async for event in streamed.stream_events() if event.type == "raw_response_event"]

    assert types[0] == "response.created"
    assert types[-1] == "response.completed"
    assert "streamed" in streamed.final_output


async def test_each_command_has_its_own_output_and_outcome(box: Workspace) -> None:
    result = await executed(box, "echo out; echo err >&2", "cd /tmp; exit 7", "pwd", "sleep 60", timeout_ms=700)

    assert [(one.stdout, one.stderr) for one in result.output] == [
        ("out\n", "err\n"),
        ("", ""),
        ("/mnt/data\n", ""),
        ("", ""),
    ]
    assert [one.outcome for one in result.output] == [
        ShellCallOutcome(type="exit", exit_code=0),
        ShellCallOutcome(type="exit", exit_code=7),
        ShellCallOutcome(type="exit", exit_code=0),
        ShellCallOutcome(type="timeout"),
    ]


async def test_long_output_keeps_head_and_tail_and_names_the_file_with_all_of_it(box: Workspace) -> None:
    ((output,), limited) = (
        (await executed(box, "seq 100000")).output,
        await executed(box, "seq 1000", max_output_length=400),
    )

    assert output.stdout.startswith("1\n2\n")
    assert output.stdout.endswith("99999\n100000\n")
    (note,) = output.stderr.splitlines()
    whole = await box.files.read(note.rpartition(" ")[2])
    assert whole.endswith(b"\n100000\n")
    assert limited.output[0].stdout.endswith("999\n1000\n")
    assert len(limited.output[0].stdout) <= 400


async def test_what_the_policy_refuses_is_told_to_the_model(box: Workspace) -> None:
    view = box.guarded(policy=Policy(allowed_commands=frozenset({"echo"})))

    refused, allowed = (await executed(view, "ls", "echo fine")).output

    assert refused.exit_code == 126
    assert "allowed_commands" in refused.stderr
    assert allowed.stdout == "fine\n"


async def test_a_secret_does_not_reach_the_model(box: Workspace) -> None:
    token = "ghp_" + "a1B2" * 9

    (output,) = (await executed(box, f"echo {token}")).output

    assert token not in output.stdout
    assert "[REDACTED" in output.stdout


async def test_an_agent_calls_the_tools_of_a_workspace(box: Workspace) -> None:
    tools = function_tools(tools_for(box))
    model = ScriptedModel(
        [
            [function_call("workspace__box__run", {"command": "echo $((6 * 7))"}, call_id="1")],
            [function_call("workspace__box__run", {"comand": "ls"}, call_id="2")],
            [assistant_message("done")],
        ]
    )

    result = await Runner.run(Agent(name="worker", model=model, tools=tools), "Reckon.", run_config=QUIET)

    ran, wrong = (json.loads(item.output) for item in result.new_items if item.type == "tool_call_output_item")
    assert (ran["stdout"], ran["exitCode"]) == ("42\n", 0)
    assert wrong["error"]["code"] == "invalid_arguments"
    assert result.final_output == "done"


@pytest.mark.parametrize("arguments", ["{", "[1]", '"text"'])
async def test_arguments_that_are_no_object_are_told_to_the_model(box: Workspace, arguments: str) -> None:
    model = ScriptedModel([[function_call("workspace__box__run", arguments, call_id="1")], [assistant_message("done")]])

    result = await Runner.run(
        Agent(name="worker", model=model, tools=function_tools(tools_for(box))), "Reckon.", run_config=QUIET
    )

    (output,) = (item.output for item in result.new_items if item.type == "tool_call_output_item")
    assert json.loads(output)["error"]["code"] == "invalid_arguments"

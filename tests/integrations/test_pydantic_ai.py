"""pydantic-ai itself: an agent works with the tools of a workspace."""

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel as AnyCalls

from limpet.integrations.pydantic_ai import limpet_toolset
from limpet.tools import tools_for
from limpet.workspace.workspace import Workspace

pytestmark = pytest.mark.anyio
RUN = "workspace__box__run"


async def test_an_agent_calls_the_tools_of_a_workspace(box: Workspace) -> None:
    asked: list[AgentInfo] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(info)
        if len(asked) == 1:
            call = {"command": "echo $((6 * 7)); exit 3"}
            return ModelResponse(parts=[ToolCallPart(RUN, call), ToolCallPart(RUN, {"comand": "ls"})])
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(model), toolsets=[limpet_toolset(tools_for(box))])
    result = await agent.run("Reckon.")

    returned: list[Any] = [
        part.content for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)
    ]
    assert (returned[0]["stdout"], returned[0]["exitCode"]) == ("42\n", 3)
    assert returned[1]["error"]["code"] == "invalid_arguments"
    assert result.output == "done"
    shown = {tool.name: tool for tool in asked[0].function_tools}
    assert shown[RUN].parameters_json_schema["required"] == ["command"]
    assert "/mnt/data" in (shown[RUN].description or "")


async def test_whatever_a_model_calls_them_with_the_run_goes_on(box: Workspace) -> None:
    tools = tools_for(box)
    agent = Agent(AnyCalls(), toolsets=[limpet_toolset(tools)])

    result = await agent.run("Try everything.")

    returned = {
        part.tool_name: part.content
        for message in result.all_messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    assert set(returned) == {tool.name for tool in tools}
    assert all(isinstance(content, dict) for content in returned.values())

"""LangChain itself: its tools are those of a workspace."""

import json

import pytest
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from limpet.integrations.langchain import langchain_tools
from limpet.tools import tools_for
from limpet.workspace.workspace import Workspace

pytestmark = pytest.mark.anyio


async def test_a_tool_call_gives_a_tool_message(box: Workspace) -> None:
    run, *_ = langchain_tools(tools_for(box))

    message = await run.ainvoke(
        ToolCall(type="tool_call", id="call_1", name=run.name, args={"command": "echo hé; exit 3"})
    )

    assert isinstance(message, ToolMessage)
    assert message.tool_call_id == "call_1"
    result = json.loads(str(message.content))
    assert (result["stdout"], result["exitCode"]) == ("hé\n", 3)


async def test_what_a_model_did_wrong_is_told_to_it(box: Workspace) -> None:
    run, *_ = langchain_tools(tools_for(box))

    assert (await run.ainvoke({"comand": "ls"}))["error"]["code"] == "invalid_arguments"


async def test_a_model_is_shown_the_schema_of_the_tool(box: Workspace) -> None:
    tools = tools_for(box)

    shown = [convert_to_openai_tool(tool)["function"] for tool in langchain_tools(tools)]

    assert [(one["name"], one["description"]) for one in shown] == [(tool.name, tool.description) for tool in tools]
    assert [one["parameters"]["properties"] for one in shown] == [tool.parameters["properties"] for tool in tools]

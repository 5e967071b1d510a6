"""pydantic-ai: tools as one of its toolsets. Translates; decides nothing."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from limpet.integrations import extra
from limpet.tools.tool import JsonObject, Tool

with extra("pydantic-ai", "pydantic_ai"):
    from pydantic_ai import FunctionToolset, RunContext
    from pydantic_ai import Tool as PydanticTool


def limpet_toolset(tools: Sequence[Tool]) -> FunctionToolset[Any]:
    """For `Agent(toolsets=[limpet_toolset(tools)])`, whatever the agent's dependencies are. Results are the tools' own objects; what
    a model did wrong is in them, so that no retry of the framework is used up."""
    return FunctionToolset([_tool(tool) for tool in tools])


def _tool(tool: Tool) -> PydanticTool[Any]:
    return PydanticTool.from_schema(
        _calling(tool), name=tool.name, description=tool.description, json_schema=tool.parameters, takes_ctx=True
    )


def _calling(tool: Tool) -> Callable[..., Awaitable[JsonObject]]:
    async def call(context: RunContext[Any], /, **arguments: Any) -> JsonObject:
        return await tool.call(arguments, call_id=context.tool_call_id)

    return call

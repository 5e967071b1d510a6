"""LangChain: tools as its StructuredTools. Translates; decides nothing."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from limpet.integrations import extra
from limpet.tools.tool import JsonObject, Tool

with extra("langchain", "langchain_core"):
    from langchain_core.tools import StructuredTool


def langchain_tools(tools: Sequence[Tool]) -> list[StructuredTool]:
    """The same tools for `bind_tools` and agents, by `ainvoke` only. Called with a tool call, each gives a ToolMessage whose content is
    JSON. The call's id does not reach the tool: LangChain hands it to tools with a pydantic schema alone."""
    return [
        StructuredTool(
            name=tool.name, description=tool.description, args_schema=tool.parameters, coroutine=_calling(tool)
        )
        for tool in tools
    ]


def _calling(tool: Tool) -> Callable[..., Awaitable[JsonObject]]:
    async def call(**arguments: Any) -> JsonObject:
        return await tool.call(arguments)

    return call

"""What a model is shown of a tool's arguments and what the tool reads are the same: no argument is ignored, none is unknown."""

import json
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from limpet.tools.bash.schema import HIDDEN
from limpet.tools.bash.tool import BashTool
from limpet.tools.files import file_tools
from limpet.tools.run import RunTool
from limpet.tools.shell_cmd.tool import ShellCmdTool
from limpet.tools.tool import Tool
from limpet.workspace.workspace import Workspace

pytestmark = pytest.mark.anyio
WRONG = [["no argument is a list of lists"]]


async def told(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What a call says, as text."""
    return json.dumps(await tool.call(arguments), ensure_ascii=False)


async def example_of(tool: Tool) -> dict[str, Any]:
    """The arguments that its errors show."""
    result = await tool.call({"no_such_argument": 1})
    message = result["error"]["message"]
    assert "no_such_argument" in message
    example: dict[str, Any] = json.loads(message.partition("Example: ")[2])
    return example


async def test_every_argument_of_every_tool_is_read_and_refused_by_its_name(memory_box: Workspace) -> None:
    async with AsyncExitStack() as stack:
        bash = await stack.enter_async_context(BashTool(memory_box))
        tools: list[Tool] = [RunTool(memory_box, "box"), *file_tools(memory_box, "box"), bash]
        tools.append(ShellCmdTool(memory_box, session="s"))
        for tool in tools:
            schema = tool.parameters
            Draft202012Validator.check_schema(schema)
            example = await example_of(tool)
            assert [error.message for error in Draft202012Validator(schema).iter_errors(example)] == []

            for name in [*schema["properties"], *(HIDDEN if tool is bash else ())]:
                assert re.search(rf"{name}(\[0\])? must be", await told(tool, {**example, name: WRONG})), (
                    tool.name,
                    name,
                )
            for name in schema["required"]:
                left = {key: value for key, value in example.items() if key != name}
                assert f"{name} is missing" in await told(tool, left), (tool.name, name)

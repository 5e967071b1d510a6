"""A tool, and what it answers, in MCP's shapes. Pure."""

import json
import re

from mcp.types import CallToolResult, TextContent, ToolAnnotations
from mcp.types import Tool as Shown

from limpet.tools.tool import JsonObject, Tool

_SURROGATE = re.compile("[\ud800-\udfff]")
# What a tool of the workspace does to it: (only reads, may destroy, twice is as once). Every other tool runs commands.
_FILE_TOOLS = {
    "read_file": (True, False, True),
    "list_files": (True, False, True),
    "glob": (True, False, True),
    "grep": (True, False, True),
    "stat": (True, False, True),
    "write_file": (False, True, False),
    "edit_file": (False, True, False),
    "remove": (False, True, True),
    "mkdir": (False, False, True),
}
_TITLES = {"run": "Run a command", "Bash": "Bash", "shell_cmd": "Run one program"}


def shown(tool: Tool, *, is_readonly: bool, is_open: bool) -> Shown:
    """The tool in MCP's shape. `is_readonly`: the policy lets commands only read; `is_open`: they can reach the world outside."""
    operation = tool.name.rsplit("__", 1)[-1]
    reads, destroys, repeats = _FILE_TOOLS.get(operation, (is_readonly, not is_readonly, is_readonly))
    return Shown(
        name=tool.name,
        title=_TITLES.get(operation, operation.replace("_", " ").capitalize()),
        description=tool.description,
        input_schema=tool.parameters,
        annotations=ToolAnnotations(
            read_only_hint=reads,
            destructive_hint=destroys,
            idempotent_hint=repeats,
            open_world_hint=is_open and operation not in _FILE_TOOLS,
        ),
    )


def changes_files(tool: Tool) -> bool:
    """Whether it is one that a readonly policy would refuse at every call."""
    reads, _, _ = _FILE_TOOLS.get(tool.name.rsplit("__", 1)[-1], (True, False, True))
    return not reads


def as_result(answer: JsonObject) -> CallToolResult:
    """The answer as structured content, and the same as JSON text for clients that know only that.

    A failing command is a result; a call that could not be done is an error, its text the sentence alone.
    """
    text = _SURROGATE.sub("\ufffd", json.dumps(answer, ensure_ascii=False))
    structured = json.loads(text)
    if "error" in answer and "message" in answer["error"]:
        said = TextContent(type="text", text=structured["error"]["message"])
        return CallToolResult(content=[said], structured_content=structured, is_error=True)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)

"""Short ways to call `shell_cmd` in a box."""

from typing import Any

from limpet.tools.shell_cmd.tool import ShellCmdTool
from limpet.workspace.workspace import Workspace

SCRIPT = b"#!/bin/sh\n"


def tool(box: Workspace, **options: Any) -> ShellCmdTool:
    return ShellCmdTool(box, session="s", **options)


async def as_json(box: Workspace, command: str, *parameters: str, **arguments: Any) -> dict[str, Any]:
    call = {"command": command, "parameters": list(parameters), "output_format": "json", **arguments}
    return await tool(box).call(call, call_id="call_1")


async def script(box: Workspace, name: str, text: bytes) -> None:
    await box.files.write(f"/mnt/data/{name}", SCRIPT + text, mode=0o755)

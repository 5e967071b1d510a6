"""The file tools of a workspace, `workspace__<name>__read_file` and its kind: one shape, eight operations (`operations`)."""

from collections.abc import Mapping
from typing import Any

import anyio

from limpet.tools.arguments import read
from limpet.tools.failures import EXPECTED, LONGEST, brief, explained
from limpet.tools.operations import OPERATIONS, Operation
from limpet.tools.tool import JsonObject, failure
from limpet.tools.view import ScreenedTool, redacted
from limpet.workspace.names import tool_name
from limpet.workspace.workspace import Workspace

PATIENCE = 30.0  # seconds of one operation


class FileTool(ScreenedTool):
    """`tools.tool.Tool` for one operation on the files."""

    def __init__(self, workspace: Workspace, name: str, operation: Operation) -> None:
        super().__init__(workspace)
        self._name = name
        self._operation = operation

    @property
    def name(self) -> str:
        return tool_name(self._name, self._operation.name)

    @property
    def description(self) -> str:
        return self._operation.description

    @property
    def parameters(self) -> JsonObject:
        return self._operation.parameters

    async def call(self, arguments: Mapping[str, Any], *, call_id: str | None = None) -> JsonObject:
        """As the operation says; what it does is on record, and so is what the policy refused."""
        view = self._view
        operation = self._operation
        answer: JsonObject = failure(
            "timed_out",
            f"{self.name} gave up after {PATIENCE:g} seconds. Ask for less: a smaller file, a narrower root or pattern.",
        )
        try:
            given = read(arguments, tool=self.name, names=tuple(operation.properties), example=operation.example)
            with anyio.move_on_after(PATIENCE):
                answer = await operation.do(view, given)
        except EXPECTED as error:
            answer = explained(error)
        path = arguments.get("path") if isinstance(arguments, Mapping) else None
        await view.audit(
            operation.name,
            command=f"{operation.name} {brief(path, LONGEST)}" if isinstance(path, str) else operation.name,
            error=answer["error"]["message"] if "error" in answer else None,
            verdict="denied" if answer.get("error", {}).get("code") == "denied" else "allowed",
            call_id=call_id,
        )
        return redacted(view, answer)


def file_tools(workspace: Workspace, name: str) -> list[FileTool]:
    return [FileTool(workspace, name, operation) for operation in OPERATIONS]

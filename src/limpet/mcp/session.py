"""One MCP session: a workspace of its own, and a server that offers its tools. The box ends with the session."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Token
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp.types import Tool as Shown

from limpet.mcp.calls import CURRENT, ActiveCall, approve, tell
from limpet.mcp.progress import Progress
from limpet.mcp.results import as_result, changes_files, shown
from limpet.tools.bash import BashConfig, BashTool
from limpet.tools.shell_cmd.config import ShellCmdConfig
from limpet.tools.shell_cmd.tool import ShellCmdTool
from limpet.tools.tool import JsonObject, Tool
from limpet.tools.toolset import tools_for
from limpet.workspace.approvals import Approver
from limpet.workspace.workspace import Workspace

OpenWorkspace = Callable[[Approver], AbstractAsyncContextManager[Workspace]]
"""Opens the workspace of a session, whose approvals are asked of that approver."""

MOST_OUTPUT = 64 << 10  # bytes a stream in a result of shell_cmd, as of the other tools


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What a session gets: `open_workspace` makes its box, `is_open` says that commands there reach the world outside."""

    open_workspace: OpenWorkspace
    bash: BashConfig
    with_shell_cmd: bool = False
    is_open: bool = False


@asynccontextmanager
async def session(offering: SessionOptions) -> AsyncIterator[Server[Any]]:
    """A server for one client, its box for the time of the block. Raises what opening a workspace raises."""
    async with (
        offering.open_workspace(approve) as workspace,
        BashTool(workspace, config=offering.bash, on_event=tell) as bash,
    ):
        beside: list[Tool] = [bash]
        if offering.with_shell_cmd:
            config = ShellCmdConfig(most_output=MOST_OUTPUT)
            beside.append(ShellCmdTool(workspace, session=workspace.session, config=config, on_event=tell))
        is_readonly = any(policy.readonly for policy in workspace.policies)
        tools = tools_for(workspace, beside=beside, on_event=tell)
        if is_readonly:
            tools = [tool for tool in tools if not changes_files(tool)]
        offered = [shown(tool, is_readonly=is_readonly, is_open=offering.is_open) for tool in tools]
        service = Service(tools, offered)
        yield Server(
            "limpet",
            version=version("limpet"),
            title="Limpet",
            instructions=_instructions(workspace),
            on_list_tools=service.list_tools,
            on_call_tool=service.call_tool,
        )


class Service:
    """What the server answers."""

    def __init__(self, tools: Sequence[Tool], offered: Sequence[Shown]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._offered = list(offered)

    async def list_tools(
        self, context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=self._offered)

    async def call_tool(
        self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """The tool's answer, or what the client must ask its user first. `notifications/cancelled` ends the command with the task."""
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(
                code=INVALID_PARAMS, message=f"Unknown tool {params.name!r}; there are: {', '.join(self._tools)}."
            )
        call = ActiveCall(context=context, progress=_progress_of(context), answers=params.input_responses or {})
        token: Token[ActiveCall | None] = CURRENT.set(call)
        try:
            answer = await _with_progress(tool, call, params.arguments or {}, f"mcp-{context.request_id}")
        finally:
            CURRENT.reset(token)
        if call.asked:
            return InputRequiredResult(input_requests=dict(call.asked))
        return as_result(answer)


async def _with_progress(tool: Tool, call: ActiveCall, arguments: JsonObject, call_id: str) -> JsonObject:
    """Every notification of a call goes out before its result."""
    if call.progress is None:
        return await tool.call(arguments, call_id=call_id)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call.progress.carry)
        answer = await tool.call(arguments, call_id=call_id)
        call.progress.end()
    return answer


def _progress_of(context: ServerRequestContext[Any, Any]) -> Progress | None:
    """None where the client asked for no progress."""
    if context.meta is None or context.meta.get("progress_token") is None:
        return None

    async def report(progress: float, message: str) -> None:
        await context.session.report_progress(progress, message=message)

    return Progress(report)


def _instructions(workspace: Workspace) -> str:
    return (
        f"A shell and files in a box of this session. The working directory is {workspace.directory}; files stay from call to"
        f" call until the session ends. Bash also keeps its directory and runs background tasks. {workspace.network_note}"
    ).rstrip()

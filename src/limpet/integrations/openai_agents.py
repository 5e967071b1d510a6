"""OpenAI's Agents SDK: a workspace as the executor of its ShellTool, and tools as its function tools. Translates; decides nothing."""

import json
from collections.abc import Awaitable, Callable, Sequence

from limpet.core import exit_codes
from limpet.core.command import Aborted, Exited, Lost, Outcome, TimedOut
from limpet.core.errors import CommandRefused, LimpetError
from limpet.core.ids import new_id
from limpet.guard.output import trim_pair
from limpet.integrations import extra
from limpet.tools.output import show_whole
from limpet.tools.tool import Tool, failure
from limpet.tools.view import screened
from limpet.workspace.audit import Call
from limpet.workspace.workspace import Workspace

with extra("agents", "agents"):
    from agents import FunctionTool, ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult
    from agents import Tool as AgentsTool
    from agents.tool_context import ToolContext

MOST_OUTPUT = 64 << 10  # bytes a stream of a command, where the call names no length
_MARKERS = 96  # characters of the two lines that say how much was left out: the SDK counts them too


def limpet_shell(workspace: Workspace) -> Callable[[ShellCommandRequest], Awaitable[ShellResult]]:
    """For `ShellTool(executor=limpet_shell(workspace))`: a call's commands run one after the other, each in a fresh shell.

    Output is redacted, at least by the default rules, and cut to head and tail at the call's `max_output_length` characters, or
    MOST_OUTPUT bytes; the whole is in a file that stderr names. What the policy refuses is a command that ended with 126, and a box
    that is gone one that ended with 125: stderr says why. `timeout_ms` bounds each command, within the workspace's own ceiling.
    """
    view = screened(workspace)

    async def execute(request: ShellCommandRequest) -> ShellResult:
        action, call_id = request.data.action, request.data.call_id
        timeout = None if action.timeout_ms is None else action.timeout_ms / 1000
        outputs = []
        for command in action.commands:
            output = await _output(view, command, timeout=timeout, call_id=call_id)
            if (most := action.max_output_length) is not None:
                room = max(most - _MARKERS, most // 2)
                output.stdout, output.stderr = trim_pair(output.stdout, output.stderr, room)
            outputs.append(output)
        return ShellResult(output=outputs, max_output_length=action.max_output_length)

    return execute


def function_tools(tools: Sequence[Tool]) -> list[AgentsTool]:
    """The same tools for an `Agent(tools=...)`. Results are JSON; schemas are not strict, since optional arguments may be left out."""
    return [_function_tool(tool) for tool in tools]


async def _output(view: Workspace, command: str, *, timeout: float | None, call_id: str) -> ShellCommandOutput:
    try:
        result = await view.run(command, timeout=timeout, call=Call(action="shell", call_id=call_id))
    except LimpetError as error:
        code = exit_codes.CANNOT_RUN if isinstance(error, CommandRefused) else exit_codes.LOST
        outcome = ShellCallOutcome(type="exit", exit_code=code)
        return ShellCommandOutput(command=command, stderr=view.redactor.text(str(error)), outcome=outcome)
    name = new_id("out")
    out = await show_whole(view, result.kept["stdout"], limit=MOST_OUTPUT, name=f"{name}-stdout")
    err = await show_whole(view, result.kept["stderr"], limit=MOST_OUTPUT, name=f"{name}-stderr")
    said = [*result.notes, *(f"all of it is in {shown.file}" for shown in (out, err) if shown.file is not None)]
    if isinstance(result.outcome, Lost):
        said.append(result.outcome.reason)
    notes = "".join(f"[limpet] {note}\n" for note in said)
    return ShellCommandOutput(
        command=command, stdout=out.text, stderr=err.text + notes, outcome=_outcome(result.outcome)
    )


def _outcome(outcome: Outcome) -> ShellCallOutcome:
    """The two kinds that the SDK knows."""
    match outcome:
        case Exited(code):
            return ShellCallOutcome(type="exit", exit_code=code)
        case TimedOut():
            return ShellCallOutcome(type="timeout")
        case Aborted():
            return ShellCallOutcome(type="exit", exit_code=exit_codes.INTERRUPTED)
        case Lost():
            return ShellCallOutcome(type="exit", exit_code=exit_codes.LOST)


def _function_tool(tool: Tool) -> FunctionTool:
    async def invoke(context: ToolContext[object], text: str) -> str:
        try:
            arguments = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            return json.dumps(failure("invalid_arguments", f"The arguments are not JSON: {error}."))
        if not isinstance(arguments, dict):
            return json.dumps(failure("invalid_arguments", "The arguments are not a JSON object."))
        return json.dumps(await tool.call(arguments, call_id=context.tool_call_id), ensure_ascii=False)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )

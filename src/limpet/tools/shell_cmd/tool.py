"""The tool `shell_cmd`: one program, for a user who asked for it, without a shell, inside a trusted directory."""

from collections.abc import Mapping
from typing import Any

import anyio

from limpet.core.command import STREAMS, Aborted, Exited, Stream
from limpet.tools.arguments import BadArguments
from limpet.tools.events import TOOL_STREAM, Build, LiveEvents, OnEvent, ToolEvent
from limpet.tools.failures import EXPECTED, explained
from limpet.tools.output import OutputExcerpt, head, show_whole, with_file
from limpet.tools.shell_cmd.artifacts import describe
from limpet.tools.shell_cmd.checks import CheckedCommand, RejectedCommand, check
from limpet.tools.shell_cmd.config import ShellCmdConfig
from limpet.tools.shell_cmd.executions import Execution, Executions
from limpet.tools.shell_cmd.report import Detail, Report, as_json, as_markdown, assistant_text, how_it_ended
from limpet.tools.shell_cmd.request import NAME, PARAMETERS, ShellCmdRequest, is_ai_command, read_request
from limpet.tools.tool import JsonObject
from limpet.tools.view import ScreenedTool, as_files_know, redacted
from limpet.workspace.audit import Call
from limpet.workspace.result import RunResult
from limpet.workspace.workspace import Workspace

_DESCRIPTION = (
    "Runs one program in the trusted working directory. Use it only when the user explicitly asks for a command to be run, never"
    " of your own accord. command is the program alone and parameters are its arguments, one for each; no shell reads them, so"
    " there is no chaining, no pipe, no redirection, no variable and no wildcard. Inline scripts (sh -c, python -c, node -e) and"
    " paths outside the trusted working directory are refused: write a script to a file there and run that. You get the exit"
    ' code and the first {preview} characters of each stream; ask for output_detail "full" only when all of it is needed.'
)


class ShellCmdTool(ScreenedTool):
    """`tools.tool.Tool`. `session` and `chat` say whose commands these are: a stop reaches them by that.

    Several tools may share one `executions`, so that what a session runs can be listed and stopped in one place. `on_event` gets
    `tool-stream` events while output arrives, and is awaited.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        session: str,
        chat: str | None = None,
        config: ShellCmdConfig | None = None,
        executions: Executions | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        super().__init__(workspace)
        self._session = session
        self._chat = chat
        self._config = config or ShellCmdConfig()
        self._executions = executions or Executions()
        self._on_event = on_event

    @property
    def name(self) -> str:
        return NAME

    @property
    def description(self) -> str:
        return _DESCRIPTION.format(preview=self._config.preview)

    @property
    def parameters(self) -> JsonObject:
        return PARAMETERS

    @property
    def executions(self) -> Executions:
        return self._executions

    def cancel(self, *, chat: str | None = None) -> int:
        """Stop what runs for this tool's session, or for one chat of it; returns how many commands that were."""
        return self._executions.cancel(session=self._session, chat=chat)

    async def call(self, arguments: Mapping[str, Any], *, call_id: str | None = None) -> JsonObject:
        """As the port says. A command that ran comes back by `output_format`: the JSON fields, or `{"markdown": text}`.

        An AI command adds `assistant_text` and `ends_turn`: that text is the answer to the user, and the turn is over; the rest is
        its record. Nothing is to be said where it was canceled.
        """
        view = self._view
        try:
            request = read_request(arguments, self._config)
        except BadArguments as error:
            await view.audit(NAME, error=str(error), call_id=call_id)
            return redacted(view, explained(error))
        try:
            checked = await check(view, request, self._config)
            result = await self._execute(view, request, checked, call_id)
        except RejectedCommand as rejected:
            await view.audit(
                NAME,
                command=request.line,
                error=str(rejected),
                verdict="denied",
                call_id=call_id,
            )
            result = rejected.result
        except EXPECTED as error:
            result = explained(error)
        return redacted(view, result)

    async def _execute(
        self, view: Workspace, request: ShellCmdRequest, checked: CheckedCommand, call_id: str | None
    ) -> JsonObject:
        execution = self._executions.queue(
            session=self._session,
            chat=self._chat,
            command=view.redactor.text(request.line),
            directory=view.redactor.text(checked.directory),
        )
        try:
            self._executions.advance(execution.id, "starting")
            result = await self._run(view, request, checked, execution, call_id)
        except anyio.get_cancelled_exc_class():
            self._executions.finish(execution.id, "canceled", error="Who called gave up waiting.")
            raise
        except Exception as error:
            self._executions.finish(execution.id, "failed", error=view.redactor.text(str(error)))
            raise
        status, _ = how_it_ended(result.outcome)
        self._executions.finish(
            execution.id,
            status,
            exit_code=result.exit_code if isinstance(result.outcome, Exited) else None,
            stdout_bytes=result.kept["stdout"].size,
            stderr_bytes=result.kept["stderr"].size,
        )
        return await self._answer(view, request, checked, execution, result)

    async def _run(
        self,
        view: Workspace,
        request: ShellCmdRequest,
        checked: CheckedCommand,
        execution: Execution,
        call_id: str | None,
    ) -> RunResult:
        live = LiveEvents(self._on_event, _events_of(execution, call_id))
        self._executions.advance(execution.id, "running")
        result = await view.run(
            (request.command, *request.parameters),
            cwd=checked.directory,
            timeout=request.timeout,
            on_stdout=live.callback("stdout"),
            on_stderr=live.callback("stderr"),
            abort=self._executions.abort_event(execution.id),
            call=Call(action=NAME, call_id=call_id),
        )
        if not isinstance(result.outcome, Aborted):
            await live.end()
        return result

    async def _answer(
        self,
        view: Workspace,
        request: ShellCmdRequest,
        checked: CheckedCommand,
        execution: Execution,
        result: RunResult,
    ) -> JsonObject:
        is_ai = is_ai_command(request.command, self._config.ai_commands)
        detail: Detail = "full" if is_ai else request.detail
        shown = {stream: await self._show(view, execution, result, stream, detail) for stream in STREAMS}
        report = Report(
            line=request.line,
            outcome=result.outcome,
            stdout=shown["stdout"],
            stderr=shown["stderr"],
            duration=result.duration,
            executed_at=execution.queued_at,
            detail=detail,
            artifacts=[
                await describe(view.files, as_files_know(view, path), shown=checked.scope.shown(path))
                for path in checked.artifacts
            ],
            notes=result.notes,
        )
        answer = as_json(report) if request.format == "json" else {"markdown": as_markdown(report)}
        if is_ai and not report.is_canceled:
            answer |= {"assistant_text": assistant_text(report), "ends_turn": True}
        return answer

    async def _show(
        self, view: Workspace, execution: Execution, result: RunResult, stream: Stream, detail: Detail
    ) -> OutputExcerpt:
        kept, name = result.kept[stream], f"{execution.id}-{stream}"
        if detail == "full":
            return await show_whole(view, kept, limit=self._config.most_output, name=name)
        return await with_file(view, kept, head(kept, self._config.preview), name=name)


def _events_of(execution: Execution, call_id: str | None) -> Build:
    def build(stream: Stream, text: str, sequence: int) -> ToolEvent:
        data = {"toolName": NAME, "content": text, "stream": stream, "messageId": call_id}
        return ToolEvent(type=TOOL_STREAM, data={**data, "sequence": sequence, "executionId": execution.id})

    return build

"""The tool `workspace__<name>__run`: a command in a workspace's shell, for a model (docs/library.md, "Tools for models")."""

from collections.abc import Mapping
from typing import Any

from limpet.core.command import STREAMS, Aborted, Exited, Lost, Outcome, Stream, TimedOut
from limpet.core.ids import new_id
from limpet.tools.arguments import BadArguments, read
from limpet.tools.events import STDERR, STDOUT, Build, LiveEvents, OnEvent, ToolEvent
from limpet.tools.failures import EXPECTED, explained
from limpet.tools.output import show_whole
from limpet.tools.tool import JsonObject
from limpet.tools.view import ScreenedTool, redacted
from limpet.workspace.audit import Call
from limpet.workspace.names import tool_name
from limpet.workspace.result import RunResult
from limpet.workspace.workspace import Workspace

MOST_OUTPUT = 64 << 10  # bytes a stream in a result
LONGEST_TIMEOUT = 7 * 24 * 3_600_000  # milliseconds
_EXAMPLE = {"command": "ls -la", "timeoutMs": 30000}
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "A script for the shell, as after its option -c."},
        "cwd": {"type": "string", "description": "The directory to run it in. Default: the working directory."},
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Environment variables beside those that are there.",
        },
        "timeoutMs": {
            "type": "number",
            "description": "Milliseconds after which it is killed with all that it started.",
        },
    },
    "required": ["command"],
    "additionalProperties": False,
}


class RunTool(ScreenedTool):
    """`tools.tool.Tool`. `on_event` gets `workspace_stdout` and `workspace_stderr` while output arrives, and is awaited."""

    def __init__(self, workspace: Workspace, name: str, *, on_event: OnEvent | None = None) -> None:
        super().__init__(workspace)
        self._name = name
        self._on_event = on_event

    @property
    def name(self) -> str:
        return tool_name(self._name, "run")

    @property
    def description(self) -> str:
        longest = self._workspace.max_duration
        limit = f" A command is stopped after {longest:g} seconds." if longest is not None else ""
        hint = " (POSIX sh; there is no bash)" if self._workspace.ref.shell.endswith("/sh") else ""
        network = f" {note}" if (note := self._workspace.network_note) else ""
        return (
            f"Runs a shell command{hint} to its end and gives back stdout, stderr, exitCode and durationMs. Each command is a fresh"
            f" shell in {self._workspace.directory}; files stay from call to call, the working directory and variables do not.{limit}"
            f" There is no standard input: use flags that avoid prompts. You see at most {MOST_OUTPUT // 1024} KiB of a stream, its head"
            f" and tail; the result names a file with all of it.{network}"
        )

    @property
    def parameters(self) -> JsonObject:
        return _PARAMETERS

    async def call(self, arguments: Mapping[str, Any], *, call_id: str | None = None) -> JsonObject:
        """`{"stdout", "stderr", "exitCode", "durationMs"}` of a command that ran, and only where there is something to say:
        `timedOut`, `aborted`, `lost` (why); `stdoutBytes` and `stdoutFile` (and stderr's) where the text is not all of it, or was no
        UTF-8; `notes`, sentences on limits that it ran into; `callbackErrors`, how many events could not be delivered."""
        view = self._view
        try:
            given = read(arguments, tool=self.name, names=tuple(_PARAMETERS["properties"]), example=_EXAMPLE)
            milliseconds = given.number("timeoutMs", least=1, most=LONGEST_TIMEOUT)
            live = LiveEvents(self._on_event, self._events(call_id))
            result = await view.run(
                given.text("command"),
                cwd=given.optional_text("cwd"),
                env=given.text_map("env"),
                timeout=None if milliseconds is None else milliseconds / 1000,
                on_stdout=live.callback("stdout"),
                on_stderr=live.callback("stderr"),
                call=Call(action="run", call_id=call_id),
            )
            failed = await live.end()
            answer = await _answer(view, result, undelivered=len(result.callback_errors) + (failed is not None))
        except EXPECTED as error:
            if isinstance(error, BadArguments):  # nothing that could be judged: the others are on record already
                await view.audit("run", error=str(error), call_id=call_id)
            answer = explained(error)
        return redacted(view, answer)

    def _events(self, call_id: str | None) -> Build:
        types: dict[Stream, str] = {"stdout": STDOUT, "stderr": STDERR}

        def build(stream: Stream, text: str, sequence: int) -> ToolEvent:
            told = {"workspace": self._name, "callId": call_id, "sequence": sequence, "text": text}
            return ToolEvent(type=types[stream], data={**told, "time": self._workspace.clock.now() // 1000})

        return build


async def _answer(view: Workspace, result: RunResult, *, undelivered: int) -> JsonObject:
    name = new_id("out")
    shown = {
        stream: await show_whole(view, result.kept[stream], limit=MOST_OUTPUT, name=f"{name}-{stream}")
        for stream in STREAMS
    }
    answer: JsonObject = {
        "stdout": shown["stdout"].text,
        "stderr": shown["stderr"].text,
        "exitCode": result.exit_code,
        "durationMs": round(result.duration * 1000),
    }
    answer |= _ending(result.outcome)
    for stream, part in shown.items():
        if part.left_out or not part.is_text:
            answer[f"{stream}Bytes"] = part.size
        if part.file is not None:
            answer[f"{stream}File"] = part.file
    if result.notes:
        answer["notes"] = list(result.notes)
    if undelivered:
        answer["callbackErrors"] = undelivered
    return answer


def _ending(outcome: Outcome) -> JsonObject:
    match outcome:
        case Exited():
            return {}
        case TimedOut():
            return {"timedOut": True}
        case Aborted():
            return {"aborted": True}
        case Lost(reason):
            return {"lost": reason}

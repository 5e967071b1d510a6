"""Events that a tool emits while a command runs, awaited one by one: a slow receiver slows the command down (backpressure)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from limpet.core.command import Stream
from limpet.guard.output import Decoder
from limpet.tools.tool import JsonObject

STDOUT = "workspace_stdout"
STDERR = "workspace_stderr"
TOOL_STREAM = "tool-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEvent:
    """`type` and a payload of JSON values.

    `workspace_stdout` and `workspace_stderr` (the run tool, `Bash`) carry `workspace`, `callId`, `sequence` (one counter for both
    streams of a call, from 0), `text` (whole characters), `time` (milliseconds since 1970) and, where a call of `Bash` has one,
    its `description`. `tool-stream` (shell_cmd) carries `toolName`, `content`, `stream`, `messageId` (the call's id), `sequence`
    and `executionId`.
    """

    type: str
    data: JsonObject


OnEvent = Callable[[ToolEvent], Awaitable[None]]
Build = Callable[[Stream, str, int], ToolEvent]


class LiveEvents:
    """The output of one command as events. `build` makes one of a stream, a text and a sequence number."""

    def __init__(self, on_event: OnEvent | None, build: Build) -> None:
        self._on_event = on_event
        self._build = build
        self._decoders: dict[Stream, Decoder] = {"stdout": Decoder(), "stderr": Decoder()}
        self._sequence = 0

    def callback(self, stream: Stream) -> Callable[[bytes], Awaitable[None]] | None:
        """What `Workspace.run` awaits for each chunk; None where events have no receiver."""
        if self._on_event is None:
            return None

        async def take(data: bytes) -> None:
            await self._tell(stream, self._decoders[stream].feed(data).text)

        return take

    async def end(self) -> Exception | None:
        """Tell what a broken last character leaves. Returns what the listener raised."""
        try:
            for stream, decoder in self._decoders.items():
                await self._tell(stream, decoder.end().text)
        except Exception as error:  # noqa: BLE001 - the listener's own code; told like the errors that it raised before
            return error
        return None

    async def _tell(self, stream: Stream, text: str) -> None:
        if not text or self._on_event is None:
            return
        event = self._build(stream, text, self._sequence)
        self._sequence += 1
        await self._on_event(event)

"""A command of `Bash` that runs to its end in the session's directory, which it may change."""

from collections.abc import Mapping

from limpet.core.command import Stream
from limpet.core.errors import WorkingDirectoryMissing
from limpet.guard.policy.environment import NON_INTERACTIVE
from limpet.tools.bash.config import BashConfig
from limpet.tools.bash.output import without_mark
from limpet.tools.bash.results import ResultBuilder
from limpet.tools.bash.schema import BashRequest
from limpet.tools.bash.shell_markers import MarkedScript, UnmarkedOutput, asking
from limpet.tools.bash.working_directory import WorkingDirectory
from limpet.tools.events import STDERR, STDOUT, Build, LiveEvents, OnEvent, ToolEvent
from limpet.tools.tool import JsonObject
from limpet.workspace.audit import Call
from limpet.workspace.result import RunResult
from limpet.workspace.workspace import Workspace


class ForegroundCommand:
    """Runs the commands of one session."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        config: BashConfig,
        place: WorkingDirectory,
        speaker: ResultBuilder,
        on_event: OnEvent | None = None,
    ) -> None:
        self._workspace = workspace
        self._on_event = on_event
        self._config = config
        self._place = place
        self._speaker = speaker
        self.environment: Mapping[str, str] = {**NON_INTERACTIVE, **config.environment}

    async def run(self, request: BashRequest, where: str, call_id: str | None) -> JsonObject:
        """Run it in `where` and answer. Cancelling kills it, whole tree. Raises what `Workspace.run` raises."""
        asked = asking(request.command or "", self._config.shell, box_shell=self._workspace.ref.shell)
        notes: list[str] = []
        try:
            result = await self._once(request, asked, where, call_id)
        except WorkingDirectoryMissing:
            if request.cwd is not None or not self._place.is_away:
                raise
            notes.append(self._place.fall_back())
            where = self._place.current
            result = await self._once(request, asked, where, call_id)
        stdout, _ = without_mark(result.kept["stdout"], None)
        stderr, told = without_mark(result.kept["stderr"], asked.mark)
        moved = self._place.go(where, told)
        notes += [note for note in (moved, self._shortened(request)) if note]
        answer = await self._speaker.ran(request, result, where, stdout=stdout, stderr=stderr, notes=tuple(notes))
        return answer | ({"next_cwd": self._place.current} if self._place.current != where else {})

    async def _once(self, request: BashRequest, asked: MarkedScript, where: str, call_id: str | None) -> RunResult:
        call = Call(
            action="run",
            description=request.description,
            call_id=call_id,
            judged=request.command,
            stderr_bytes=lambda kept: without_mark(kept, asked.mark)[0].size,
        )
        live = LiveEvents(_without(asked.mark, self._on_event), self._events(request, call_id))
        result = await self._workspace.run(
            asked.what,
            cwd=None if where == self._workspace.directory else where,  # its own is not looked up again
            env=self._environment(asked, where),
            stdin=request.input if request.talks else None,
            timeout=request.timeout or self._config.timeout_default,
            on_stdout=live.callback("stdout"),
            on_stderr=live.callback("stderr"),
            call=call,
        )
        await live.end()
        return result

    def _environment(self, asked: MarkedScript, where: str) -> Mapping[str, str]:
        """As in one shell, `cd -` goes back to where the session was before it moved. A plain program does not need it."""
        before = self._place.current if where != self._place.current else self._place.previous
        if before is None or asked.mark is None:
            return self.environment
        return {"OLDPWD": before, **self.environment}

    def _events(self, request: BashRequest, call_id: str | None) -> Build:
        types: dict[Stream, str] = {"stdout": STDOUT, "stderr": STDERR}
        named: JsonObject = {"workspace": self._workspace.name, "callId": call_id}
        if request.description:
            named["description"] = self._workspace.redactor.text(request.description)

        def build(stream: Stream, text: str, sequence: int) -> ToolEvent:
            told = {**named, "sequence": sequence, "text": text, "time": self._workspace.clock.now() // 1000}
            return ToolEvent(type=types[stream], data=told)

        return build

    def _shortened(self, request: BashRequest) -> str | None:
        longest = self._workspace.max_duration
        if longest is None or request.timeout is None or request.timeout <= longest:
            return None
        return f"timeout {request.timeout:g} is more than this workspace allows; {longest:g} seconds were used."


def _without(mark: str | None, on_event: OnEvent | None) -> OnEvent | None:
    """The listener, spared what a shell tells of itself at the end of standard error."""
    if mark is None or on_event is None:
        return on_event
    unmarked = UnmarkedOutput(mark)

    async def listen(event: ToolEvent) -> None:
        if event.type == STDERR:
            text = unmarked.feed(event.data["text"])
            event = ToolEvent(type=event.type, data={**event.data, "text": text})
        if event.data["text"]:
            await on_event(event)

    return listen

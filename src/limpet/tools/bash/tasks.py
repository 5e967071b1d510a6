"""One background task: its output in ring buffers, its end and its notifications. `background` starts and ends it."""

import logging
from dataclasses import dataclass, field

import anyio

from limpet.core import exit_codes
from limpet.core.clock import Clock
from limpet.core.command import STREAMS, Aborted, Chunk, Exited, Lost, Outcome, Stream, TimedOut
from limpet.core.errors import SandboxError
from limpet.core.ports import Process
from limpet.guard.output import Decoder, head_and_tail
from limpet.tools.bash.config import BashConfig
from limpet.tools.bash.line_buffer import LineBuffer
from limpet.tools.bash.line_matcher import LineMatcher
from limpet.tools.bash.notifications import NotificationQueue, Status
from limpet.tools.bash.prompts import Prompt, find_prompt
from limpet.tools.bash.shell_markers import MarkerReader
from limpet.tools.tool import JsonObject

STATUS_LINES = 50
PREVIEW_LINES = 5
LAST_LINES = 20
PREVIEW = 4_000  # characters
SURVIVES_END = 1.0  # seconds that what holds a task may live on after telling its end

log = logging.getLogger("limpet.tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a task from its start on; texts are screened."""

    id: str
    command: str
    description: str
    cwd: str
    started_at: str
    session: str
    on_terminal: bool


@dataclass(slots=True)
class _Stream:
    """One stream on its way: decoded, freed of marks, in its ring."""

    ring: LineBuffer
    marks: MarkerReader | None
    decoder: Decoder = field(default_factory=Decoder)

    def take(self, data: bytes) -> list[str]:
        text = self.decoder.feed(data).text
        return self.ring.feed(text if self.marks is None else self.marks.feed(text))

    def end(self) -> None:
        text = self.decoder.end().text
        self.ring.feed(text if self.marks is None else self.marks.feed(text) + self.marks.rest())


class Task:
    """A task. `carry` follows it to its end; everything else may be asked at any time."""

    def __init__(
        self, facts: Facts, *, config: BashConfig, mark: str, clock: Clock, notices: NotificationQueue
    ) -> None:
        self.facts = facts
        self.ended = anyio.Event()
        self.told_pid = anyio.Event()
        self.told_end = anyio.Event()
        self.ended_at: float | None = None
        self.outcome: Outcome | None = None
        self.is_being_killed = False
        self._waiters = 0
        self._config = config
        self._clock = clock
        self._begun = clock.monotonic()
        self._notices = notices
        self._marks = MarkerReader(mark)
        tells: Stream = "stdout" if facts.on_terminal else "stderr"
        self._streams = {
            name: _Stream(LineBuffer(config.max_output_lines), self._marks if name == tells else None)
            for name in STREAMS
        }
        self._matchers: list[LineMatcher] = []
        self._matched: list[str] = []
        self._matched_now = anyio.Event()
        self._streamed = 0

    @property
    def is_running(self) -> bool:
        return self.outcome is None

    @property
    def pid(self) -> int | None:
        return self._marks.pid

    @property
    def exit_code(self) -> int | None:
        """As a shell reports it; None while it runs."""
        match self.outcome:
            case None:
                return None
            case TimedOut():
                return exit_codes.TIMED_OUT
            case Lost():
                return exit_codes.LOST
            case Exited(code):
                return code if self._marks.end is None else self._marks.end
            case Aborted():
                return exit_codes.KILLED if self._marks.end is None else self._marks.end

    @property
    def uptime(self) -> float:
        """Seconds from its start to its end, or to now."""
        return (self._clock.monotonic() if self.ended_at is None else self.ended_at) - self._begun

    def ring(self, stream: Stream) -> LineBuffer:
        return self._streams[stream].ring

    def prompt(self) -> Prompt | None:
        """The question that it seems to wait at."""
        if not self.is_running:
            return None
        tails = (self.ring(stream).open_line or self.ring(stream).tail(1) for stream in ("stderr", "stdout"))
        return find_prompt(*(tail for tail in tails if tail))

    def stream(self, matcher: LineMatcher) -> None:
        """Report lines that the matcher picks from now on; a pattern that is given twice reports once."""
        if all(matcher.pattern != known.pattern for known in self._matchers):
            self._matchers.append(matcher)

    async def wait(self, most: float) -> None:
        """Wait until it has ended, at most so many seconds. The caller sees the end itself, so no notification of it is sent."""
        self._waiters += 1
        try:
            with anyio.move_on_after(most):
                await self.ended.wait()
        finally:
            self._waiters -= 1

    async def carry(self, process: Process) -> None:
        """Follow the task to its end and send a notification of it, unless a call waits for it or killed it."""
        try:
            await self._follow_to_end(process)
        except Exception:  # whatever one task meets, the others of its session go on
            log.exception("The background task %s could not be followed.", self.facts.id)
            self.outcome = Lost("It could not be followed to its end.")
        for stream in self._streams.values():
            stream.end()
        self.ended_at = self._clock.monotonic()
        self._put_matches()
        self.told_pid.set()
        if not self._waiters and not self.is_being_killed:
            self.tell("completed" if self.exit_code == 0 else "failed")
        self.told_end.set()
        self.ended.set()

    async def _follow_to_end(self, process: Process) -> None:
        async with anyio.create_task_group() as watchers:
            watchers.start_soon(self._report_progress)
            watchers.start_soon(self._tell_matches)
            watchers.start_soon(self._end_what_holds, process)
            await self._follow(process)
            self.outcome = await process.wait()
            watchers.cancel_scope.cancel()

    def tell(self, status: Status, **facts: object) -> bool:
        """Queue a notification about it."""
        last = status in ("completed", "failed", "cancelled")
        notice: JsonObject = {
            "task_id": self.facts.id,
            "tool_name": "Bash",
            "status": status,
            "command": self.facts.command,
            "description": self.facts.description,
            "session_id": self.facts.session,
            "elapsed_seconds": round(self.uptime, 1),
            "result_preview": self._preview(LAST_LINES if last else PREVIEW_LINES),
            "hint": f'Bash(task_id="{self.facts.id}") shows its output.',
        }
        if last:
            notice["exit_code"] = self.exit_code
        return self._notices.put({**notice, **facts})

    def _preview(self, lines: int) -> str:
        out = self.ring("stdout").tail(lines)
        error = self.ring("stderr").tail(max(1, lines // 2))
        return head_and_tail(out + error, PREVIEW)

    async def _follow(self, process: Process) -> None:
        try:
            async for chunk in process.output():
                self._take(chunk)
                await anyio.lowlevel.checkpoint()
        except SandboxError:
            return  # wait() says the same as an outcome

    def _take(self, chunk: Chunk) -> None:
        lines = self._streams[chunk.stream].take(chunk.data)
        if self.pid is not None:
            self.told_pid.set()
        if self._marks.end is not None:
            self.told_end.set()
        picked = [line for line in lines if self._is_picked(line)]
        if picked:
            self._matched += picked
            self._matched_now.set()

    def _is_picked(self, line: str) -> bool:
        return sum(matcher.picks(line) for matcher in self._matchers) > 0

    async def _end_what_holds(self, process: Process) -> None:
        """Abort a holding shell that is still there `SURVIVES_END` seconds after it reported the task's end.

        After a SIGTERM that shell stops itself, so that the SIGKILL which `kill` sends next finds the whole tree below it. A SIGTERM
        that the task sent to its own group is followed by no kill.
        """
        await self.told_end.wait()
        with anyio.move_on_after(SURVIVES_END):
            await process.wait()
            return
        try:
            await process.abort()
        except SandboxError:
            return  # wait() says the same as an outcome

    async def _tell_matches(self) -> None:
        while True:
            await self._matched_now.wait()
            self._matched_now = anyio.Event()
            self._put_matches()
            await anyio.sleep(self._config.stream_every)

    def _put_matches(self) -> None:
        """One notification with all lines since the last one; past the bound of a task none any more, and the last says so."""
        lines, self._matched = self._matched, []
        if not lines or self._streamed >= self._config.stream_most or not self._notices.is_heard:
            return
        self._streamed += 1
        hint = f"{len(lines)} matching lines of {self.ring('stdout').totals.lines + self.ring('stderr').totals.lines} so far."
        if self._streamed == self._config.stream_most:
            hint += f' It is the last notification of this kind for this task; Bash(task_id="{self.facts.id}") shows the rest.'
        shown = head_and_tail("\n".join(lines), PREVIEW)
        self.tell("progress", result_preview=shown, matched_lines=len(lines), hint=hint)

    async def _report_progress(self) -> None:
        """At the configured times, while it printed since the last time; and once, when it stands still at a question."""
        seen, hung = 0, False
        for number, pause in enumerate(self._pauses()):
            await anyio.sleep(pause)
            now = sum(self.ring(stream).totals.bytes for stream in STREAMS)
            if now != seen:
                seen = now
                self.tell("progress")
            elif number and not hung and (prompt := self.prompt()) is not None:
                hung = self.tell("hang_detected", hang_directive=asks_for_input(prompt, self.facts.id))

    def _pauses(self) -> "Pauses":
        return Pauses(self._config.progress_at, self._config.progress_every)


class Pauses:
    """The seconds between one look at a task and the next, without end."""

    def __init__(self, times: tuple[float, ...], every: float) -> None:
        self._steps = [after - before for before, after in zip((0.0, *times), times, strict=False)]
        self._every = every

    def __iter__(self) -> "Pauses":
        return self

    def __next__(self) -> float:
        return self._steps.pop(0) if self._steps else self._every


def asks_for_input(prompt: Prompt, task_id: str) -> str:
    """The hint for a model about a running task that waits at a prompt."""
    return (
        f'It waits at {prompt.line!r}. Answer with Bash(task_id="{task_id}", stdin_text="…"), or end it with'
        f' Bash(task_id="{task_id}", kill=true) and start it so that it does not ask: {prompt.remedy}.'
    )

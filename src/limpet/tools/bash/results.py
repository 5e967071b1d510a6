"""What `Bash` answers: JSON objects whose texts are screened. Asks tasks and results, changes nothing but writing what is too long."""

from limpet.core.command import STREAMS, Aborted, Lost, Outcome, Stream, TimedOut
from limpet.guard.output import head_and_tail
from limpet.tools.bash.config import BashConfig
from limpet.tools.bash.exit_codes import exit_code_meaning
from limpet.tools.bash.output import WholeOutput, present
from limpet.tools.bash.prompts import find_prompt, hang_directive
from limpet.tools.bash.schema import BashRequest
from limpet.tools.bash.tasks import STATUS_LINES, Task, asks_for_input
from limpet.tools.tool import JsonObject
from limpet.workspace.result import KeptOutput, RunResult
from limpet.workspace.workspace import Workspace


class ResultBuilder:
    """Makes the results of one session."""

    def __init__(self, workspace: Workspace, config: BashConfig, *, is_heard: bool) -> None:
        self._workspace = workspace
        self._is_heard = is_heard
        self._config = config

    def nothing(self, request: BashRequest, cwd: str) -> JsonObject:
        """What every result has, of a call that ran nothing."""
        return {
            "stdout": "",
            "stderr": "",
            "exit_code": None,
            "duration": 0.0,
            "cwd": self._screened(cwd),
            "command": self._screened(request.command or ""),
        }

    async def ran(
        self,
        request: BashRequest,
        result: RunResult,
        cwd: str,
        *,
        stdout: WholeOutput,
        stderr: WholeOutput,
        notes: tuple[str, ...],
    ) -> JsonObject:
        """Of a command that ran to its end."""
        answer = self.nothing(request, cwd)
        answer |= await self._streams({"stdout": stdout, "stderr": stderr})
        answer |= {"exit_code": result.exit_code, "duration": round(result.duration, 3)}
        answer |= _ended(result.outcome)
        answer |= self._advice(result.exit_code, request.command or "", answer)
        said = (*request.notes, *notes, *(f"{note[:1].upper()}{note[1:]}" for note in result.notes))
        return answer | ({"notes": [self._screened(note) for note in said]} if said else {})

    async def task(self, task: Task, request: BashRequest, *, whole: bool) -> JsonObject:
        """Of a background task: all that is kept (`whole`), or its last lines."""
        totals = {stream: task.ring(stream).totals for stream in STREAMS}
        answer: JsonObject = {
            "task_id": task.facts.id,
            "pid": task.pid,
            "started_at": task.facts.started_at,
            "is_running": task.is_running,
            "uptime_seconds": round(task.uptime, 1),
            "stdout": "",
            "stderr": "",
            "exit_code": task.exit_code,
            "duration": round(task.uptime, 3),
            "cwd": self._screened(task.facts.cwd),
            "command": task.facts.command,
        }
        answer |= await self._kept(task) if whole else self._newest(task)
        for stream in STREAMS:
            answer[f"{stream}_lines"] = totals[stream].lines
            answer[f"{stream}_bytes"] = totals[stream].bytes
            answer[f"{stream}_dropped_lines"] = totals[stream].dropped_lines
        if task.outcome is not None:
            answer |= _ended(task.outcome)
            answer |= {} if task.is_being_killed else self._advice(task.exit_code, task.facts.command, answer)
        elif (prompt := task.prompt()) is not None:
            answer["hang_directive"] = asks_for_input(prompt, task.facts.id)
        answer["next"] = what_next(task)
        notes = [*request.notes, *_without_effect(request)]
        if request.stream and not self._is_heard:
            notes.append("This session has no receiver for notifications, so none come; poll it instead.")
        if request.wait and task.is_running:
            notes.append(
                f"It still runs: the wait of {request.timeout or self._config.timeout_default:g} seconds is over."
            )
        return answer | ({"notes": notes} if notes else {})

    def _newest(self, task: Task) -> JsonObject:
        answer: JsonObject = {}
        for stream in STREAMS:
            ring = task.ring(stream)
            answer[stream] = head_and_tail(ring.tail(STATUS_LINES), self._config.inline)
            answer[f"{stream}_shown_lines"] = min(STATUS_LINES, ring.totals.lines - ring.totals.dropped_lines)
        return answer

    async def _kept(self, task: Task) -> JsonObject:
        texts: dict[Stream, WholeOutput] = {}
        for stream in STREAMS:
            kept = KeptOutput()
            kept.add(task.ring(stream).tail().encode())
            texts[stream] = WholeOutput(kept)
        return await self._streams(texts)

    async def _streams(self, wholes: "dict[Stream, WholeOutput]") -> JsonObject:
        answer: JsonObject = {}
        for stream, whole in wholes.items():
            answer |= await present(self._workspace, self._config.spill, stream, whole, inline=self._config.inline)
        return answer

    def _advice(self, code: int | None, command: str, answer: JsonObject) -> JsonObject:
        """Advice on an exit code that is not 0, and on a prompt that was not answered."""
        advice: JsonObject = {}
        if (meaning := exit_code_meaning(code, command, answer["stderr"])) is not None:
            advice["exit_code_meaning"] = meaning
        if code != 0 and (prompt := find_prompt(answer["stderr"], answer["stdout"])) is not None:
            advice["hang_directive"] = hang_directive(prompt)
        return advice

    def _screened(self, text: str) -> str:
        return self._workspace.redactor.text(text)


def _ended(outcome: Outcome) -> JsonObject:
    match outcome:
        case TimedOut():
            return {"timed_out": True}
        case Aborted():
            return {"killed": True}
        case Lost(reason):
            return {"lost": reason}
        case _:
            return {}


def _without_effect(request: BashRequest) -> list[str]:
    """What was given to a task and says nothing about it."""
    if request.task_id is None:
        return []
    idle = [name for name, given in (("cwd", request.cwd is not None), ("pty", request.pty)) if given]
    if request.timeout is not None and not request.wait:
        idle.append("timeout")
    return [f"{name} has no effect on a task that was started before." for name in idle]


def what_next(task: Task) -> str:
    """In words, what can be done with it: these parameters are not in the schema."""
    call = f'Bash(task_id="{task.facts.id}"'
    if not task.is_running:
        return f"It has ended. {call}) shows its last lines again, {call}, wait=true) all that is kept."
    return (
        f"Poll: {call}). Wait for its end: {call}, wait=true, timeout=60). End it: {call}, kill=true)."
        f' Send a line to its stdin: {call}, stdin_text="yes"); end its input: {call}, close_stdin=true).'
        f' Be told of matching lines: {call}, stream=true, stream_pattern="ERROR|WARN").'
    )

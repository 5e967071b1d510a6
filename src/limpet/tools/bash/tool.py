"""The tool `Bash` over one workspace, for one session (docs/bash-tool.md). `modes` decides which mode a call is in; this file runs it."""

import json
import posixpath
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from limpet.core.errors import FileError, FileMissing, LimpetError, NotADirectory
from limpet.guard.policy.policy import Policy
from limpet.tools.arguments import BadArguments
from limpet.tools.bash.background import ENDING, BackgroundTasks, InputNotTaken, Start, TooManyTasks
from limpet.tools.bash.config import BashConfig, shell_config_from
from limpet.tools.bash.foreground import ForegroundCommand
from limpet.tools.bash.line_matcher import LineMatcher, PatternRefused
from limpet.tools.bash.modes import ModeRefused, mode_of
from limpet.tools.bash.notifications import NotificationQueue, Notify
from limpet.tools.bash.results import ResultBuilder
from limpet.tools.bash.schema import EXAMPLE, NAME, BashRequest, described, described_in, parameters, read_request
from limpet.tools.bash.tasks import Task
from limpet.tools.bash.working_directory import OutsideRoots, WorkingDirectory
from limpet.tools.events import OnEvent
from limpet.tools.failures import explained
from limpet.tools.tool import JsonObject, failure
from limpet.tools.view import as_files_know, redacted, screened
from limpet.workspace.audit import Call, Judgement
from limpet.workspace.workspace import Workspace

_ENDING = 5.0  # seconds that a task gets to end when its time is over
NOTIFYING = 2.0  # seconds that the last notifications may take


class BashTool:
    """`Bash`: run a command to its end or in the background, and status, kill, stdin, wait, stream of background tasks.

    One object is one session: its working directory and its background tasks are its own. Background tasks need
    `async with`, whose end ends them (`cleanup_session`); commands that run to their end do not. `notify` gets what is told of
    tasks, one at a time; what it raises is in `notify_errors`. `on_event` gets `workspace_stdout` and `workspace_stderr`, as of the
    run tool, while a command that runs to its end prints; it is awaited, and what it raises changes nothing.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        session: str = "",
        config: BashConfig | None = None,
        notify: Notify | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        # Without any policy the platform's own refusals hold, as they do under a configuration block.
        self._workspace = screened(workspace if workspace.policies else workspace.guarded(policy=Policy()))
        self._config = config or BashConfig()
        self._notices = NotificationQueue(notify)
        self._place = WorkingDirectory(workspace.directory, home=workspace.places.home, roots=roots_of(workspace))
        self._background = BackgroundTasks(
            self._workspace, session=session or workspace.session, config=self._config, notices=self._notices
        )
        self._speaker = ResultBuilder(self._workspace, self._config, is_heard=notify is not None)
        self._sync = ForegroundCommand(
            self._workspace, config=self._config, place=self._place, speaker=self._speaker, on_event=on_event
        )
        self._stack = AsyncExitStack()
        self._carriers: TaskGroup | None = None

    @classmethod
    def configured(
        cls,
        workspace: Workspace,
        block: Mapping[str, Any],
        *,
        session: str = "",
        notify: Notify | None = None,
        on_event: OnEvent | None = None,
    ) -> Self:
        """The tool under a configuration block (docs/bash-tool.md, "Configuration"). Raises ConfigInvalid."""
        read = shell_config_from(block, workdir=workspace.directory)
        guarded = workspace.guarded(policy=read.policy, redaction=read.redaction)
        return cls(guarded, session=session, config=read.bash, notify=notify, on_event=on_event)

    @property
    def name(self) -> str:
        return NAME

    @property
    def description(self) -> str:
        shell = posixpath.basename(self._workspace.ref.shell)
        return described(self._config, self._workspace.directory, self._workspace.network_note, shell=shell)

    @property
    def parameters(self) -> JsonObject:
        return parameters()

    @property
    def notify_errors(self) -> tuple[Exception, ...]:
        """What `notify` raised; the first sixteen."""
        return tuple(self._notices.errors)

    async def __aenter__(self) -> Self:
        self._carriers = await self._stack.enter_async_context(anyio.create_task_group())
        self._carriers.start_soon(self._notices.serve)
        return self

    async def __aexit__(self, *exc: object) -> bool | None:
        self._carriers = None
        await self.cleanup_session()
        self._background.abandon()
        self._notices.stop()
        return await self._stack.__aexit__(*exc)  # type: ignore[arg-type]  # what it was called with

    async def cleanup_session(self) -> int:
        """End every background task, whole tree: SIGTERM, two seconds, SIGKILL; each is told as cancelled, once. Also when the
        caller is being cancelled. Returns how many there were. Runs by itself at the end of `async with`."""
        ended: list[Task] = []
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(ENDING):
                ended = await self._background.end_all()
            for task in ended:
                await self._audit(
                    "cancel", BashRequest(task_id=task.facts.id), None, task=task, error="The session ended."
                )
            with anyio.move_on_after(NOTIFYING):
                await self._notices.flush()
        return len(ended)

    async def call(self, arguments: Mapping[str, Any], *, call_id: str | None = None) -> JsonObject:
        """See `Tool.call`. Every result has stdout, stderr, exit_code, duration, cwd and command (docs/bash-tool.md)."""
        request = BashRequest()
        answer: JsonObject
        try:
            request = read_request(arguments)
            answer = await self._do(request, call_id)
        except BadArguments as error:
            request = BashRequest(description=described_in(arguments))
            await self._audit("invalid", request, call_id, error=str(error), verdict="denied")
            answer = self._failed(request, error)
        except LimpetError as error:  # of what was to run: the workspace has put it on record
            answer = self._failed(request, error)
        return answer

    async def _do(self, request: BashRequest, call_id: str | None) -> JsonObject:
        doing = mode_of(request)
        if isinstance(doing, ModeRefused):
            message = f"{NAME}: {doing.problem}. Example: {json.dumps(EXAMPLE)}"
            return await self._refuse(request, call_id, "invalid_arguments", message)
        if doing == "run":
            return await self._run(request, call_id)
        if doing == "start":
            return await self._start(request, call_id)
        task = self._background.find(request.task_id or "")
        if task is None:
            return await self._refuse(request, call_id, "unknown_task", self._unknown(request.task_id))
        return await self._with_task(doing, task, request, call_id)

    async def _run(self, request: BashRequest, call_id: str | None) -> JsonObject:
        request, where = await self._placed(request)
        if isinstance(where, OutsideRoots):
            return await self._refuse(request, call_id, "outside", where.problem)
        return await self._sync.run(request, where, call_id)

    async def _placed(self, request: BashRequest) -> tuple[BashRequest, str | OutsideRoots]:
        """Where it runs. A session whose directory is gone starts over, which the request notes."""
        if request.cwd is None and self._place.is_away and await self._is_gone(self._place.current):
            request = replace(request, notes=(*request.notes, self._place.fall_back()))
        return request, self._place.resolve(request.cwd)

    async def _is_gone(self, directory: str) -> bool:
        try:
            found = await self._workspace.files.stat(as_files_know(self._workspace, directory))
        except (FileMissing, NotADirectory):
            return True
        except FileError:
            return False  # out of reach of the files: running there tells
        return found.kind != "directory"

    async def _start(self, request: BashRequest, call_id: str | None) -> JsonObject:
        request, where = await self._placed(request)
        if isinstance(where, OutsideRoots):
            return await self._refuse(request, call_id, "outside", where.problem)
        if self._carriers is None:
            return await self._refuse(request, call_id, "not_open", NOT_OPEN)
        try:
            matcher = LineMatcher(request.pattern) if request.stream else None
        except PatternRefused as error:
            return await self._refuse(request, call_id, "invalid_pattern", _bad_pattern(request, error))
        asked = Start(
            command=request.command or "",
            cwd=where,
            env=self._sync.environment,
            timeout=request.timeout,
            on_terminal=request.pty,
            call=Call(action="start", description=request.description, call_id=call_id, judged=request.command),
        )
        try:
            task = await self._background.start(asked, self._carriers, matcher)
            if request.talks and task.is_running:
                await self._background.send(task, request.input, close=request.close_stdin)
        except TooManyTasks as error:
            return await self._refuse(request, call_id, "too_many_tasks", str(error))
        except InputNotTaken as error:
            request = replace(request, notes=(*request.notes, str(error)))
        if request.wait:
            await task.wait(self._patience(request))
        return await self._speaker.task(task, request, whole=not task.is_running)

    async def _with_task(self, doing: str, task: Task, request: BashRequest, call_id: str | None) -> JsonObject:
        problem: tuple[str, str] | None = None
        try:
            if doing == "kill":
                await self._background.end(task)
            elif doing == "talk":
                problem = await self._talk(task, request)
        except LimpetError as error:
            problem = "unavailable", error.message
        if problem is not None:
            return await self._refuse(request, call_id, problem[0], problem[1], task=task)
        await self._audit(_action(doing, request), request, call_id, task=task)
        return await self._speaker.task(task, request, whole=doing == "kill" or request.wait)

    async def _talk(self, task: Task, request: BashRequest) -> tuple[str, str] | None:
        """Stream, send, wait, where asked for. Returns the code and the sentence of what cannot be done."""
        try:
            matcher = LineMatcher(request.pattern) if request.stream else None
        except PatternRefused as error:
            return "invalid_pattern", _bad_pattern(request, error)
        if request.talks and not task.is_running:
            return (
                "task_ended",
                f"Task {task.facts.id} has ended with exit code {task.exit_code} and reads no input. Start it again.",
            )
        if matcher is not None:
            task.stream(matcher)
        if request.talks:
            try:
                await self._background.send(task, request.input, close=request.close_stdin)
            except InputNotTaken as error:
                return "input_not_taken", str(error)
        if request.wait:
            await task.wait(self._patience(request))
        return None

    def _patience(self, request: BashRequest) -> float:
        """How long to wait for a task; one that this call starts is ended itself when its time is over."""
        asked = request.timeout or self._config.timeout_default
        return asked if request.task_id is not None else asked + _ENDING

    def _unknown(self, task_id: str | None) -> str:
        known = self._background.known()[:5]
        hint = f"This session's newest: {', '.join(known)}." if known else "This session has none."
        return f"There is no background task {task_id} in this session: it never was, or it ended long ago. Don't ask again. {hint}"

    async def _refuse(
        self, request: BashRequest, call_id: str | None, code: str, message: str, *, task: Task | None = None
    ) -> JsonObject:
        await self._audit(_action("", request), request, call_id, task=task, error=message, verdict="denied")
        return self._failed(request, failure(code, message))

    def _failed(self, request: BashRequest, why: LimpetError | BadArguments | JsonObject) -> JsonObject:
        said = why if isinstance(why, dict) else explained(why)
        return {**redacted(self._workspace, said), **self._speaker.nothing(request, self._place.current)}

    async def _audit(
        self,
        action: str,
        request: BashRequest,
        call_id: str | None,
        *,
        task: Task | None = None,
        error: str | None = None,
        verdict: Judgement = "allowed",
    ) -> None:
        await self._workspace.audit(
            action,
            command=request.command or (task.facts.command if task else ""),
            description=request.description or (task.facts.description if task else ""),
            cwd=task.facts.cwd if task else self._place.current,
            exit_code=task.exit_code if task else None,
            error=error,
            verdict=verdict,
            call_id=call_id,
            task_id=self._workspace.redactor.text(request.task_id) if request.task_id else None,
        )


NOT_OPEN = (
    "Background tasks are not available here: the program has not opened this tool (async with BashTool(…) as bash)."
    " Run the command without run_in_background, stream and wait."
)


def roots_of(workspace: Workspace) -> tuple[str, ...] | None:
    """What confines the working directory; None where no policy confines paths."""
    confining = [policy.allowed_paths for policy in workspace.policies if policy.allowed_paths is not None]
    if not confining:
        return None
    return tuple(dict.fromkeys([*workspace.roots, *(path for paths in confining for path in paths)]))


def _bad_pattern(request: BashRequest, error: PatternRefused) -> str:
    return (
        f"{NAME}: stream_pattern {request.pattern!r} is no regular expression that RE2 takes: {error}."
        ' Lookarounds and backreferences are not available. Example: {"stream_pattern": "ERROR|WARN"}'
    )


def _action(doing: str, request: BashRequest) -> str:
    """The word for the audit record."""
    if doing != "talk" and doing:
        return doing
    for name, given in (
        ("kill", request.kill),
        ("stdin", request.talks),
        ("wait", request.wait),
        ("stream", request.stream),
    ):
        if given and request.task_id is not None:
            return name
    if request.task_id is not None:
        return "status"
    return "start" if request.background or request.stream else "run"

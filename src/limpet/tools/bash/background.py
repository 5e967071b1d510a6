"""The background tasks of one session: started, found, ended. Tasks of other sessions cannot be found here."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup

from limpet.core.clock import MICROSECONDS
from limpet.core.command import Command
from limpet.core.errors import SandboxClosed, SandboxError
from limpet.core.ports import Process
from limpet.tools.bash.config import BashConfig
from limpet.tools.bash.line_matcher import LineMatcher
from limpet.tools.bash.notifications import NotificationQueue
from limpet.tools.bash.shell_markers import MarkedScript, holding
from limpet.tools.bash.tasks import Facts, Task
from limpet.workspace.audit import Call
from limpet.workspace.workspace import Workspace

SIGTERM = 15
GRACE = 2.0  # seconds between SIGTERM and SIGKILL (docs/bash-tool.md)
ENDING = 10.0  # seconds that ending all tasks may take
EARLY = 0.3  # seconds in which a task that ends at once is a finished result
SENDING = 5.0  # seconds that a task gets to take what is sent
SETTLING = 0.1  # seconds for the answer to what was sent
_FIRST_WORD = 2.0  # seconds for its pid
_MOST_FINISHED = 100


class InputNotTaken(Exception):
    """The task does not read; its text is for the model."""


class TooManyTasks(Exception):
    """The session's limit is reached; its text is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What to start as a task. Texts as the model wrote them; `timeout` None is no limit but the workspace's own."""

    command: str
    cwd: str
    env: Mapping[str, str]
    timeout: float | None
    on_terminal: bool
    call: Call


@dataclass(slots=True, eq=False)
class _PendingStart:
    """A task that is being started, between the call that waits for it and the group that carries it."""

    matcher: LineMatcher | None
    done: anyio.Event = field(default_factory=anyio.Event)
    task: Task | None = None
    error: Exception | None = None
    is_wanted: bool = True


class BackgroundTasks:
    """The tasks. `serving` is the group that carries them while the tool is open."""

    def __init__(self, workspace: Workspace, *, session: str, config: BashConfig, notices: NotificationQueue) -> None:
        self._workspace = workspace
        self._session = session
        self._config = config
        self._notices = notices
        self._tasks: dict[str, tuple[Task, Process]] = {}
        self._starting: set[_PendingStart] = set()
        self._scopes: set[anyio.CancelScope] = set()

    async def start(self, asked: Start, carriers: TaskGroup, matcher: LineMatcher | None = None) -> Task:
        """Start it and wait until it says its pid, and a moment longer in case that it ends at once. `matcher` sees every line.

        Cancelled before it runs, it is ended; later it goes on. Raises TooManyTasks and what `Workspace.spawn` raises.
        """
        self._drop_old()
        if len(self._starting) + len(self.running()) >= self._config.max_tasks:
            raise TooManyTasks(
                f"{self._config.max_tasks} background tasks run already, which is the most. Wait for one or kill one first:"
                f" {', '.join(task.facts.id for task in self.running()[:5])}."
            )
        held = holding(
            asked.command, self._config.shell, terminal=asked.on_terminal, box_shell=self._workspace.ref.shell
        )
        begun = _PendingStart(matcher=matcher)
        self._starting.add(begun)
        try:
            # Waiting for an approval may take long and be cancelled; what follows is short.
            await self._workspace.judge(Command(what=held.what, cwd=asked.cwd, env=asked.env), call=asked.call)
            carriers.start_soon(self._carry, asked, held, begun)
            await begun.done.wait()
        finally:
            begun.is_wanted &= begun.done.is_set()
            self._starting.discard(begun)
        if begun.error is not None:
            raise begun.error
        task = begun.task
        assert task is not None
        with anyio.move_on_after(_FIRST_WORD):
            await task.told_pid.wait()
        await task.wait(EARLY)
        return task

    def find(self, task_id: str) -> Task | None:
        self._drop_old()
        found = self._tasks.get(task_id)
        return found[0] if found else None

    def running(self) -> list[Task]:
        return [task for task, _ in self._tasks.values() if task.is_running]

    def known(self) -> list[str]:
        """The ids of this session, newest first."""
        return list(self._tasks)[::-1]

    async def send(self, task: Task, data: bytes, *, close: bool) -> None:
        """Write to its standard input, then end that where asked; returns after a moment for the answer. Raises InputNotTaken, and
        SandboxError."""
        process = self._tasks[task.facts.id][1]
        with anyio.move_on_after(SENDING) as sending:
            await process.write(data)
        if sending.cancelled_caught:
            raise InputNotTaken(
                f"Task {task.facts.id} did not read its input for {SENDING:g} seconds, so only a part of the {len(data)} bytes reached it."
                " Give it time to read, or put the text into a file."
            )
        if close:
            await process.close_stdin()
        await task.wait(SETTLING)

    async def end(self, task: Task) -> None:
        """SIGTERM, two seconds, SIGKILL, for its whole tree. Quiet if it has ended."""
        process = self._tasks[task.facts.id][1]
        task.is_being_killed = True
        with suppress(SandboxError):  # a box that is gone has ended it
            if task.is_running:
                await process.signal(SIGTERM)
                with anyio.move_on_after(GRACE):
                    await task.told_end.wait()
                await process.abort()
        await task.ended.wait()

    async def end_all(self) -> list[Task]:
        """End every running task, all at once, and say of each that it was cancelled. Returns them. One that is being started ends
        before it is a task."""
        for begun in self._starting:
            begun.is_wanted = False
        tasks = self.running()
        async with anyio.create_task_group() as ending:
            for task in tasks:
                ending.start_soon(self._cancel, task)
        return tasks

    async def _cancel(self, task: Task) -> None:
        await self.end(task)
        task.tell("cancelled", error="The session ended.")

    def abandon(self) -> None:
        """Stop following tasks, for the end of the session, when ending them took too long."""
        for scope in self._scopes:
            scope.cancel()

    async def _carry(self, asked: Start, held: MarkedScript, begun: "_PendingStart") -> None:
        # A session that is being cancelled follows its tasks to their end, which `end_all` brings about.
        with anyio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            try:
                await self._start_and_follow(asked, held, begun)
            except Exception as error:  # noqa: BLE001 - it is raised where the task was asked for; the others of the session go on
                begun.error = error
                begun.done.set()
            finally:
                self._scopes.discard(scope)

    async def _start_and_follow(self, asked: Start, held: MarkedScript, begun: "_PendingStart") -> None:
        process = await self._workspace.spawn(
            held.what, cwd=asked.cwd, env=asked.env, timeout=asked.timeout, pty=asked.on_terminal, call=asked.call
        )
        if begun.is_wanted:
            task = Task(
                self._facts(asked),
                config=self._config,
                mark=held.mark or "",
                clock=self._workspace.clock,
                notices=self._notices,
            )
            if begun.matcher is not None:
                task.stream(begun.matcher)
            self._tasks[task.facts.id] = (task, process)
            begun.task = task
            begun.done.set()
            await task.carry(process)
        with suppress(SandboxError):
            await process.abort()  # quiet where it has ended
            await process.forget()
        if not begun.done.is_set():
            raise SandboxClosed

    def _facts(self, asked: Start) -> Facts:
        return Facts(
            id=secrets.token_hex(6),
            command=self._workspace.redactor.text(asked.command),
            description=self._workspace.redactor.text(asked.call.description),
            cwd=asked.cwd,
            started_at=_utc(self._workspace.clock.now()),
            session=self._session,
            on_terminal=asked.on_terminal,
        )

    def _drop_old(self) -> None:
        now = self._workspace.clock.monotonic()
        finished = [task for task, _ in self._tasks.values() if task.ended_at is not None]
        for place, task in enumerate(reversed(finished)):
            if place >= _MOST_FINISHED or now - (task.ended_at or now) > self._config.kept_for:
                del self._tasks[task.facts.id]


def _utc(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / MICROSECONDS, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

"""Several workspaces of one program, by name: each is opened on first use, and all are closed together.

Each is opened and closed in one task of its own, so that any task may be the first to use it.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Literal, Self

import anyio
from anyio.abc import TaskGroup, TaskStatus

from limpet.core.errors import ConfigInvalid, SandboxClosed
from limpet.workspace.names import refuse_unusable
from limpet.workspace.workspace import Workspace

Opener = Callable[[], AbstractAsyncContextManager[Workspace]]
State = Literal["declared", "open", "failed", "closed"]
WHERE = "workspaces"

log = logging.getLogger("limpet.workspace")


@dataclass(slots=True)
class _RegisteredWorkspace:
    opener: Opener
    opening: anyio.Lock = field(default_factory=anyio.Lock)
    workspace: Workspace | None = None
    problem: str = ""


class Workspaces:
    """`async with Workspaces({"box": partial(open_workspace, "box"), …}) as them: box = await them.get("box")`.

    Names are unique and follow `names.refuse_unusable`; leaving the block closes every workspace that was opened. Raises ConfigInvalid for
    a name that cannot be one.
    """

    def __init__(self, openers: Mapping[str, Opener] | None = None) -> None:
        self._entries: dict[str, _RegisteredWorkspace] = {}
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._closing = anyio.Event()
        for name, opener in (openers or {}).items():
            self.declare(name, opener)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def declare(self, name: str, opener: Opener) -> None:
        """Add one; `opener` makes the context that is entered on first use. ConfigInvalid for a name that is taken or reserved."""
        refuse_unusable(name, where=WHERE)
        if name in self._entries:
            raise ConfigInvalid(WHERE, name, "is declared twice; every workspace has a name of its own.")
        self._entries[name] = _RegisteredWorkspace(opener)

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._closing.set()
        await self._stack.aclose()

    async def get(self, name: str) -> Workspace:
        """The workspace of that name, opened if it is not yet open. What opening it raises is raised, and the next call tries again.

        ConfigInvalid for a name that was not declared; SandboxClosed after the block and before it.
        """
        entry = self._entries.get(name)
        if entry is None:
            known = ", ".join(self._entries) or "none"
            raise ConfigInvalid(WHERE, name, f"is not a workspace; there are: {known}.")
        if self._tasks is None or self._closing.is_set():
            raise SandboxClosed
        async with entry.opening:
            if entry.workspace is None:
                try:
                    entry.workspace = await self._tasks.start(self._keep, entry)
                except Exception as error:
                    entry.problem = str(error)
                    raise
            return entry.workspace

    def describe(self) -> dict[str, tuple[State, str]]:
        """The state of each, and what went wrong where opening it failed."""
        return {name: (self._state(entry), entry.problem) for name, entry in self._entries.items()}

    def _state(self, entry: _RegisteredWorkspace) -> State:
        if self._closing.is_set():
            return "closed"
        if entry.workspace is not None:
            return "open"
        return "failed" if entry.problem else "declared"

    async def _keep(self, entry: _RegisteredWorkspace, *, task_status: TaskStatus[Workspace]) -> None:
        is_open = False
        try:
            async with entry.opener() as workspace:
                is_open, entry.problem = True, ""
                task_status.started(workspace)
                await self._closing.wait()
        except Exception as error:
            if not is_open:
                raise
            # The others go on, or close as they should; the next caller that asks for this one gets it opened anew.
            log.exception("A workspace failed.")
            entry.workspace, entry.problem = None, str(error)

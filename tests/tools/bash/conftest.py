"""A session of Bash over a box, on each runtime that has processes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from limpet.tools.bash import BashConfig, BashTool
from limpet.tools.view import as_commands_know
from limpet.workspace.workspace import Workspace
from tests.support.homes import short_home
from tests.support.runtimes import workspace_on

MOST = 5.0  # seconds for what should be done at once


class Session:
    """One tool, its notifications, and short ways to use it."""

    def __init__(self, box: Workspace, **config: Any) -> None:
        self.box = box
        self.notes: list[dict[str, Any]] = []
        self._heard = anyio.Event()
        self.tool = BashTool(box, session="s1", config=BashConfig(**config), notify=self._hear)

    async def __call__(self, command: str | None = None, **arguments: Any) -> dict[str, Any]:
        given = {**arguments, **({} if command is None else {"command": command})}
        return await self.tool.call(given)

    async def content(self, path: str) -> bytes:
        """Of a file that a result names."""
        return await self.box.files.read(self.box.places.outside(path))

    def place(self, path: str) -> str:
        """The path by which commands know what files know as `path`."""
        return as_commands_know(self.box, path)

    async def start(self, command: str, **arguments: Any) -> str:
        """The id of a new background task."""
        answer = await self(command, run_in_background=True, **arguments)
        assert "error" not in answer, answer
        return str(answer["task_id"])

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Ask until it holds; fails after MOST seconds."""
        with anyio.fail_after(MOST):
            while not await holds():
                await anyio.sleep(0.02)

    async def until_prints(self, task: str, text: str) -> dict[str, Any]:
        """Its status, once its output holds that text."""
        answer: dict[str, Any] = {}

        async def holds() -> bool:
            nonlocal answer
            answer = await self(task_id=task)
            return text in answer["stdout"] + answer["stderr"]

        await self.until(holds)
        return answer

    async def note(self, status: str, **facts: Any) -> dict[str, Any]:
        """The first notification with that status and those facts, once it has come."""
        wanted = {"status": status, **facts}
        with anyio.fail_after(MOST):
            while True:
                for note in self.notes:
                    if wanted.items() <= note.items():
                        return note
                heard = self._heard
                await heard.wait()

    async def _hear(self, note: dict[str, Any]) -> None:
        self.notes.append(note)
        heard, self._heard = self._heard, anyio.Event()
        heard.set()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module names the runtimes in RUNTIMES that its tests are asked on; local and bubblewrap where it names none."""
    if "runtime_name" in metafunc.fixturenames:
        names = getattr(metafunc.module, "RUNTIMES", ("local", "bubblewrap"))
        metafunc.parametrize("runtime_name", names, scope="module")


@pytest.fixture
async def box(runtime_name: str, home: Path) -> AsyncIterator[Workspace]:
    async with workspace_on(runtime_name, home) as workspace:
        yield workspace


@pytest.fixture
async def bash(box: Workspace) -> AsyncIterator[Session]:
    session = Session(box)
    async with session.tool:
        yield session


@pytest.fixture(scope="module")
async def lasting_box(runtime_name: str, anyio_backend: str) -> AsyncIterator[Workspace]:
    """One for all tests of a file whose sessions do not see each other."""
    with short_home() as home:
        async with workspace_on(runtime_name, home) as workspace:
            yield workspace


@pytest.fixture
async def fresh_session(lasting_box: Workspace) -> AsyncIterator[Session]:
    """A session of its own in that box."""
    session = Session(lasting_box)
    async with session.tool:
        yield session

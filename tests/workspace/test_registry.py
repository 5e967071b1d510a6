"""Several workspaces by name."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import anyio
import pytest

from limpet.core.errors import BootFailed, ConfigInvalid, SandboxClosed
from limpet.runtimes.memory import MemoryRuntime
from limpet.workspace.opening import open_in
from limpet.workspace.registry import Workspaces
from limpet.workspace.workspace import Workspace

pytestmark = pytest.mark.anyio

MOST = 5.0


class Counted:
    """Opens workspaces in memory and says what it did."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def opener(self, name: str) -> Callable[[], AbstractAsyncContextManager[Workspace]]:
        return partial(self._open, name)

    @asynccontextmanager
    async def _open(self, name: str) -> AsyncIterator[Workspace]:
        self.said.append(f"open {name}")
        async with MemoryRuntime() as runtime, open_in(runtime, name) as box:
            yield box
        self.said.append(f"close {name}")


async def test_each_is_opened_when_it_is_first_used_and_all_are_closed() -> None:
    counted = Counted()
    async with Workspaces({name: counted.opener(name) for name in ("one", "two", "three")}) as workspaces:
        assert (workspaces.names, counted.said) == (("one", "two", "three"), [])
        one = await workspaces.get("one")
        two = await workspaces.get("two")
        assert await workspaces.get("one") is one
        await one.run("echo 1 > file")
        assert (one.name, two.name) == ("one", "two")
        assert [entry.path for entry in await two.files.list()] == []
        assert workspaces.describe() == {"one": ("open", ""), "two": ("open", ""), "three": ("declared", "")}

    assert counted.said[:2] == ["open one", "open two"]
    assert sorted(counted.said[2:]) == ["close one", "close two"]
    assert {state for state, _ in workspaces.describe().values()} == {"closed"}
    with pytest.raises(SandboxClosed):
        await workspaces.get("three")


async def test_many_tasks_open_it_once_and_any_may_end_before_it() -> None:
    counted = Counted()
    boxes: list[Workspace] = []
    with anyio.fail_after(MOST):
        async with Workspaces({"one": counted.opener("one")}) as workspaces:

            async def use() -> None:
                boxes.append(await workspaces.get("one"))

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(use)
            assert (await boxes[0].run("echo still")).stdout == b"still\n"

    assert counted.said == ["open one", "close one"]
    assert len({id(box) for box in boxes}) == 1


async def test_one_that_cannot_be_opened_says_why_and_is_tried_again() -> None:
    counted = Counted()
    answers = [True, False]

    @asynccontextmanager
    async def opening() -> AsyncIterator[Workspace]:
        if answers.pop(0):
            raise BootFailed("no room today.")
        async with counted.opener("one")() as box:
            yield box

    async with Workspaces({"one": opening}) as workspaces:
        with pytest.raises(BootFailed, match="no room today"):
            await workspaces.get("one")
        assert workspaces.describe()["one"] == ("failed", "The sandbox did not start: no room today.")
        assert (await (await workspaces.get("one")).run("echo fine")).stdout == b"fine\n"
        assert workspaces.describe()["one"] == ("open", "")


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    counted = Counted()
    with pytest.raises(ValueError, match="mine"):
        async with Workspaces({"one": counted.opener("one")}) as workspaces:
            await workspaces.get("one")
            raise ValueError("mine")

    assert counted.said == ["open one", "close one"]


async def test_names_are_unique_known_and_usable() -> None:
    counted = Counted()
    async with Workspaces({"one": counted.opener("one")}) as workspaces:
        with pytest.raises(ConfigInvalid, match="one: is declared twice"):
            workspaces.declare("one", counted.opener("one"))
        with pytest.raises(ConfigInvalid, match="workspace__x"):
            workspaces.declare("workspace__x", counted.opener("x"))
        with pytest.raises(ConfigInvalid, match="two: is not a workspace; there are: one"):
            await workspaces.get("two")


async def test_one_that_fails_when_it_is_closed_lets_the_others_close_as_they_should() -> None:
    counted = Counted()

    @asynccontextmanager
    async def failing() -> AsyncIterator[Workspace]:
        async with MemoryRuntime() as runtime, open_in(runtime, "failing") as box:
            yield box
        raise IndexError("made up")

    async with Workspaces({"failing": failing, "one": counted.opener("one")}) as workspaces:
        await workspaces.get("failing")
        await workspaces.get("one")

    assert counted.said == ["open one", "close one"]
    assert workspaces.describe()["failing"][1] == "made up"

"""A workspace that is opened in one task and closed in another, as notebooks and servers do."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import limpet
from limpet.core.errors import ConfigInvalid, LimpetError
from limpet.runtimes.local.runtime import LocalRuntime
from tests.support.homes import home_apart

T = TypeVar("T")


def begun(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """A task without a parent, as frameworks make them."""
    return asyncio.get_running_loop().create_task(work)


async def in_a_task(work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wait_for(begun(work), 30)


@pytest.fixture
def home() -> Iterator[Path]:
    with home_apart() as home:
        yield home


@pytest.mark.parametrize("runtime", ["memory", "local", "bubblewrap"])
def test_it_is_opened_in_one_task_used_in_others_and_closed_in_another(runtime: str, home: Path) -> None:
    async def all_of_it() -> None:
        box = await in_a_task(limpet.open_workspace("box", runtime=runtime, home=home).open())
        assert isinstance(box, limpet.Workspace)
        await in_a_task(box.run("echo kept > x"))
        both = await asyncio.gather(*(begun(box.run("cat x")) for _ in range(2)))
        assert [result.stdout for result in both] == [b"kept\n"] * 2
        await in_a_task(box.close())
        with pytest.raises(LimpetError):
            await box.run("true")
        await asyncio.gather(box.close(), in_a_task(box.close()))

    asyncio.run(all_of_it())


def test_await_opens_too_and_several_live_side_by_side() -> None:
    async def all_of_it() -> None:
        boxes = [await limpet.open_workspace(runtime="memory") for _ in range(3)]
        # In the order in which they were opened: nested blocks could not.
        for box in boxes:
            assert (await box.run("echo ran")).stdout == b"ran\n"
            await box.close()

    asyncio.run(all_of_it())


def test_what_cannot_be_opened_raises_in_the_opener() -> None:
    async def all_of_it() -> None:
        with pytest.raises(ConfigInvalid):
            await limpet.open_workspace(runtime="nothing").open()
        context = limpet.open_workspace(runtime="memory")
        box = await context.open()
        for again in (context.open, context.__aenter__):
            with pytest.raises(ConfigInvalid, match="opened before"):
                await again()
        await context.close()
        await box.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(all_of_it())


def test_close_belongs_to_open() -> None:
    async def all_of_it() -> None:
        context = limpet.open_workspace(runtime="memory")
        async with context as box:
            for close in (box.close, context.close):
                with pytest.raises(ConfigInvalid, match="async with"):
                    await close()

    asyncio.run(all_of_it())
    box = asyncio.run(_left_open())
    with pytest.raises(ConfigInvalid, match="another event loop"):
        asyncio.run(box.close())


async def _left_open() -> limpet.Workspace:
    return await limpet.open_workspace(runtime="memory").open()


def test_an_open_that_is_cancelled_leaves_nothing(home: Path) -> None:
    async def all_of_it() -> None:
        for delay in (0.0, 0.01, 0.05, 0.2):
            with anyio.move_on_after(delay):
                box = await limpet.open_workspace(runtime="bubblewrap", home=home).open()
                await box.close()
            opening = begun(limpet.open_workspace(runtime="bubblewrap", home=home).open())
            await asyncio.sleep(delay)
            opening.cancel()
            outcome = (await asyncio.gather(opening, return_exceptions=True))[0]
            if isinstance(outcome, limpet.Workspace):
                await outcome.close()
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(all_of_it())
    assert [*(home / "run").iterdir()] == []


def test_a_close_that_is_cancelled_ends_the_box_all_the_same(home: Path) -> None:
    async def all_of_it() -> None:
        box = await limpet.open_workspace(runtime="bubblewrap", home=home).open()
        closing = begun(box.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await asyncio.wait_for(box.close(), 30)

    asyncio.run(all_of_it())
    assert [*(home / "run").iterdir()] == []


def test_a_workspace_that_was_never_closed_ends_with_its_loop(home: Path) -> None:
    async def forgotten() -> None:
        await limpet.open_workspace(runtime="bubblewrap", home=home).open()

    asyncio.run(forgotten())
    assert [*(home / "run").iterdir()] == []


def test_a_server_opens_it_at_its_start_and_closes_it_at_its_end() -> None:
    boxes: list[limpet.Workspace] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        boxes.append(await limpet.open_workspace(runtime="memory").open())
        yield
        await boxes[0].close()

    async def endpoint(request: Request) -> PlainTextResponse:
        return PlainTextResponse((await boxes[0].run("echo served")).stdout)

    with TestClient(Starlette(routes=[Route("/", endpoint)], lifespan=lifespan)) as client:
        assert [client.get("/").text for _ in range(2)] == ["served\n"] * 2


def test_a_runtime_of_ones_own_serves_too() -> None:
    async def all_of_it() -> None:
        async with LocalRuntime() as runtime:
            box = await limpet.open_workspace(runtime=runtime).open()
            assert (await box.run("echo mine")).stdout == b"mine\n"
            await box.close()

    asyncio.run(all_of_it())


def test_each_line_of_a_console_is_a_task_of_its_own(home: Path) -> None:
    """`python -m asyncio` runs each input as a task, as Jupyter runs each cell."""
    lines = [
        "import limpet",
        f"box = await limpet.open_workspace('box', home=__import__('pathlib').Path({str(home)!r})).open()",
        "print((await box.run('echo from a cell')).stdout)",
        "await box.close()",
        "await box.close()",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        check=False,
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "b'from a cell\\n'" in done.stdout
    assert "Error" not in done.stderr, done.stderr
    assert [*(home / "run").iterdir()] == []

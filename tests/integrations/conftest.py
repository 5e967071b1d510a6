"""What the frameworks are given: real boxes, in a home of their own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from limpet.core.ports import Runtime
from limpet.workspace.opening import open_in
from limpet.workspace.workspace import Workspace
from tests.support.homes import home_apart
from tests.support.runtimes import opened


@pytest.fixture(scope="session", autouse=True)
def boxes() -> Iterator[Path]:
    """A home where boxes work, which is also that of what says nothing else. Skips where they don't."""
    with home_apart() as home, pytest.MonkeyPatch.context() as environment:
        environment.setenv("LIMPET_HOME", str(home))
        anyio.run(_probed, home)
        yield home


async def _probed(home: Path) -> None:
    async with opened("bubblewrap", home):
        pass


@pytest.fixture
async def runtime(boxes: Path) -> AsyncIterator[Runtime]:
    async with opened("bubblewrap", boxes) as runtime:
        yield runtime


@pytest.fixture
async def box(runtime: Runtime) -> AsyncIterator[Workspace]:
    async with open_in(runtime) as workspace:
        yield workspace

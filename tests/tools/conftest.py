"""Workspaces for the tests of tools: real boxes, of each runtime."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.workspace.workspace import Workspace
from tests.support.homes import short_home
from tests.support.runtimes import NAMES, workspace_on


@pytest.fixture(params=NAMES)
async def box(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Workspace]:
    """A workspace without a policy, on each runtime."""
    async with workspace_on(request.param, home) as workspace:
        yield workspace


@pytest.fixture(scope="module", params=NAMES)
async def shared_box(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Workspace]:
    """One for all tests of a file that leave nothing in it that another would see."""
    with short_home() as home:
        async with workspace_on(request.param, home) as workspace:
            yield workspace


@pytest.fixture(params=["local", "bubblewrap"])
async def real_box(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Workspace]:
    """The same where real processes run."""
    async with workspace_on(request.param, home) as workspace:
        yield workspace


@pytest.fixture
async def memory_box(home: Path) -> AsyncIterator[Workspace]:
    """The quickest, for what the runtime does not matter to."""
    async with workspace_on("memory", home) as workspace:
        yield workspace

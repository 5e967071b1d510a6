"""A home for boxes that their users can reach, and a runtime in it; skipped in words where no box can be had."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.support.runtimes import opened


@pytest.fixture
async def runtime(home: Path) -> AsyncIterator[BubblewrapRuntime]:
    async with opened("bubblewrap", home) as runtime:
        assert isinstance(runtime, BubblewrapRuntime)
        yield runtime

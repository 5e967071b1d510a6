"""A part of what the fuzzer does, always the same; `python -m tests.runtimes.bubblewrap.fuzz` does more."""

from pathlib import Path

import pytest

from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.fuzz.attack import attacking

pytestmark = pytest.mark.anyio


async def test_a_lying_agent_harms_its_own_box_only(home: Path, runtime: BubblewrapRuntime) -> None:
    async with attacking(home) as attack:
        for seed in range(20_261_122, 20_261_172):
            await attack.one(seed)

    assert attack.findings == []

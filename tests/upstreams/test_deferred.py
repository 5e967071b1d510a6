"""A provider whose program is loaded by its first turn: once, however many turns come at once, and again where it failed."""

import anyio
import pytest

from limpet.upstreams.deferred import DeferredUpstream
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.script import ScriptUpstream
from limpet.upstreams.upstream import Turn, TurnEnded, Upstream
from tests.upstreams.questions import QUESTION, asked

pytestmark = pytest.mark.anyio
TURN = Turn(model="script", input=[QUESTION])


class Loader:
    """Fails so often before it gives the built-in model."""

    def __init__(self, *, failures: int = 0) -> None:
        self.calls = 0
        self.failures = failures

    def __call__(self) -> Upstream:
        self.calls += 1
        if self.calls <= self.failures:
            raise ImportError("not installed")
        return ScriptUpstream("limpet")


async def test_turns_at_once_load_it_once() -> None:
    load, endings = Loader(), []

    async def ask() -> None:
        endings.append((await asked(upstream, TURN))[-1])

    async with DeferredUpstream(ProviderSettings(name="a", type="anthropic"), load) as upstream:
        assert load.calls == 0
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
    assert (load.calls, [type(ending) for ending in endings]) == (1, [TurnEnded] * 5)


async def test_a_load_that_failed_is_tried_again_by_the_next_turn() -> None:
    load = Loader(failures=1)
    async with DeferredUpstream(ProviderSettings(name="a", type="anthropic"), load) as upstream:
        with pytest.raises(ImportError):
            await asked(upstream, TURN)
        assert isinstance((await asked(upstream, TURN))[-1], TurnEnded)
    assert load.calls == 2

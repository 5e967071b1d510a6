"""A provider whose program is loaded by its first turn: once, however many turns come at once, and again where it failed."""

import anyio
import pytest

from limpet.core.errors import UpstreamRefused
from limpet.upstreams.deferred import DeferredUpstream, UpstreamUnusable
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.script import ScriptUpstream
from limpet.upstreams.upstream import Turn, TurnEnded, Upstream
from tests.upstreams.questions import QUESTION, asked

pytestmark = pytest.mark.anyio
TURN = Turn(model="script", input=[QUESTION])


class Loader:
    """Fails with these before it gives the built-in model."""

    def __init__(self, *failures: Exception) -> None:
        self.calls = 0
        self.failures = failures

    def __call__(self) -> Upstream:
        self.calls += 1
        if self.calls <= len(self.failures):
            raise self.failures[self.calls - 1]
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


async def test_a_load_that_failed_is_refused_in_words_and_tried_again_by_the_next_turn() -> None:
    refused = UpstreamRefused("a", 401, "no credentials")
    load = Loader(ImportError("no", name="boto3"), RuntimeError("a secret of the library"), refused)
    said = []
    async with DeferredUpstream(ProviderSettings(name="a", type="anthropic"), load) as upstream:
        for kind in (UpstreamUnusable, UpstreamUnusable, UpstreamRefused):
            with pytest.raises(kind) as error:
                await asked(upstream, TURN)
            said.append(str(error.value))
        assert isinstance((await asked(upstream, TURN))[-1], TurnEnded)
    beginning, end = "The provider a cannot be used: ", ". The gateway's log says more."
    assert said == [
        f"{beginning}boto3 cannot be imported{end}",
        f"{beginning}its library failed with RuntimeError{end}",
        str(refused),
    ]
    assert load.calls == 4

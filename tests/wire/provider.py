"""A scripted provider beside the tests, in a thread of its own: what the model says is the test's, what it is asked is kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.server import Scripted, ScriptedServer
from tests.support.providers.turns import Reply, Said, reply

MODEL = "gpt-scripted"


@dataclass(frozen=True, slots=True)
class Provider:
    """`play` sets the coming turns; texts and calls stand for a whole reply each, tuples for one reply of several items."""

    server: ScriptedServer
    portal: BlockingPortal

    def play(self, *turns: Said | str | tuple[Said | str, ...] | Scripted) -> None:
        """Forget what was, and answer with these turns, one for each request."""
        self.server.requests.clear()
        self.server.turns[:] = [_turn(turn) for turn in turns]
        self.portal.call(self._rewind)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of its requests since `play`."""
        return [request.body for request in self.server.requests]

    def told(self, *, turn: int = -1) -> list[dict[str, Any]]:
        """The entries of the last shell output that the model was given with one of its turns."""
        outputs = [item for item in self.asked[turn]["input"] if item["type"] == "shell_call_output"]
        entries: list[dict[str, Any]] = outputs[-1]["output"]
        return entries

    def let_go(self) -> None:
        """Let a held answer go on."""
        self.portal.call(self.server.release.set)

    def wait_held(self) -> None:
        """Wait until an answer is held."""
        self.portal.call(self._wait, self.server.holding)

    def wait_left(self) -> None:
        """Wait until the gateway has closed the connection in the middle of an answer."""
        self.portal.call(self._wait, self.server.left)

    async def _wait(self, event: anyio.Event) -> None:
        with anyio.fail_after(5):
            await event.wait()

    async def _rewind(self) -> None:
        self.server.release, self.server.left, self.server.holding = anyio.Event(), anyio.Event(), anyio.Event()


@contextmanager
def scripted_provider(wire: type[ScriptedServer] = ScriptedResponses) -> Iterator[Provider]:
    """On a free port, for the time of the block."""
    with start_blocking_portal("asyncio") as portal:
        server = wire()
        with portal.wrap_async_context_manager(server):
            yield Provider(server, portal)


def _turn(turn: Said | str | tuple[Said | str, ...] | Scripted) -> Scripted:
    if isinstance(turn, tuple):
        return reply(*turn)
    if isinstance(turn, Reply) or callable(turn) or type(turn).__name__ in ("Refuse", "Drop"):
        return turn  # type: ignore[return-value]  # the union of said things and turns is told apart by hand
    return reply(turn)  # type: ignore[arg-type]  # as above


def config_of(provider: Provider) -> str:
    """The sections that make the gateway ask it for models `gpt-*`, beside the built-in model."""
    return f"""
[providers.limpet]
type = "script"
[providers.scripted]
type = "openai"
base_url = "{provider.server.base_url}"
api_key = "sk-of-the-provider"
models = ["gpt-*"]
"""

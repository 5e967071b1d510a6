"""`GET /v1/models` lists what providers say they have, where the configuration names a pattern or nothing."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import SocketStream

from limpet.core.secret import Secret
from limpet.upstreams import anthropic, openai_chat
from limpet.upstreams.known_models import AGAIN, FRESH, KnownModels
from limpet.upstreams.relay import RelayUpstream
from limpet.upstreams.routing import ProviderSettings, Route, Router
from limpet.upstreams.script import ScriptUpstream
from limpet.upstreams.upstream import Upstream
from tests.containers.turned import TurnedClock

pytestmark = pytest.mark.anyio

MAKES: dict[str, Callable[[ProviderSettings], Upstream]] = {
    "openai": RelayUpstream,
    "openai_chat": openai_chat.upstream,
    "anthropic": anthropic.upstream,
}


class Lister:
    """A server that answers each request with `body`; with None it stays silent."""

    def __init__(self, body: bytes | None, status: int = 200) -> None:
        self.body, self.status = body, status
        self.heads: list[str] = []
        self.url = ""

    async def answer(self, stream: SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            self.heads.append(head.decode())
            if self.body is None:
                await anyio.sleep_forever()
                return
            with suppress(anyio.BrokenResourceError):  # a client that has read enough
                await stream.send(
                    b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (self.status, len(self.body))
                    + self.body
                )


def listing(*names: object) -> bytes:
    return json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in names]}).encode()


@asynccontextmanager
async def serving(*listers: Lister) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        listeners = [
            await stack.enter_async_context(await anyio.create_tcp_listener(local_host="127.0.0.1")) for _ in listers
        ]
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        for lister, listener in zip(listers, listeners, strict=True):
            port = listener.listeners[0].extra(anyio.abc.SocketAttribute.local_port)
            lister.url = f"http://127.0.0.1:{port}/v1"
            tasks.start_soon(listener.serve, lister.answer)
        yield


@asynccontextmanager
async def route_to(lister: Lister, kind: str, *models: str, name: str = "p") -> AsyncIterator[Route]:
    given = ProviderSettings(name=name, type=kind, base_url=lister.url, api_key=Secret("k-123456"), models=models)
    async with MAKES[kind](given) as upstream:
        yield Route(upstream, models)


def listed(routes: list[Route], known: KnownModels) -> list[str]:
    return [model.id for model in Router(routes).models(known.names)]


@pytest.mark.parametrize("kind", MAKES)
async def test_a_pattern_lists_the_models_that_it_matches_and_the_provider_has(kind: str) -> None:
    lister = Lister(listing("gpt-a", "gpt-b", "other"))
    async with serving(lister), route_to(lister, kind, "gpt-*", "named") as route:
        known = KnownModels([route], clock=TurnedClock())
        assert listed([route], known) == ["named"]
        await known.refresh()
        assert listed([route], known) == ["named", "gpt-a", "gpt-b"]
    (head,) = lister.heads
    assert head.startswith("GET /v1/models")
    assert "k-123456" in head


async def test_a_provider_without_patterns_lists_its_models_behind_its_name() -> None:
    lister = Lister(listing("llama3", "claude-x"))
    async with serving(lister), route_to(lister, "openai_chat", name="ollama") as route:
        routes = [Route(ScriptUpstream(), ("limpet/script",)), route]
        known = KnownModels(routes, clock=TurnedClock())
        await known.refresh()
        assert listed(routes, known) == ["limpet/script", "ollama/llama3", "ollama/claude-x"]
        for model in listed(routes, known):
            Router(routes).find(model)


async def test_an_answer_is_remembered_and_a_failure_keeps_it() -> None:
    lister, clock = Lister(listing("gpt-a")), TurnedClock()
    async with serving(lister), route_to(lister, "openai", "gpt-*") as route:
        known = KnownModels([route], clock=clock)
        await known.refresh()
        await known.refresh()
        assert len(lister.heads) == 1
        clock.turn(FRESH)
        lister.status = 404
        await known.refresh()
        assert (len(lister.heads), listed([route], known)) == (2, ["gpt-a"])
        clock.turn(AGAIN)
        lister.status, lister.body = 200, listing("gpt-b")
        await known.refresh()
        assert listed([route], known) == ["gpt-b"]


async def test_one_that_is_silent_holds_up_nobody_for_long_and_the_others_are_heard() -> None:
    silent, quick = Lister(None), Lister(listing("gpt-a"))
    async with (
        serving(silent, quick),
        route_to(silent, "openai", "o*", name="silent") as one,
        route_to(quick, "openai_chat", "gpt-*", name="quick") as other,
    ):
        known = KnownModels([one, other], clock=TurnedClock())
        with anyio.fail_after(5):
            await known.refresh()
        assert listed([one, other], known) == ["gpt-a"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"data": {}}',
        b'{"data": [{"id": 7}]}',
        listing("", "x" * 300, "a\nb"),
        b"\xff\xfe",
        b" " * (5 << 20),
    ],
    ids=["empty", "html", "list", "object", "number", "names", "bytes", "large"],
)
async def test_what_is_no_list_of_models_is_none(body: bytes) -> None:
    lister = Lister(body)
    async with serving(lister), route_to(lister, "openai", "*") as route:
        known = KnownModels([route], clock=TurnedClock())
        await known.refresh()
        assert listed([route], known) == []

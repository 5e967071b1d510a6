"""How long a provider is waited for, and how often it is asked again: the same for relayed and for translated ones."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams import anthropic, openai_chat
from limpet.upstreams.relay import RelayUpstream
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import Turn, TurnEvent, Upstream
from tests.support.providers.anthropic import ScriptedAnthropic
from tests.support.providers.openai_chat import ScriptedChat
from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.server import ScriptedServer
from tests.support.providers.turns import Refuse, reply

pytestmark = [pytest.mark.anyio]
KINDS: dict[str, tuple[type[ScriptedServer], Any]] = {
    "openai": (ScriptedResponses, RelayUpstream),
    "openai_chat": (ScriptedChat, openai_chat.upstream),
    "anthropic": (ScriptedAnthropic, anthropic.upstream),
}
QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def provider(kind: str, *turns: Any, **settings: Any) -> AsyncIterator[tuple[ScriptedServer, Upstream]]:
    wire, made = KINDS[kind]
    with anyio.fail_after(5):
        async with wire(turns) as server, made(given(kind, server.base_url, **settings)) as upstream:
            yield server, upstream


def given(kind: str, base_url: str, **settings: Any) -> ProviderSettings:
    return ProviderSettings(name="acme", type=kind, base_url=base_url, api_key=Secret("sk-canary-0123"), **settings)


async def asked(upstream: Upstream) -> list[TurnEvent]:
    return [event async for event in upstream.stream(Turn(model="m", input=[QUESTION]))]


async def test_a_provider_that_says_nothing_after_its_head_is_given_up(kind: str) -> None:
    async with provider(kind, reply("one", hold_after=0), first_byte_timeout_secs=0.2) as (server, upstream):
        with pytest.raises(UpstreamRefused, match="first_byte_timeout_secs"):
            await asked(upstream)
    assert len(server.requests) == 1  # silence may be long work: it is not asked again


async def test_a_provider_that_never_answers_is_given_up(kind: str) -> None:
    # A queue of connections that is never taken from: what is sent is never read.
    with socket.create_server(("127.0.0.1", 0)) as deaf, anyio.fail_after(5):
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        settings = given(kind, address, first_byte_timeout_secs=0.2, idle_timeout_secs=60.0)
        async with KINDS[kind][1](settings) as upstream:
            with pytest.raises(UpstreamRefused, match="first_byte_timeout_secs"):
                await asked(upstream)


@pytest.mark.parametrize("first_byte", [0.1, 5.0], ids=["held-by-the-client", "held-here"])
async def test_an_answer_that_stands_still_has_broken_off(kind: str, first_byte: float) -> None:
    times = {"first_byte_timeout_secs": max(first_byte, 0.3), "idle_timeout_secs": 0.3}
    async with provider(kind, reply("one two three", hold_after=4), **times) as (_, upstream):
        with pytest.raises(UpstreamBroken, match="idle_timeout_secs"):
            await asked(upstream)


async def test_the_first_byte_may_take_longer_than_what_follows(kind: str) -> None:
    async with (
        provider(kind, reply("one", hold_after=0), first_byte_timeout_secs=20.0, idle_timeout_secs=0.7) as (
            server,
            upstream,
        ),
        anyio.create_task_group() as tasks,
    ):

        async def let_go() -> None:
            await server.holding.wait()
            await anyio.sleep(0.8)  # longer than the idle time, which does not count yet
            server.release.set()

        tasks.start_soon(let_go)
        events = await asked(upstream)
    assert events


@pytest.mark.parametrize("status", [429, 503])
async def test_a_wait_that_outlasts_the_budget_is_not_waited(kind: str, status: int) -> None:
    refused = Refuse(status, "Later.", headers={"retry-after": "7"})
    async with provider(kind, refused, reply("late"), retry_budget_secs=6.5) as (server, upstream):
        with pytest.raises(UpstreamRefused, match="Later") as told:
            await asked(upstream)
    assert (told.value.status, told.value.retry_after) == (status, 7.0)
    assert len(server.requests) == 1


async def test_waits_and_attempts_add_up_to_the_budget(kind: str) -> None:
    slow = Refuse(429, "Later.", headers={"retry-after-ms": "300"})
    async with provider(kind, *[slow] * 9, retry_budget_secs=0.7, max_retries=50) as (server, upstream):
        with pytest.raises(UpstreamRefused) as told:
            await asked(upstream)
    assert told.value.retry_after == 0.3
    # Two waits of 300 ms fit, a third does not.
    assert 2 <= len(server.requests) <= 3


@pytest.mark.parametrize("settings", [{"max_retries": 0}, {"retry_budget_secs": 0.0}])
async def test_it_can_be_asked_only_once(kind: str, settings: dict[str, Any]) -> None:
    async with provider(kind, Refuse(500), reply("late"), **settings) as (server, upstream):
        with pytest.raises(UpstreamRefused):
            await asked(upstream)
    assert len(server.requests) == 1


@pytest.mark.parametrize("told", ["inf", "nan", "-1", "1e400", "soon", "99999999999999999999"])
async def test_a_wait_that_makes_no_sense_harms_nothing(kind: str, told: str) -> None:
    refused = Refuse(429, headers={"retry-after": told})
    async with provider(kind, refused, retry_budget_secs=0.0) as (_, upstream):
        with pytest.raises(UpstreamRefused) as raised:
            await asked(upstream)
    assert raised.value.status in (429, 400)
    assert raised.value.retry_after is None or 0 <= raised.value.retry_after < 10**9

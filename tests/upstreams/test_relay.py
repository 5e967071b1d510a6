import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest

from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams.relay import RelayUpstream
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import CallBegun, CallMade, Emit, ShellArguments, ShellOffer, Turn, TurnEnded
from tests.support.providers.openai_responses import MODEL, ScriptedResponses
from tests.support.providers.server import Scripted
from tests.support.providers.turns import Drop, FunctionCall, Raw, Reasoning, Refuse, Said, ShellCall, Text, reply
from tests.upstreams.questions import KEY, QUESTION, QUICK, asked, text_of
from tests.wire.schema import check_create_response

pytestmark = pytest.mark.anyio
TURN = Turn(model="gpt-5", input=[QUESTION], shell=ShellOffer(description="a shell"))


@asynccontextmanager
async def provider(
    *turns: Scripted, retries: RetryBudget = QUICK, **settings: Any
) -> AsyncIterator[tuple[ScriptedResponses, RelayUpstream]]:
    with anyio.fail_after(5):
        async with ScriptedResponses(turns) as server:
            given = ProviderSettings(
                name="acme", type="openai", base_url=server.base_url, api_key=Secret(KEY), **settings
            )
            async with RelayUpstream(given, retries=retries) as upstream:
                yield server, upstream


async def test_a_turn_with_reasoning_text_a_function_and_the_shell_comes_through() -> None:
    said: list[Said | str] = [
        Reasoning("thinking"),
        "Hello, world",
        FunctionCall("weather", {"city": "X"}),
        ShellCall(("ls -la", "pwd"), timeout_ms=9),
    ]
    async with provider(reply(*said, input_tokens=3, output_tokens=4)) as (server, upstream):
        events = await asked(upstream, TURN)
    assert text_of(events) == "Hello, world"
    assert text_of(events, "response.reasoning_summary_text.delta") == "thinking"
    assert json.loads(text_of(events, "response.function_call_arguments.delta")) == {"city": "X"}
    assert any(isinstance(event, CallBegun) and event.index == 3 for event in events)
    made, ended = events[-2:]
    assert isinstance(made, CallMade)
    assert made.arguments == ShellArguments(commands=("ls -la", "pwd"), timeout_ms=9)
    assert isinstance(ended, TurnEnded)
    assert (ended.status, ended.response["model"]) == ("completed", MODEL)
    assert ended.usage is not None
    assert ended.usage.total_tokens == 7
    (request,) = server.requests
    check_create_response(request.body)
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["tools"][0] == {"type": "shell", "environment": {"type": "local"}}


async def test_without_the_native_shell_the_function_call_is_the_shell_call() -> None:
    turn = reply(FunctionCall("shell", {"commands": ["ls"]}, call_id="c1"))
    async with provider(turn, native_shell=False) as (server, upstream):
        events = await asked(upstream, TURN)
    assert events[-2] == CallMade(index=0, call_id="c1", arguments=ShellArguments(commands=("ls",)))
    assert not any(isinstance(event, Emit) for event in events)
    assert server.requests[0].body["tools"][0]["name"] == "shell"


@pytest.mark.parametrize("chunk", [1, 7, 1000])
async def test_the_cuts_of_the_network_change_nothing(chunk: int) -> None:
    said: list[Said | str] = ["Größe 🐚 ok", ShellCall(("echo ü",))]
    async with provider(reply(*said), reply(*said, chunk=chunk)) as (_, upstream):
        whole, cut = await asked(upstream, TURN), await asked(upstream, TURN)
    assert [type(event) for event in cut] == [type(event) for event in whole]
    assert text_of(cut) == "Größe 🐚 ok"


@pytest.mark.parametrize("first", [Refuse(429), Refuse(500), Refuse(503), Drop(), Drop(after_head=True)])
async def test_what_failed_before_the_first_byte_is_asked_again(first: Scripted) -> None:
    async with provider(first, first, first, reply("at last")) as (server, upstream):
        assert text_of(await asked(upstream, TURN)) == "at last"
        assert len(server.requests) == 4
        assert all(request.body == server.requests[0].body for request in server.requests)


async def test_after_three_more_attempts_the_providers_error_is_raised() -> None:
    refused = Refuse(429, "Slow down.", code="rate_limit_exceeded")
    async with provider(*[refused] * 9) as (server, upstream):
        with pytest.raises(UpstreamRefused) as raised:
            await asked(upstream, TURN)
        assert len(server.requests) == 4
    error = raised.value
    assert (error.provider, error.status, error.detail, error.code) == (
        "acme",
        429,
        "Slow down.",
        "rate_limit_exceeded",
    )


async def test_a_clients_mistake_is_not_asked_again() -> None:
    async with provider(Refuse(400, "No such model.", code="model_not_found")) as (server, upstream):
        with pytest.raises(UpstreamRefused, match=r"No such model\.") as raised:
            await asked(upstream, TURN)
        assert len(server.requests) == 1
    assert (raised.value.status, raised.value.code) == (400, "model_not_found")


async def test_retry_after_is_believed_in_place_of_the_back_off() -> None:
    patient = RetryBudget(first_wait=3600.0, budget=10_000.0)
    async with provider(Refuse(429, headers={"retry-after": "0"}), reply("now"), retries=patient) as (_, upstream):
        assert text_of(await asked(upstream, TURN)) == "now"


async def test_a_wait_that_is_too_long_is_not_waited() -> None:
    async with provider(Refuse(429, headers={"retry-after": "31"}), reply("late")) as (server, upstream):
        with pytest.raises(UpstreamRefused):
            await asked(upstream, TURN)
        assert len(server.requests) == 1


async def test_nobody_there_is_a_refusal_without_a_status() -> None:
    async with provider() as (server, _):
        address = server.base_url
    settings = ProviderSettings(name="acme", type="openai", base_url=address, api_key=Secret(KEY))
    async with RelayUpstream(settings, retries=QUICK) as upstream:
        with pytest.raises(UpstreamRefused, match="cannot be reached") as raised:
            await asked(upstream, TURN)
    assert raised.value.status is None


async def test_an_answer_that_is_cut_is_broken_and_never_asked_again() -> None:
    async with provider(reply("one two three", cut_after=6), reply("again")) as (server, upstream):
        seen = []
        with pytest.raises(UpstreamBroken) as raised:
            async for event in upstream.stream(TURN):
                seen.append(event)
        assert len(server.requests) == 1
    assert raised.value.provider == "acme"
    assert text_of(seen) != ""


async def test_an_answer_that_ends_without_its_last_event_is_broken() -> None:
    async with provider(reply("so far", leave_out=1)) as (_, upstream):
        with pytest.raises(UpstreamBroken, match="before the response had ended"):
            await asked(upstream, TURN)


async def test_without_a_key_none_is_sent() -> None:
    with anyio.fail_after(5):
        async with ScriptedResponses([reply("hi")]) as server:
            settings = ProviderSettings(name="acme", type="openai", base_url=server.base_url)
            async with RelayUpstream(settings, retries=QUICK) as upstream:
                await asked(upstream, TURN)
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("ends", ["failed", "error"])
async def test_an_error_in_mid_stream_ends_the_turn_as_failed(ends: Any) -> None:
    async with provider(reply("so far", ends=ends)) as (server, upstream):
        events = await asked(upstream, TURN)
        assert len(server.requests) == 1
    ended = events[-1]
    assert text_of(events) == "so far"
    assert isinstance(ended, TurnEnded)
    assert ended.status == "failed"
    assert ended.error is not None
    assert ended.error.code == "server_error"


async def test_an_incomplete_answer_says_why() -> None:
    async with provider(reply("so far", ends="max_output_tokens")) as (_, upstream):
        ended = (await asked(upstream, TURN))[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.status, ended.incomplete_reason) == ("incomplete", "max_output_tokens")


async def test_closing_the_iterator_closes_the_connection() -> None:
    async with provider(reply("one two three", hold_after=5)) as (server, upstream):
        async with aclosing(upstream.stream(TURN)) as events:
            await anext(events)
        await server.left.wait()


async def test_cancelling_the_caller_closes_the_connection() -> None:
    async with provider(reply("one two three", hold_after=5)) as (server, upstream):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked, upstream, TURN)
            await server.holding.wait()
            tasks.cancel_scope.cancel()
        await server.left.wait()


async def test_a_provider_that_falls_silent_is_broken_after_its_timeout() -> None:
    async with provider(reply("one two three", hold_after=5), idle_timeout_secs=0.2) as (_, upstream):
        with pytest.raises(UpstreamBroken):
            await asked(upstream, TURN)


async def test_turns_one_after_the_other_share_a_connection() -> None:
    async with provider(reply("a"), reply("b"), reply("c")) as (server, upstream):
        for _ in range(3):
            await asked(upstream, TURN)
        assert server.connections == 1


async def test_the_key_is_in_no_event_and_no_error() -> None:
    leak = {"type": "acme:leak", "output_index": 0, "key": KEY, "within": f"x{KEY}y"}
    failed = reply(Text(f"your key is {KEY}", pieces=1), Raw(leak))
    refused = Refuse(401, f"Incorrect API key provided: {KEY}.", code=KEY)
    bare = Refuse(403, body=f"<html>{KEY}</html>".encode())
    async with provider(failed, refused, bare, Refuse(404, headers={"x": KEY})) as (_, upstream):
        events = await asked(upstream, TURN)
        shown = [repr(events), repr(upstream)]
        for _ in range(3):
            with pytest.raises(UpstreamRefused) as raised:
                await asked(upstream, TURN)
            shown += [repr(raised.value), str(raised.value), str(vars(raised.value))]
    assert KEY not in "".join(shown)
    assert text_of(events) == "your key is [REDACTED]"


async def test_a_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    settings = ProviderSettings(
        name="acme", type="openai", base_url="http://127.0.0.1:9/v1", api_key=Secret("sk-canary\nx")
    )
    async with RelayUpstream(settings, retries=QUICK) as upstream:
        with pytest.raises(UpstreamRefused, match="api_key") as raised:
            await asked(upstream, TURN)
    assert "canary" not in str(raised.value)


async def test_a_server_that_does_not_stream_is_named_as_such() -> None:
    page = Refuse(200, body=b"<html>", headers={"content-type": "text/html"})
    async with provider(page) as (_, upstream):
        with pytest.raises(UpstreamRefused, match="Check its base_url"):
            await asked(upstream, TURN)

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest

from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams import anthropic, openai_chat
from limpet.upstreams import upstream as port
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.translated import TranslatedUpstream
from tests.support.providers.anthropic import ScriptedAnthropic
from tests.support.providers.openai_chat import ScriptedChat
from tests.support.providers.server import Scripted, ScriptedServer
from tests.support.providers.turns import Drop, FunctionCall, Reasoning, Refuse, Text, reply
from tests.upstreams.questions import KEY, QUESTION, QUICK, asked, text_of
from tests.wire.schema import check_event

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("wire", ["openai_chat", "anthropic"])]
MODEL = "claude-scripted-1"
SHELL = port.ShellOffer(description="a shell that stays")
TURN = port.Turn(model=MODEL, input=[QUESTION], shell=SHELL)
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}
WIRES: dict[str, tuple[type[ScriptedServer], Callable[..., TranslatedUpstream]]] = {
    "openai_chat": (ScriptedChat, openai_chat.upstream),
    "anthropic": (ScriptedAnthropic, anthropic.upstream),
}


@asynccontextmanager
async def provider(
    wire: str, *turns: Scripted, retries: RetryBudget = QUICK, **settings: Any
) -> AsyncIterator[tuple[ScriptedServer, TranslatedUpstream]]:
    scripted, upstream = WIRES[wire]
    with anyio.fail_after(10):
        async with scripted(turns) as server:
            given = ProviderSettings(name="acme", type=wire, base_url=server.base_url, api_key=Secret(KEY), **settings)
            async with upstream(given, retries=retries) as opened:
                yield server, opened


def items_of(events: list[port.TurnEvent]) -> list[dict[str, Any]]:
    done = [event for event in events if isinstance(event, port.Emit) and event.type == "response.output_item.done"]
    return [event.data["item"] for event in done]


async def test_every_kind_of_item_has_the_events_of_the_responses_api(wire: str) -> None:
    said = reply(
        Reasoning("thinking"),
        "Hello, world",
        FunctionCall("weather", {"city": "X"}, call_id="call_w"),
        FunctionCall("shell", {"commands": ["ls -la", "pwd"], "timeout_ms": 9}, call_id="call_s"),
        input_tokens=3,
        output_tokens=4,
    )
    async with provider(wire, said) as (server, upstream):
        events = await asked(upstream, port.Turn(model=MODEL, input=[QUESTION], shell=SHELL, tools=[WEATHER]))
    for number, event in enumerate(each for each in events if isinstance(each, port.Emit)):
        check_event({"type": event.type, "sequence_number": number, **event.data})
    reasoning, message, function = items_of(events)
    assert reasoning["summary"] == [{"type": "summary_text", "text": "thinking"}]
    assert message["content"] == [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Hello, world"}]
    assert (function["name"], function["call_id"], json.loads(function["arguments"])) == (
        "weather",
        "call_w",
        {"city": "X"},
    )
    arguments = port.ShellArguments(commands=("ls -la", "pwd"), timeout_ms=9)
    assert port.CallBegun(index=3, call_id="call_s") in events
    assert port.CallMade(index=3, call_id="call_s", arguments=arguments) in events
    shown = [event for event in events if isinstance(event, port.CommandText)]
    assert ["".join(each.text for each in shown if each.command_index == at) for at in (0, 1)] == ["ls -la", "pwd"]
    added = [
        event.data["output_index"]
        for event in events
        if isinstance(event, port.Emit) and event.type.endswith("item.added")
    ]
    assert added == [0, 1, 2]
    ended = events[-1]
    assert isinstance(ended, port.TurnEnded)
    assert ended.status == "completed"
    assert ended.usage is not None
    assert (ended.usage.input_tokens, ended.usage.output_tokens, ended.usage.total_tokens) == (3, 4, 7)
    assert ended.response["model"].endswith("scripted-1")
    assert len(server.requests) == 1


async def test_bad_arguments_come_back_as_such(wire: str) -> None:
    async with provider(wire, reply(FunctionCall("shell", '{"commands": 7}'))) as (_, upstream):
        made = (await asked(upstream, TURN))[-2]
    assert isinstance(made, port.CallMade)
    assert isinstance(made.arguments, port.BadArguments)
    assert made.arguments.raw == '{"commands": 7}'


async def test_a_function_without_arguments_has_an_empty_object(wire: str) -> None:
    async with provider(wire, reply(FunctionCall("weather", ""))) as (_, upstream):
        events = await asked(upstream, port.Turn(model="m", input=[QUESTION], tools=[WEATHER]))
    assert items_of(events)[0]["arguments"] == "{}"


async def test_a_function_named_shell_is_the_clients_own_where_no_shell_is_offered(wire: str) -> None:
    shell = WEATHER | {"name": "shell"}
    async with provider(wire, reply(FunctionCall("shell", {"commands": ["ls"]}))) as (_, upstream):
        events = await asked(upstream, port.Turn(model="m", input=[QUESTION], tools=[shell]))
        with pytest.raises(UpstreamRefused, match="Rename the function") as raised:
            await asked(upstream, port.Turn(model="m", input=[QUESTION], tools=[shell], shell=SHELL))
    assert items_of(events)[0]["name"] == "shell"
    assert (raised.value.status, raised.value.param) == (400, "tools")


async def test_an_answer_that_ran_out_of_length_is_incomplete_and_its_call_is_not_run(wire: str) -> None:
    cut = reply("so far", FunctionCall("shell", '{"commands": ["rm -rf /mnt/data'), ends="max_output_tokens")
    async with provider(wire, cut) as (_, upstream):
        events = await asked(upstream, TURN)
    made, ended = events[-2:]
    assert isinstance(made, port.CallMade)
    assert isinstance(made.arguments, port.BadArguments)
    assert "broke off" in made.arguments.reason
    assert isinstance(ended, port.TurnEnded)
    assert (ended.status, ended.incomplete_reason) == ("incomplete", "max_output_tokens")


async def test_a_refused_answer_is_incomplete(wire: str) -> None:
    async with provider(wire, reply("so far", ends="failed")) as (_, upstream):
        ended = (await asked(upstream, TURN))[-1]
    assert isinstance(ended, port.TurnEnded)
    assert (ended.status, ended.incomplete_reason) == ("incomplete", "content_filter")


@pytest.mark.parametrize("first", [Refuse(429), Refuse(500), Drop(), Drop(after_head=True)])
async def test_what_failed_before_the_first_byte_is_asked_again(wire: str, first: Scripted) -> None:
    async with provider(wire, first, first, first, reply("at last")) as (server, upstream):
        assert text_of(await asked(upstream, TURN)) == "at last"
        assert len(server.requests) == 4


async def test_after_three_more_attempts_the_providers_error_is_raised(wire: str) -> None:
    async with provider(wire, *[Refuse(429, "Slow down.")] * 9) as (server, upstream):
        with pytest.raises(UpstreamRefused) as raised:
            await asked(upstream, TURN)
        assert len(server.requests) == 4
    assert (raised.value.provider, raised.value.status, raised.value.detail) == ("acme", 429, "Slow down.")


async def test_a_clients_mistake_is_not_asked_again(wire: str) -> None:
    async with provider(wire, Refuse(400, "No such model.")) as (server, upstream):
        with pytest.raises(UpstreamRefused, match=r"No such model\.") as raised:
            await asked(upstream, TURN)
        assert len(server.requests) == 1
    assert raised.value.status == 400


async def test_nobody_there_is_a_refusal_without_a_status(wire: str) -> None:
    async with provider(wire) as (server, _):
        address = server.base_url
    settings = ProviderSettings(name="acme", type=wire, base_url=address)
    async with WIRES[wire][1](settings, retries=QUICK) as upstream:
        with pytest.raises(UpstreamRefused, match="cannot be reached") as raised:
            await asked(upstream, TURN)
    assert raised.value.status is None


@pytest.mark.parametrize("broken", [{"cut_after": 4}, {"ends": "error"}])
async def test_an_answer_that_breaks_off_is_broken_and_never_asked_again(wire: str, broken: dict[str, Any]) -> None:
    async with provider(wire, reply("one two three", **broken), reply("again")) as (server, upstream):
        seen = []
        with pytest.raises(UpstreamBroken) as raised:
            async for event in upstream.stream(TURN):
                seen.append(event)
        assert len(server.requests) == 1
    assert text_of(seen) != ""
    assert raised.value.provider == "acme"


async def test_an_answer_that_only_stops_is_broken(wire: str) -> None:
    async with provider(wire, reply("one two three", leave_out=3)) as (_, upstream):
        with pytest.raises(UpstreamBroken):
            await asked(upstream, TURN)


async def test_sealed_reasoning_goes_back_to_its_provider_in_the_next_turn(wire: str) -> None:
    async with provider(wire, reply(Reasoning("hm", "SIG"), "Hello"), reply("bye")) as (server, upstream):
        items = items_of(await asked(upstream, TURN))
        await asked(upstream, port.Turn(model=MODEL, input=[QUESTION, *items, QUESTION]))
    (said,) = [each for each in server.requests[1].body["messages"] if each["role"] == "assistant"]
    if wire == "anthropic":
        assert said["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "SIG"}
    else:
        assert said["reasoning_content"] == "hm"


async def test_closing_the_iterator_closes_the_connection(wire: str) -> None:
    async with provider(wire, reply("one two three", hold_after=5)) as (server, upstream):
        async with aclosing(upstream.stream(TURN)) as events:
            await anext(events)
        await server.left.wait()


async def test_cancelling_the_caller_closes_the_connection(wire: str) -> None:
    async with provider(wire, reply("one two three", hold_after=5)) as (server, upstream):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked, upstream, TURN)
            await server.holding.wait()
            tasks.cancel_scope.cancel()
        await server.left.wait()


async def test_the_key_goes_out_and_is_in_no_event_and_no_error(wire: str) -> None:
    leaking = reply(Text(f"your key is {KEY}", pieces=1))
    refused = Refuse(401, f"Incorrect API key provided: {KEY}.", code=KEY)
    bare = Refuse(403, body=f"<html>{KEY}</html>".encode())
    async with provider(wire, leaking, refused, bare) as (server, upstream):
        events = await asked(upstream, TURN)
        shown = [repr(events), repr(upstream)]
        for _ in range(2):
            with pytest.raises(UpstreamRefused) as raised:
                await asked(upstream, TURN)
            shown += [repr(raised.value), str(raised.value), str(vars(raised.value))]
    assert KEY not in "".join(shown)
    assert text_of(events) == "your key is [REDACTED]"
    headers = server.requests[0].headers
    assert KEY in (headers.get("x-api-key") or headers["authorization"])


async def test_the_environments_keys_never_go_to_another_server(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, KEY)
    with anyio.fail_after(10):
        async with WIRES[wire][0]([reply("hi")]) as server:
            settings = ProviderSettings(name="acme", type=wire, base_url=server.base_url)
            async with WIRES[wire][1](settings, retries=QUICK) as upstream:
                await asked(upstream, TURN)
    assert KEY not in str(server.requests[0])

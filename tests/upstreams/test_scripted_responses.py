"""The scripted provider is what OpenAI's own client takes for OpenAI."""

from typing import Any

import anyio
import openai
import pytest
from openai.types.responses import Response

from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.turns import FunctionCall, Reasoning, Refuse, ShellCall, reply
from tests.wire.schema import check_events

pytestmark = pytest.mark.anyio


def client(server: ScriptedResponses) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=server.base_url, api_key="sk-test", max_retries=0, _strict_response_validation=True
    )


async def test_every_kind_of_item_is_accepted_in_strict_mode() -> None:
    turn = reply(
        Reasoning("thinking"),
        "Hello",
        FunctionCall("weather", {"city": "X"}),
        ShellCall(("ls", "pwd"), max_output_length=5),
        ShellCall(("id",), style="item"),
    )
    with anyio.fail_after(5):
        async with ScriptedResponses([turn]) as server, client(server) as openai_client:
            stream = await openai_client.responses.create(
                model="m", input="hi", stream=True, tools=[{"type": "shell", "environment": {"type": "local"}}]
            )
            events = [event async for event in stream]
    check_events(event.to_dict(mode="json") for event in events)
    last = events[-1]
    assert last.type == "response.completed"
    response: Response = last.response
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "function_call",
        "shell_call",
        "shell_call",
    ]
    assert response.output_text == "Hello"


@pytest.mark.parametrize(
    "ends, last", [("failed", "response.failed"), ("max_output_tokens", "response.incomplete"), ("error", "error")]
)
async def test_other_ends_are_accepted_too(ends: Any, last: str) -> None:
    with anyio.fail_after(5):
        async with ScriptedResponses([reply("so far", ends=ends)]) as server, client(server) as openai_client:
            stream = await openai_client.responses.create(model="m", input="hi", stream=True)
            types = [event.type async for event in stream]
    assert types[-1] == last


async def test_an_error_is_the_clients_error_of_that_status() -> None:
    with anyio.fail_after(5):
        async with (
            ScriptedResponses([Refuse(429, "Slow down.", code="rate_limit_exceeded")]) as server,
            client(server) as openai_client,
        ):
            with pytest.raises(openai.RateLimitError, match="Slow down") as raised:
                await openai_client.responses.create(model="m", input="hi", stream=True)
    assert raised.value.code == "rate_limit_exceeded"


async def test_a_script_that_is_over_says_so() -> None:
    with anyio.fail_after(5):
        async with ScriptedResponses() as server, client(server) as openai_client:
            with pytest.raises(openai.BadRequestError, match="no more turns"):
                await openai_client.responses.create(model="m", input="hi", stream=True)

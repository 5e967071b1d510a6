"""`POST /v1/responses/input_tokens`: counted by the provider where it counts, else estimated; nothing is made."""

import json
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.support.host import rows
from tests.support.providers.anthropic import ScriptedAnthropic
from tests.support.providers.gemini import ScriptedGemini
from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.server import Request
from tests.support.providers.turns import Refuse, Turn
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.provider import MODEL, Provider, config_of, scripted_provider

COUNTED_BY = "limpet-tokens-counted-by"


class CountingResponses(ScriptedResponses):
    """A provider that also counts: 7 tokens for each item."""

    def _next(self, request: Request) -> Turn:
        if request.path.endswith("/responses/input_tokens"):
            count = {"object": "response.input_tokens", "input_tokens": 7 * len(request.body["input"])}
            return Refuse(200, body=json.dumps(count).encode())
        return super()._next(request)


@pytest.mark.promise("input-tokens-are-counted")
def test_the_built_in_model_counts_what_it_would_be_asked(client: openai.OpenAI) -> None:
    before = client.responses.create(model="limpet/script", input="one two", instructions="three")
    counted = client.responses.input_tokens.count(
        model="limpet/script", input="four", instructions="five", previous_response_id=before.id
    )
    asked = client.responses.create(
        model="limpet/script", input="four", instructions="five", previous_response_id=before.id
    )
    assert asked.usage is not None
    assert (counted.object, counted.input_tokens) == ("response.input_tokens", asked.usage.input_tokens)


def test_counting_makes_nothing_and_runs_nothing(gateway: Gateway, client: openai.OpenAI) -> None:
    counts = "SELECT (SELECT count(*) FROM responses) AS responses, (SELECT count(*) FROM containers) AS containers"
    made = client.conversations.create(items=[{"role": "user", "content": "hello"}])
    before = rows(gateway.home / "limpet.db", counts)
    shell: list[Any] = SHELL
    more = client.responses.input_tokens.count(
        model="limpet/script", input=shell_blocks("touch x"), tools=shell, conversation=made.id
    )
    less = client.responses.input_tokens.count(model="limpet/script", conversation=made.id)
    assert more.input_tokens > less.input_tokens > 0
    assert rows(gateway.home / "limpet.db", counts) == before
    assert len(client.conversations.items.list(made.id).data) == 1


def test_a_provider_that_counts_is_asked_and_one_that_does_not_is_estimated(
    tmp_path: Any, scripted_gateway: Gateway, provider: Provider
) -> None:
    body = {"model": MODEL, "input": "word " * 400, "tools": [{"type": "shell"}], "previous_response_id": None}
    with scripted_gateway.http() as http:
        provider.play()
        estimated = http.post("/v1/responses/input_tokens", json=body)
    assert estimated.headers[COUNTED_BY] == "estimate"
    assert 400 < estimated.json()["input_tokens"] < 2_000

    with scripted_provider(CountingResponses) as counting:
        with running(tmp_path, runtime="memory", config=config_of(counting)) as gateway, gateway.http() as http:
            counted = http.post("/v1/responses/input_tokens", json=body)
        assert (counted.headers[COUNTED_BY], counted.json()["input_tokens"]) == ("provider", 7)
        sent = counting.server.requests[0]
        assert (sent.path, sent.headers["authorization"]) == ("/v1/responses/input_tokens", "Bearer sk-of-the-provider")
        assert {"stream", "store", "include"} & sent.body.keys() == set()


class CountingAnthropic(ScriptedAnthropic):
    """Counts as Anthropic does; refuses what is no part of a count."""

    def _next(self, request: Request) -> Turn:
        if request.path.endswith("/messages/count_tokens"):
            return Refuse(200, body=b'{"input_tokens": 41}')
        return super()._next(request)


class CountingGemini(ScriptedGemini):
    """Counts as Google does."""

    def _next(self, request: Request) -> Turn:
        if request.path.partition("?")[0].endswith(":countTokens"):
            return Refuse(200, body=b'{"totalTokens": 42}')
        return super()._next(request)


@pytest.mark.parametrize(
    "wire, settings, model, count",
    [
        (CountingAnthropic, 'type = "anthropic"', "claude-scripted-1", 41),
        (CountingGemini, 'type = "vertex"', "gemini-scripted-1", 42),
    ],
    ids=["anthropic", "google"],
)
def test_translated_providers_count_what_they_would_be_asked(
    tmp_path: Any, wire: Any, settings: str, model: str, count: int
) -> None:
    body = {"model": f"counting/{model}", "input": "four words of input", "instructions": "Be brief.", "tools": SHELL}
    with scripted_provider(wire) as counting:
        config = f'[providers.counting]\n{settings}\nbase_url = "{counting.server.base_url}"\napi_key = "k7f3q9-tide"\n'
        with running(tmp_path, runtime="memory", config=config) as gateway, gateway.http() as http:
            answer = http.post("/v1/responses/input_tokens", json={**body, "max_output_tokens": 100})
    assert (answer.headers.get(COUNTED_BY), answer.json()) == (
        "provider",
        {"object": "response.input_tokens", "input_tokens": count},
    )
    (sent,) = counting.server.requests
    assert "four words of input" in json.dumps(sent.body)
    if count == 41:
        assert sent.body.keys() <= {"model", "messages", "system", "tools", "tool_choice", "thinking"}


@pytest.mark.parametrize(
    "body, status, code",
    [
        ({"input": "x"}, 400, "missing_required_parameter"),
        ({"model": "nobody", "input": "x"}, 404, "model_not_found"),
        ({"model": "limpet/script", "previous_response_id": "resp_nobody"}, 404, "previous_response_not_found"),
        ({"model": "limpet/script", "conversation": "conv_nobody"}, 404, "conversation_not_found"),
        ({"model": "limpet/script", "input": [{"type": "message"}]}, 400, "missing_required_parameter"),
        ([], 400, None),
    ],
)
def test_what_cannot_be_counted_is_refused(gateway: Gateway, body: Any, status: int, code: str | None) -> None:
    with gateway.http() as http:
        answer = http.post("/v1/responses/input_tokens", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text

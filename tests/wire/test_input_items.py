"""`GET /v1/responses/{id}/input_items`: what a response was made of."""

from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.wire.asking import SHELL, run, shell_blocks
from tests.wire.schema import check_input_items


def user(text: str) -> Any:
    return {"role": "user", "content": text}


@pytest.mark.promise("input-items-of-a-response-are-listed")
def test_they_are_those_of_the_chain_and_of_the_request(client: openai.OpenAI, gateway: Gateway) -> None:
    prompt = shell_blocks("echo one")
    first = client.responses.create(model="limpet/script", input=prompt, tools=SHELL)
    second = client.responses.create(
        model="limpet/script", input=[user("two"), user("three")], previous_response_id=first.id
    )

    own = client.responses.input_items.list(first.id, order="asc").data
    whole = client.responses.input_items.list(second.id, order="asc").data

    assert [item.type for item in own] == ["message"]
    assert [item.id for item in whole[: len(own) + len(first.output)]] == [item.id for item in [*own, *first.output]]
    assert [item.content[0].text for item in whole[-2:]] == ["two", "three"]  # type: ignore[union-attr]
    assert [item.id for item in client.responses.input_items.list(second.id, limit=2)] == [
        item.id for item in reversed(whole)
    ]
    with gateway.http() as http:
        check_input_items(http.get(f"/v1/responses/{second.id}/input_items?order=asc&limit=100").json())

    # What was deleted of the chain is left out.
    client.responses.delete(first.id)
    assert [item.id for item in client.responses.input_items.list(second.id, order="asc")] == [
        item.id for item in whole[-2:]
    ]


def test_a_response_that_runs_or_is_not_stored(client: openai.OpenAI) -> None:
    begun = client.responses.create(
        model="limpet/script", input=shell_blocks("until [ -e go ]; do sleep 0.02; done"), tools=SHELL, background=True
    )
    assert len(client.responses.input_items.list(begun.id).data) == 1
    client.responses.cancel(begun.id)
    unstored = run(client, "true", store=False)
    for gone in (unstored.id, "resp_nobody"):
        with pytest.raises(openai.NotFoundError) as refused:
            client.responses.input_items.list(gone)
        assert refused.value.code == "response_not_found"

"""`item_reference`: what a client names instead of sending it again is looked up among the tenant's stored items."""

from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.providers.turns import FunctionCall, Reasoning
from tests.wire.asking import SHELL, entries, printed, run, shell_blocks
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_error

Json = dict[str, Any]
LOOKUP: list[Any] = [{"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}]


def reference(item_id: str) -> Json:
    return {"type": "item_reference", "id": item_id}


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": text}


@pytest.mark.promise("item-references-are-resolved")
@pytest.mark.parametrize("with_type", [True, False], ids=["typed", "bare"])
def test_the_built_in_model_is_told_what_was_referred_to(client: openai.OpenAI, with_type: bool) -> None:
    asked = shell_blocks("echo one", "echo two")
    first = run(client, "echo one", "echo two")
    named = [reference(item.id) for item in first.output if item.type.startswith("shell_call")]
    given = named if with_type else [{"id": each["id"]} for each in named]

    again: Any = [user(asked), *given]
    second = client.responses.create(model="limpet/script", input=again, tools=SHELL)

    # Both blocks have an output already: nothing runs again.
    assert [item.type for item in second.output] == ["message"]
    assert "I ran 2 commands." in second.output_text


@pytest.mark.promise("item-references-are-resolved")
@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_that_is_referred_to_takes_its_output_and_the_provider_is_sent_it_whole(
    scripted_gateway: Gateway, provider: Provider, streamed: bool
) -> None:
    client = scripted_gateway.client()
    provider.play((Reasoning("hm"), FunctionCall("look_up", {}, call_id="call_9")), "Fine.", "And on.")
    first = client.responses.create(model=MODEL, input="look it up", tools=LOOKUP)
    later: Any = [
        user("look it up"),
        *(reference(item.id) for item in first.output if item.id),
        {"type": "function_call_output", "call_id": "call_9", "output": "7"},
    ]
    second = client.responses.create(model=MODEL, input=later, tools=LOOKUP, stream=streamed)
    ended = list(second)[-1].response if streamed else second
    third = client.responses.create(model=MODEL, input="more", previous_response_id=ended.id)

    kinds = [item["type"] for item in provider.asked[1]["input"]]
    assert kinds == ["message", "reasoning", "function_call", "function_call_output"]
    assert provider.asked[1]["input"][1]["encrypted_content"] == "sealed-by-the-provider"
    # The chain holds the items themselves, also when what they came from is deleted.
    client.responses.delete(first.id)
    assert [item["type"] for item in provider.asked[2]["input"]][: len(kinds)] == kinds
    assert third.status == "completed"


@pytest.mark.promise("unknown-item-reference-is-refused")
@pytest.mark.parametrize("model", ["limpet/script", MODEL])
def test_an_unknown_reference_is_refused_and_named(scripted_gateway: Gateway, provider: Provider, model: str) -> None:
    provider.play("Fine.")
    with scripted_gateway.http() as http:
        body = {"model": model, "input": [user("go"), reference("msg_nobody")], "tools": SHELL}
        answer = http.post("/v1/responses", json=body)

    assert answer.status_code == 400, answer.text
    check_error(answer.json())
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == ("input[1].id", "item_not_found")
    assert "msg_nobody" in error["message"]
    assert provider.asked == []


def test_what_was_not_stored_or_was_deleted_cannot_be_referred_to(client: openai.OpenAI) -> None:
    unstored = run(client, "true", store=False)
    deleted = run(client, "true")
    client.responses.delete(deleted.id)

    for gone in (unstored, deleted):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="limpet/script", input=[reference(gone.output[0].id or "")])  # type: ignore[list-item]
        assert refused.value.code == "item_not_found"


def test_an_item_that_the_chain_has_already_is_not_told_twice(scripted_gateway: Gateway, provider: Provider) -> None:
    client = scripted_gateway.client()
    provider.play("One.", "Two.")
    first = client.responses.create(model=MODEL, input="one")
    again: Any = [reference(first.output[0].id or ""), reference(first.output[0].id or ""), user("two")]

    client.responses.create(model=MODEL, input=again, previous_response_id=first.id)

    assert [item["role"] for item in provider.asked[1]["input"]] == ["user", "assistant", "user"]


def test_output_that_is_referred_to_is_trimmed_as_in_a_chain(scripted_gateway: Gateway, provider: Provider) -> None:
    client = scripted_gateway.client()
    first = run(client, "head -c 100000 /dev/zero | tr '\\0' x")
    provider.play("Fine.")
    named: Any = [user("go"), *(reference(item.id) for item in first.output if item.type.startswith("shell"))]

    client.responses.create(model=MODEL, input=named, tools=SHELL)

    assert len(entries(first)[0].stdout) == 100_000
    assert len(provider.told()[0]["stdout"]) < 8_200


def test_a_reference_brings_the_container_back(client: openai.OpenAI) -> None:
    first = run(client, "echo kept > file")
    named: Any = [
        user(shell_blocks("echo kept > file")),
        *(reference(item.id or "") for item in first.output),
        user(shell_blocks("cat file")),
    ]

    second = client.responses.create(model="limpet/script", input=named, tools=SHELL)

    assert printed(second) == "kept\n"

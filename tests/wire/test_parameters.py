"""Parameters of a request: those that a provider knows reach it, and what it says of them is shown; images; chains; structured text."""

import base64
import json
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.providers.turns import Raw, Refuse, ShellCall, reply
from tests.wire.asking import SHELL, container_of, printed, run
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_error, check_response

Json = dict[str, Any]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FORWARDED: Json = {
    "access_programs": {"cyber": "standard"},
    "image": {"context_compression": "enabled"},
    "moderation": {"model": "omni-moderation-latest", "policy": {"input": {"mode": "block"}}},
    "parallel_tool_calls": False,
    "personality": "pragmatic",
    "prompt": {"id": "pmpt_1", "variables": {"a": "b"}},
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit", "ttl": "12h", "comparison_response_id": None},
    "prompt_cache_retention": "24h",
    "safety_identifier": "u" * 64,
    "service_tier": "ultrafast",
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
    "truncation": "auto",
    "metadata": {"a": "b"},
}
SHOWN: Json = {
    "access_programs": {"cyber": "daybreak_blue"},
    "image": {"context_compression": "disabled"},
    "input_transformations": [{"id": "rs_1", "action": "removed", "reason": "model_mismatch", "type": "reasoning"}],
    "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
    "prompt_cache_retention": "24h",
    "service_tier": "priority",
}
USAGE: Json = {
    "input_tokens": 3,
    "input_tokens_details": {
        "cached_tokens": 1,
        "cache_write_tokens": 2,
        "cache_write_tokens_details": {"ttl_30m_tokens": 2, "ttl_12h_tokens": 0},
    },
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 4,
}


def ended(**fields: Any) -> Raw:
    """The provider's last event, with these fields."""
    return Raw({"type": "response.completed", "response": {"output": [], "usage": USAGE, **fields}})


@pytest.mark.promise("parameters-reach-the-provider-that-knows-them")
def test_parameters_reach_the_provider_as_they_were_given(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play("Fine.")
    with scripted_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": MODEL, "input": "hi", **FORWARDED})

    assert answer.status_code == 200, answer.text
    check_response(answer.json())
    (sent,) = provider.asked
    assert {name: sent.get(name) for name in FORWARDED} == {
        **FORWARDED,
        "prompt_cache_options": {"mode": "explicit", "ttl": "12h"},
    }
    echoed = answer.json()
    assert {name: echoed[name] for name in ("metadata", "truncation", "parallel_tool_calls", "text")} == {
        name: FORWARDED[name] for name in ("metadata", "truncation", "parallel_tool_calls", "text")
    }


@pytest.mark.promise("provider-says-how-it-answered")
def test_what_only_the_provider_can_say_is_shown(scripted_gateway: Gateway, provider: Provider) -> None:
    client = scripted_gateway.client()
    pieces = {"image_tokens": 1, "text_tokens": 0}
    drawn = {"input_tokens": 1, "input_tokens_details": pieces, "output_tokens": 1, "total_tokens": 2}
    tool_usage = {"image_gen": drawn, "web_search": {"num_requests": 2}}
    provider.play(
        (ShellCall(("true",)), ended(tool_usage=tool_usage, service_tier="flex")),
        ("Fine.", ended(**SHOWN, tool_usage=tool_usage)),
    )
    response = client.responses.create(model=MODEL, input="hi", tools=SHELL, service_tier="auto")

    shown = response.to_dict()
    assert {name: shown[name] for name in SHOWN} == SHOWN
    assert shown["tool_usage"]["web_search"] == {"num_requests": 4}
    assert shown["tool_usage"]["image_gen"]["input_tokens_details"]["image_tokens"] == 2
    assert response.usage is not None
    assert response.usage.to_dict()["input_tokens_details"] == {
        "cached_tokens": 2,
        "cache_write_tokens": 4,
        "cache_write_tokens_details": {"ttl_30m_tokens": 4, "ttl_12h_tokens": 0},
    }
    check_response(shown)
    assert client.responses.retrieve(response.id) == response


def test_a_tier_that_the_api_does_not_have_is_not_shown(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(("Fine.", ended(service_tier="standard")))
    assert scripted_gateway.client().responses.create(model=MODEL, input="hi").service_tier == "default"


MISALIGNED: Json = {
    "code": "misalignment_policy_violation",
    "message": "Stopped.",
    "type": "policy",
    "param": "input",
    "misalignment": {"error_type": "other", "steer": {"message": "Go on."}},
}


@pytest.mark.promise("errors-have-the-new-shape")
def test_a_providers_error_is_shown_whole(scripted_gateway: Gateway, provider: Provider) -> None:
    client = scripted_gateway.client()
    provider.play(("Half.", Raw({"type": "response.failed", "response": {"error": MISALIGNED}})))
    failed = client.responses.create(model=MODEL, input="hi")
    assert failed.error is not None
    assert failed.error.to_dict() == MISALIGNED
    assert client.responses.retrieve(failed.id).error == failed.error

    provider.play(Refuse(400, body=json.dumps({"error": MISALIGNED}).encode()))
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="hi")
    body: Any = refused.value.body
    check_error({"error": body})
    assert (body["code"], body["param"], body["misalignment"]) == (
        "misalignment_policy_violation",
        "input",
        MISALIGNED["misalignment"],
    )


@pytest.mark.promise("images-are-sent-to-the-provider")
@pytest.mark.parametrize("tools", [None, SHELL], ids=["plain", "shell"])
def test_an_image_that_was_uploaded_is_sent_with_its_bytes(
    scripted_gateway: Gateway, provider: Provider, tools: Any
) -> None:
    client = scripted_gateway.client()
    image = client.files.create(file=("dot.png", PNG, "image/png"), purpose="vision")
    parts: Any = [
        {"type": "input_text", "text": "what is it?"},
        {"type": "input_image", "file_id": image.id, "detail": "low"},
        {"type": "input_image", "image_url": "https://images.example.com/a.png", "detail": "auto"},
    ]
    asked: Any = {"model": MODEL, "tools": tools or []}
    provider.play("A dot.", "Still a dot.", "Gone.")
    first = client.responses.create(input=[{"role": "user", "content": parts}], **asked)
    client.responses.create(input="sure?", previous_response_id=first.id, **asked)
    client.files.delete(image.id)
    client.responses.create(input="sure?", previous_response_id=first.id, **asked)

    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    for turn in provider.asked[:2]:
        assert turn["input"][0]["content"] == [
            parts[0],
            {"type": "input_image", "detail": "low", "image_url": url},
            parts[2],
        ]
    assert "was deleted" in provider.asked[2]["input"][0]["content"][1]["text"]
    (listed,) = client.responses.input_items.list(first.id).data
    assert listed.content[1].file_id == image.id  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "part, code",
    [
        ({"file_id": "file-nobody"}, None),
        ({}, "invalid_image"),
        ({"file_id": "file-x", "image_url": "https://x.example.com"}, "invalid_image"),
        ({"image_url": "file:///etc/passwd"}, "invalid_image_url"),
        ({"image_url": "data:text/html;base64,AAAA"}, "invalid_image_url"),
        ({"image_url": "https://x.example.com", "detail": "huge"}, "invalid_value"),
    ],
)
def test_an_image_that_is_none_is_refused(gateway: Gateway, part: Json, code: str | None) -> None:
    content = [{"type": "input_image", **part}]
    with gateway.http() as http:
        answer = http.post(
            "/v1/responses", json={"model": "limpet/script", "input": [{"role": "user", "content": content}]}
        )
    assert answer.status_code in (400, 404), answer.text
    check_error(answer.json())
    assert answer.json()["error"]["param"].startswith("input[0].content[0]")
    assert code in (None, answer.json()["error"]["code"])


def test_a_text_is_not_an_image(client: openai.OpenAI) -> None:
    text = client.files.create(file=("a.txt", b"x", "text/plain"), purpose="user_data")
    content: Any = [{"type": "input_image", "file_id": text.id, "detail": "auto"}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="limpet/script", input=[{"role": "user", "content": content}])
    assert refused.value.code == "invalid_image_format"


@pytest.mark.promise("chains-pass-through-failed-and-cancelled-parents")
def test_a_chain_goes_on_from_what_a_failed_response_had(scripted_gateway: Gateway, provider: Provider) -> None:
    client = scripted_gateway.client()
    provider.play(ShellCall(("echo kept > file",)), reply("Half.", ends="failed"), ShellCall(("cat file",)), "Done.")
    failed = client.responses.create(model=MODEL, input="one", tools=SHELL, instructions="Sing.")
    after = client.responses.create(model=MODEL, input="two", tools=SHELL, previous_response_id=failed.id)

    assert (failed.status, after.status, printed(after)) == ("failed", "completed", "kept\n")
    kinds = [item["type"] for item in provider.asked[2]["input"]]
    assert kinds == ["message", "shell_call", "shell_call_output", "message", "message"]
    assert "Sing." not in provider.asked[2].get("instructions", "")


def test_a_chain_onto_a_response_whose_container_expired_gets_a_new_one(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    client = scripted_gateway.client()
    first = run(client, "echo x > file")
    client.containers.delete(container_of(first))
    provider.play("Fine.")
    second = client.responses.create(model=MODEL, input="two", tools=SHELL, previous_response_id=first.id)
    assert container_of(second) != container_of(first)
    assert "has expired or was deleted" in provider.asked[0]["instructions"]

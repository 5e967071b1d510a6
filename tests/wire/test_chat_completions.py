"""`POST /v1/chat/completions` behind every provider, as the official client sees it, which checks each shape strictly."""

import base64
import json
from typing import Any

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.support.gateway import Gateway
from tests.support.providers.turns import FunctionCall, Reasoning, Refuse, reply
from tests.wire.voices import Voice

ASKED: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]
WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALL = FunctionCall("weather", {"city": "Bonn"}, call_id="call_w")


def streamed(gateway: Gateway, **asked: Any) -> list[ChatCompletionChunk]:
    with gateway.client().chat.completions.create(**asked, stream=True) as stream:
        return list(stream)


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_a_text_is_answered_whole_and_in_chunks(speaking_gateway: Gateway, voice: Voice) -> None:
    voice.play((Reasoning("Hm."), "Hello, dear 🌍."), "Hello again.")
    whole = speaking_gateway.client().chat.completions.create(model=voice.model, messages=ASKED, temperature=0.5)
    chunks = streamed(
        speaking_gateway, model=voice.model, messages=ASKED, stream_options={"include_usage": True}, max_tokens=50
    )

    (choice,) = whole.choices
    assert (choice.message.content, choice.finish_reason) == ("Hello, dear 🌍.", "stop")
    assert choice.message.to_dict()["reasoning_content"] == "Hm."
    assert whole.usage is not None
    assert (whole.model, whole.usage.prompt_tokens, whole.usage.completion_tokens) == (voice.model, 11, 7)
    assert text_of(chunks) == "Hello again."
    assert chunks[-1].usage is not None
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 18)
    assert [each.choices[0].finish_reason for each in chunks[:-1] if each.choices[0].finish_reason] == ["stop"]
    assert {told.instructions for told in voice.told} in ({"Be kind."}, {""})  # relayed, it stays a message


@pytest.mark.parametrize("in_chunks", [False, True], ids=["whole", "streamed"])
def test_the_clients_functions_are_called_and_answered(
    speaking_gateway: Gateway, voice: Voice, in_chunks: bool
) -> None:
    voice.play((CALL,), "It rains.")
    asked: dict[str, Any] = {"model": voice.model, "messages": ASKED, "tools": [WEATHER]}
    if in_chunks:
        with speaking_gateway.client().chat.completions.stream(**asked) as stream:
            first: Any = stream.get_final_completion()
    else:
        first = speaking_gateway.client().chat.completions.create(**asked)
    message = first.choices[0].message
    (call,) = message.tool_calls
    history = [*ASKED, message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    second = speaking_gateway.client().chat.completions.create(model=voice.model, messages=history, tools=[WEATHER])

    assert first.choices[0].finish_reason == "tool_calls"
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Bonn"})
    assert second.choices[0].message.content == "It rains."
    assert [result for _, result in voice.told[1].results] == ["rain"]


@pytest.mark.parametrize("in_chunks", [False, True], ids=["whole", "streamed"])
def test_an_answer_ends_before_a_stop_text(
    speaking_gateway: Gateway, voices: dict[str, Voice], in_chunks: bool
) -> None:
    voice = voices["chat"]
    voice.play(reply("one EN two END three"))
    asked: dict[str, Any] = {"model": voice.model, "messages": ASKED, "stop": ["END", "never"]}
    if in_chunks:
        chunks = streamed(speaking_gateway, **asked)
        assert (text_of(chunks), chunks[-1].choices[0].finish_reason) == ("one EN two ", "stop")
    else:
        whole = speaking_gateway.client().chat.completions.create(**asked)
        assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("one EN two ", "stop")


def test_images_formats_and_efforts_reach_the_provider(speaking_gateway: Gateway, voices: dict[str, Voice]) -> None:
    voice = voices["native"]
    voice.play('{"a": 1}')
    image = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
    content = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": image}}]
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": False}
    answer = speaking_gateway.client().chat.completions.create(
        model=voice.model,
        messages=[{"role": "user", "content": content}],  # type: ignore[list-item, misc]
        response_format={"type": "json_schema", "json_schema": schema},  # type: ignore[arg-type]
        reasoning_effort="low",
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        max_completion_tokens=1,
    )
    (body,) = voice.bodies

    assert answer.choices[0].message.content == '{"a": 1}'
    assert [part["type"] for part in body["input"][0]["content"]] == ["input_text", "input_image"]
    assert body["text"]["format"] == {"type": "json_schema", **schema}
    assert (body["reasoning"], body["tool_choice"]) == ({"effort": "low"}, {"type": "function", "name": "weather"})
    assert body["max_output_tokens"] == 16


def test_what_is_left_out_is_named_and_what_would_change_the_answer_refused(
    speaking_gateway: Gateway, voices: dict[str, Voice]
) -> None:
    voice = voices["chat"]
    voice.play("ok")
    client = speaking_gateway.client()
    raw = client.chat.completions.with_raw_response.create(
        model=voice.model, messages=ASKED, seed=7, presence_penalty=0.5, frequency_penalty=0
    )
    assert raw.headers["limpet-parameters-left-out"] == "seed, presence_penalty"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"n": 2}, "n"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": "x" * 513}, "stop"),
        ({"tools": [{"type": "shell"}]}, "tools[0].type"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 7}]}]}, "messages[0].content[0].text"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"model": "nobody/none"}, "model"),
    ]
    for change, param in wrong:
        with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as refused:
            client.chat.completions.create(**{"model": voice.model, "messages": ASKED, **change})
        assert refused.value.param == param
    assert len(voice.bodies) == 1


@pytest.mark.parametrize("in_chunks", [False, True], ids=["whole", "streamed"])
def test_a_refusal_keeps_its_status_and_a_broken_answer_is_an_error(
    speaking_gateway: Gateway, voices: dict[str, Voice], in_chunks: bool
) -> None:
    voice = voices["chat"]
    client = speaking_gateway.client()
    voice.play(Refuse(422, "No such thing."), reply("Once upon", ends="error"))
    with pytest.raises(openai.UnprocessableEntityError, match="No such thing"):
        client.chat.completions.create(model=voice.model, messages=ASKED, stream=in_chunks)
    with pytest.raises(openai.APIError, match="broke off"):
        list(client.chat.completions.create(model=voice.model, messages=ASKED, stream=in_chunks))


def test_nothing_of_it_is_kept(speaking_gateway: Gateway, voices: dict[str, Voice]) -> None:
    voice = voices["chat"]
    voice.play("ok canary-of-chat-90af")
    answer = httpx2.post(f"{speaking_gateway.url}/v1/chat/completions", json={"model": voice.model, "messages": ASKED})
    assert answer.json()["choices"][0]["message"]["content"].startswith("ok")
    kept = [path for path in speaking_gateway.home.rglob("limpet.db*") if b"canary-of-chat-90af" in path.read_bytes()]
    assert kept == []

"""A conversation is compacted on demand: by `POST /v1/responses/compact`, and by a `compaction_trigger` in the input."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, SQLiteSession
from agents.memory import OpenAIResponsesCompactionSession
from openai import AsyncOpenAI

from tests.support.gateway import Gateway
from tests.support.providers.turns import Raw, Refuse, reply
from tests.wire.asking import SHELL
from tests.wire.schema import check_error, check_events, check_response, problems_of
from tests.wire.streams import events_of, items_of
from tests.wire.voices import Voice

Json = dict[str, Any]
LEFT_OUT = "earlier items of this conversation"
TRIGGER = {"type": "compaction_trigger"}


@pytest.fixture(params=["chat", "anthropic"])
def translated(request: pytest.FixtureRequest, voices: dict[str, Voice]) -> Voice:
    return voices[request.param]


@pytest.fixture
def native(voices: dict[str, Voice]) -> Iterator[Voice]:
    """A provider that compacts by itself."""
    voice = voices["native"]
    voice.provider.server.more_paths = ("/responses/compact",)
    yield voice
    voice.provider.server.more_paths = ()


def dialogue() -> list[Json]:
    said = ["My bird is a heron.", "Noted, a heron.", "My tree is an alder.", "Noted, an alder.", "Fine.", "Yes?"]
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]


def compacted(gateway: Gateway, **body: Any) -> Json:
    with gateway.http() as http:
        answer = http.post("/v1/responses/compact", json=body)
    assert answer.status_code == 200, answer.text
    value: Json = answer.json()
    assert not problems_of("CompactResource", value)
    assert [item["type"] for item in value["output"]].count("compaction") == 1
    assert value["output"][-1]["type"] == "compaction"
    return value


def text_of(voice: Voice) -> str:
    return json.dumps(voice.bodies[-1])


@pytest.mark.promise("compaction-on-demand")
def test_the_official_client_compacts_and_goes_on(compacting_gateway: Gateway, translated: Voice) -> None:
    # In strict mode the client's type takes messages of the assistant only, against its own words.
    client = compacting_gateway.client(_strict_response_validation=False)
    made = client.responses.compact(model=translated.model, input=dialogue(), instructions="Be kind.")  # type: ignore[arg-type]
    assert (made.object, made.usage.total_tokens) == ("response.compaction", 0)
    assert [item.type for item in made.output] == ["message", "message", "message", "compaction"]

    translated.play("A heron and an alder.")
    again = [item.model_dump(exclude_none=True, warnings=False) for item in made.output]
    answer = client.responses.create(
        model=translated.model,
        input=[*again, {"role": "user", "content": "Which bird, which tree?"}],  # type: ignore[list-item]
    )
    assert answer.output_text == "A heron and an alder."
    said = text_of(translated)
    assert all(said.count(text) == 1 for text in ("My bird is a heron.", "My tree is an alder.", "Fine.", "Yes?"))
    assert "Noted, a heron." not in said
    assert LEFT_OUT in translated.told[-1].instructions


def test_a_chain_is_compacted_and_keeps_its_container_and_files(compacting_gateway: Gateway, translated: Voice) -> None:
    translated.play(translated.shell("echo heron > word; echo written"), "Written.")
    asked = [*dialogue(), {"role": "user", "content": "Write a word."}]
    first = events_of(compacting_gateway, model=translated.model, input=asked, tools=SHELL)[-1]["response"]
    made = compacted(compacting_gateway, model=translated.model, previous_response_id=first["id"])
    assert made["output"][-1]["container_id"] == first["container_id"]

    for strips in (False, True):
        translated.play(translated.shell("cat word", call_id="call_again"), "Heron.")
        output = [{k: v for k, v in item.items() if not strips or k != "container_id"} for item in made["output"]]
        more = [*output, {"role": "user", "content": "Which?"}]
        events = events_of(compacting_gateway, model=translated.model, input=more, tools=SHELL)
        check_events(events)
        (printed,) = items_of(events[-1]["response"], "shell_call_output")
        assert printed["output"][0]["stdout"] == "heron\n"
        told = translated.told[-1].instructions
        assert first["container_id"] in told
        assert "/mnt/data/word" in told


@pytest.mark.promise("compaction-trigger-gives-one-item")
@pytest.mark.parametrize("strategy", ["truncate", "llm"])
def test_a_trigger_gives_exactly_one_item(compacting_gateway: Gateway, translated: Voice, strategy: str) -> None:
    managed = [{"type": "compaction", "strategy": strategy}]
    translated.play("The bird is a heron.")
    asked = {"model": translated.model, "context_management": managed, "tools": SHELL, "store": False}
    events = events_of(compacting_gateway, input=[*dialogue(), TRIGGER], **asked)
    check_events(events)
    response = events[-1]["response"]
    check_response(response)
    kinds = [event["type"].removeprefix("response.") for event in events]
    compacting = ["compaction.compacting"] if strategy == "llm" else []
    assert kinds == ["created", "in_progress", "output_item.added", *compacting, "output_item.done", "completed"]
    (item,) = response["output"]
    assert len(translated.bodies) == (strategy == "llm")

    # A client may keep messages of the user beside it.
    users = [each for each in dialogue() if each["role"] == "user"]
    translated.play("Again.")
    more = [*users, item, {"role": "user", "content": "Well?"}]
    events_of(compacting_gateway, model=translated.model, input=more)
    said = text_of(translated)
    assert "Noted, a heron." not in said
    assert said.count("My tree is an alder.") in (1, 2)
    assert said.count('"Yes?"') == 1
    assert ("The bird is a heron." in said) == (strategy == "llm")


def test_a_trigger_compacts_a_chain(compacting_gateway: Gateway, translated: Voice) -> None:
    translated.play("Noted.")
    first = events_of(compacting_gateway, model=translated.model, input="My bird is a heron. " * 90)[-1]["response"]
    asked = {"model": translated.model, "previous_response_id": first["id"]}
    second = events_of(compacting_gateway, input=[TRIGGER], **asked)[-1]["response"]
    assert [item["type"] for item in second["output"]] == ["compaction"]
    translated.play("A heron.")
    asked = {"model": translated.model, "previous_response_id": second["id"], "input": "Which?"}
    assert events_of(compacting_gateway, **asked)[-1]["response"]["status"] == "completed"


def test_a_trigger_must_come_last(compacting_gateway: Gateway, translated: Voice) -> None:
    with compacting_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": translated.model, "input": [TRIGGER, *dialogue()]})
    assert answer.status_code == 400
    check_error(answer.json())
    assert answer.json()["error"]["param"] == "input[0]"


def test_there_must_be_something_to_compact(compacting_gateway: Gateway, translated: Voice) -> None:
    with compacting_gateway.http() as http:
        answer = http.post("/v1/responses/compact", json={"model": translated.model})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")


def provided(**more: Any) -> Refuse:
    """A provider's answer to `/responses/compact`."""
    usage = {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 42,
    }
    user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Write a word."}]}
    sealed = {"id": "cmp_" + "0" * 50, "type": "compaction", "encrypted_content": "gAAAA-of-the-provider"}
    output = [{**user, "id": "msg_" + "0" * 50, "status": "completed"}, sealed]
    value = {
        "id": "resp_" + "0" * 50,
        "object": "response.compaction",
        "created_at": 1,
        "output": output,
        "usage": usage,
    }
    return Refuse(200, body=json.dumps(value | more).encode())


@pytest.mark.promise("native-compaction-is-forwarded")
def test_a_provider_that_compacts_is_asked_to(compacting_gateway: Gateway, native: Voice) -> None:
    native.play(native.shell("echo heron > word"), "Written.")
    first = events_of(compacting_gateway, model=native.model, input="Write a word.", tools=SHELL)[-1]["response"]
    native.play(provided())
    made = compacted(compacting_gateway, model=native.model, previous_response_id=first["id"], instructions="Be kind.")
    (sent,) = native.bodies
    assert set(sent) == {"model", "input", "instructions"}
    assert (made["usage"]["total_tokens"], made["output"][-1]["encrypted_content"]) == (42, "gAAAA-of-the-provider")

    native.play(native.shell("cat word", call_id="call_again"), "Heron.")
    more = [*made["output"], {"role": "user", "content": "Which?"}]
    second = events_of(compacting_gateway, model=native.model, input=more, tools=SHELL)[-1]["response"]
    assert items_of(second, "shell_call_output")[0]["output"][0]["stdout"] == "heron\n"
    (sealed,) = [item for item in native.bodies[-1]["input"] if item["type"] == "compaction"]
    assert set(sealed) == {"id", "type", "encrypted_content"}


def test_where_the_provider_has_no_such_address_the_gateway_compacts(
    compacting_gateway: Gateway, voices: dict[str, Voice]
) -> None:
    voices["native"].play("Yes.")
    made = compacted(compacting_gateway, model=voices["native"].model, input=dialogue())
    assert made["output"][-1]["encrypted_content"].startswith("limpet.1.")
    more = [*made["output"], {"role": "user", "content": "Which bird?"}]
    assert (
        events_of(compacting_gateway, model=voices["native"].model, input=more)[-1]["response"]["status"] == "completed"
    )
    said = text_of(voices["native"])
    assert LEFT_OUT in said
    assert "limpet_left_out" not in said
    assert "limpet.1." not in said


def test_a_providers_refusal_is_its_own(compacting_gateway: Gateway, native: Voice) -> None:
    native.play(Refuse(400, message="Too long.", code="context_length_exceeded"))
    with compacting_gateway.http() as http:
        answer = http.post("/v1/responses/compact", json={"model": native.model, "input": "go"})
    assert answer.status_code == 400
    check_error(answer.json())
    assert answer.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.anyio
@pytest.mark.promise("compaction-on-demand")
async def test_the_agents_sdk_compacts_its_session(compacting_gateway: Gateway, voices: dict[str, Voice]) -> None:
    chat, model = voices["chat"], "chat/gpt-scripted"
    client = AsyncOpenAI(base_url=f"{compacting_gateway.url}/v1", api_key="none needed")
    kept = SQLiteSession("one")
    session = OpenAIResponsesCompactionSession("one", kept, client=client, model=model)
    agent = Agent(name="a", instructions="Be kind.", model=OpenAIResponsesModel(model, client))
    chat.play("Noted, a heron.", "Noted, an alder.", "Both.")
    plain = RunConfig(tracing_disabled=True)
    await Runner.run(agent, "My bird is a heron.", session=session, run_config=plain)
    await Runner.run(agent, "My tree is an alder.", session=session, run_config=plain)
    await session.run_compaction({"force": True})
    assert "compaction" in [item.get("type") for item in await kept.get_items()]
    result = await Runner.run(agent, "Which bird, which tree?", session=session, run_config=plain)
    assert result.final_output == "Both."
    said = text_of(chat)
    assert said.count("My bird is a heron.") == said.count("My tree is an alder.") == 1
    await client.close()
    kept.close()


SEALED = {"id": "cmp_" + "0" * 50, "type": "compaction", "encrypted_content": "gAAAA-of-the-provider"}


def test_a_provider_that_compacts_is_handed_the_trigger(compacting_gateway: Gateway, native: Voice) -> None:
    events = [
        Raw({"type": f"response.output_item.{end}", "output_index": 0, "item": SEALED}) for end in ("added", "done")
    ]
    native.play(reply(*events, input_tokens=30, output_tokens=12))
    told = events_of(compacting_gateway, model=native.model, input=[*dialogue(), TRIGGER], tools=SHELL)
    check_events(told)
    assert native.bodies[0]["input"][-1] == TRIGGER
    assert told[-1]["response"]["output"] == [SEALED]
    assert told[-1]["response"]["usage"]["total_tokens"] == 42


@pytest.mark.parametrize("answer", [Refuse(400, message="No such item."), "I do not know."], ids=["refused", "a text"])
def test_a_provider_that_does_not_know_the_trigger_is_helped(
    compacting_gateway: Gateway, native: Voice, answer: Any
) -> None:
    native.play(answer)
    told = events_of(compacting_gateway, model=native.model, input=[*dialogue(), TRIGGER])
    check_events(told)
    (item,) = told[-1]["response"]["output"]
    native.play("Yes.")
    events_of(compacting_gateway, model=native.model, input=[item, {"role": "user", "content": "Which bird?"}])
    assert LEFT_OUT in text_of(native)


def test_over_a_websocket_it_is_the_same(compacting_gateway: Gateway, translated: Voice) -> None:
    """Also in a chain that is stored nowhere."""
    asked = {"model": translated.model, "store": False, "context_management": [{"type": "compaction"}]}
    translated.play("Noted.", "Yes.", "Again.")
    outputs = []
    with compacting_gateway.client().responses.connect() as connection:
        before: Json = {}
        for text in ("Old. " * 900, "Well?", "And?"):
            connection.response.create(**asked, **before, input=text)
            ended = next(event for event in connection if event.type == "response.completed")
            outputs.append([item.type for item in ended.response.output])
            before = {"previous_response_id": ended.response.id}
    assert outputs == [["message"], ["compaction", "message"], ["message"]]
    assert LEFT_OUT in translated.told[-1].instructions

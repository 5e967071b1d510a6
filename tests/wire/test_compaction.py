"""Conversations that grow too long are compacted: by the gateway where the provider does not do it, and told as OpenAI tells it."""

import json
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.providers.turns import FunctionCall, Raw, Refuse, reply
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.schema import check_error, check_events, check_response
from tests.wire.streams import events_of, items_of
from tests.wire.voices import Voice

Json = dict[str, Any]
LONG = "seq 100000 100600"  # about 4 KB
LEFT_OUT = "earlier items of this conversation"
MANAGED = [{"type": "compaction"}]


@pytest.fixture(params=["chat", "anthropic"])
def translated(request: pytest.FixtureRequest, voices: dict[str, Voice]) -> Voice:
    return voices[request.param]


@pytest.fixture
def chat(voices: dict[str, Voice]) -> Voice:
    return voices["chat"]


def asked(gateway: Gateway, voice: Voice, **body: Any) -> Json:
    """The response to a streamed request, whose events hold."""
    events = events_of(gateway, **{"model": voice.model, "tools": SHELL, "context_management": MANAGED, **body})
    check_events(events)
    response: Json = events[-1]["response"]
    check_response(response)
    assert response["status"] == "completed", response["error"]
    return response


def messages(*texts: str) -> list[Json]:
    """A conversation of user and assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


def all_text(voice: Voice, turn: int = -1) -> str:
    return json.dumps(voice.bodies[turn])


@pytest.mark.promise(
    "compaction-crosses-a-threshold",
    "gateway-compacts-for-every-other-provider",
    "compaction-threshold-has-a-default",
    "compaction-strategy-falls-back-to-the-default",
    "hadrian-truncate-keeps-system-items-and-shows-its-marker",
    "hadrian-compaction-counts-shell-output",
    "newest-items-are-never-compacted",
)
def test_a_long_run_is_compacted_between_its_turns(compacting_gateway: Gateway, translated: Voice) -> None:
    calls = [translated.shell(f"{LONG}; touch file{turn}", call_id=f"call_{turn}") for turn in range(3)]
    translated.play(*calls, "Done.")
    given = [
        {"role": "developer", "content": "Speak softly."},
        *messages("Never delete a file.", "I will not."),
        {"role": "user", "content": "Count three times."},
    ]
    response = asked(compacting_gateway, translated, instructions="Be kind.", input=given)

    kinds = [item["type"] for item in response["output"]]
    call = ["shell_call", "shell_call_output"]
    assert kinds == [*call, "compaction", *call, "compaction", *call, "compaction", "message"]
    for number, told in enumerate(translated.told):
        # Each call that the model is told of has its output.
        assert (
            [id for id, _ in told.calls] == [id for id, _ in told.results] == [f"call_{n}" for n in range(number)][-1:]
        )
    last = translated.told[-1].instructions
    assert all(
        text in last for text in ("Be kind.", "Speak softly.", LEFT_OUT, "Never delete a file.", "/mnt/data/file2")
    )
    assert response["container_id"] in last
    assert "I will not." not in all_text(translated)
    assert "Count three times." in all_text(translated)


@pytest.mark.promise("compaction-is-a-sealed-item")
def test_an_item_is_taken_back_with_or_without_what_it_stands_for(
    compacting_gateway: Gateway, translated: Voice
) -> None:
    given = messages("The word is heron. " * 300, "Noted.", "And a second one: egret.", "Noted too.", "Which words?")
    translated.play("Heron and egret.")
    first = asked(compacting_gateway, translated, input=given)
    item, answer = first["output"]
    assert set(item) == {"id", "type", "encrypted_content"}
    assert item["id"].startswith("cmp_")
    assert "heron" not in item["encrypted_content"]

    heard = []
    for earlier in ([], given):
        translated.play("Again.")
        more = [*earlier, item, answer, {"role": "user", "content": "Once more?"}]
        response = asked(compacting_gateway, translated, input=more)
        assert [each["type"] for each in response["output"]] == ["message"]
        heard.append(translated.told[-1].instructions)
        assert all_text(translated).count("Which words?") == 1
        assert all_text(translated).count("heron") < 20
    assert heard[0] == heard[1]
    assert LEFT_OUT in heard[0]


def test_a_chain_goes_on_behind_it_and_in_its_container(compacting_gateway: Gateway, chat: Voice) -> None:
    chat.play(chat.shell(f"{LONG}; echo heron > word"), "Written.")
    first = asked(compacting_gateway, chat, input="Write a word.")
    chat.play("Yes.")
    second = asked(compacting_gateway, chat, input="Are you there?", previous_response_id=first["id"])
    chat.play(chat.shell("cat word"), "Heron.")
    third = asked(compacting_gateway, chat, input="Which word?", previous_response_id=second["id"])

    assert [item["type"] for item in second["output"]] == ["compaction", "message"]
    assert second["container_id"] == third["container_id"] == first["container_id"]
    assert items_of(third, "shell_call_output")[0]["output"][0]["stdout"] == "heron\n"
    assert "100600" not in all_text(chat, 0)
    assert first["container_id"] in chat.told[0].instructions


def test_input_alone_goes_on_in_the_container_of_what_was_compacted(compacting_gateway: Gateway, chat: Voice) -> None:
    chat.play(chat.shell(f"{LONG}; echo egret > word"), "Written.")
    first = asked(compacting_gateway, chat, input="Write a word.", store=False)
    chat.play("Yes.")
    history = [{"role": "user", "content": "Write a word."}, *first["output"], {"role": "user", "content": "Well?"}]
    second = asked(compacting_gateway, chat, input=history, store=False)
    chat.play(chat.shell("cat word"), "Egret.")
    sealed = [item for item in second["output"] if item["type"] == "compaction"]
    third = asked(compacting_gateway, chat, input=[*sealed, {"role": "user", "content": "Which word?"}], store=False)
    assert items_of(third, "shell_call_output")[0]["output"][0]["stdout"] == "egret\n"


@pytest.mark.promise("llm-summarises-what-is-dropped")
def test_a_summary_is_made_by_the_same_model_and_reaches_it(compacting_gateway: Gateway, translated: Voice) -> None:
    translated.play(reply("Two birds were named.", input_tokens=90, output_tokens=5), "Yes.")
    given = messages("The heron. " * 400, "Noted.", "The egret.", "Noted too.", "Well?")
    managed = [{"type": "compaction", "compact_threshold": 1000, "strategy": "llm", "prompt": "Name birds."}]
    response = asked(compacting_gateway, translated, input=given, context_management=managed)

    summary, turn = translated.told
    assert summary.instructions == "Name birds."
    assert not summary.tools
    assert "User: The heron." in json.loads(json.dumps(all_text(translated, 0)))
    assert "Two birds were named." in turn.instructions
    assert "The heron." not in all_text(translated)
    assert response["usage"]["total_tokens"] == 90 + 5 + 11 + 7


@pytest.mark.parametrize("failure", [Refuse(400), reply("", ends="completed")], ids=["refused", "nothing said"])
@pytest.mark.promise("llm-summarises-what-is-dropped")
def test_without_a_summary_it_truncates(compacting_gateway: Gateway, chat: Voice, failure: Any) -> None:
    chat.play(failure, "Yes.")
    given = messages("The heron. " * 400, "Noted.", "The egret.", "Noted too.", "Well?")
    managed = [{"type": "compaction", "strategy": "llm"}]
    response = asked(compacting_gateway, chat, input=given, context_management=managed)
    assert [item["type"] for item in response["output"]] == ["compaction", "message"]
    assert LEFT_OUT in chat.told[-1].instructions


@pytest.mark.promise("truncate-drops-the-oldest-items")
def test_no_more_is_dropped_than_must_be(compacting_gateway: Gateway, chat: Voice) -> None:
    chat.play("Yes.")
    given = messages("Old. " * 600, "Middle. " * 100, "Newer. " * 100, "New. " * 100, "Well?")
    managed = [{"type": "compaction", "compact_threshold": 1000}]
    asked(compacting_gateway, chat, input=given, context_management=managed, tools=[])
    text = all_text(chat)
    assert "Old. Old. Old. " * 20 not in text
    assert all(word * 5 in text for word in ("Middle. ", "Newer. ", "New. "))


def test_below_the_threshold_nothing_happens(compacting_gateway: Gateway, chat: Voice) -> None:
    chat.play("Yes.")
    managed = [{"type": "compaction", "compact_threshold": 100_000}]
    response = asked(compacting_gateway, chat, input=messages("a " * 4000, "b", "c"), context_management=managed)
    assert [item["type"] for item in response["output"]] == ["message"]


def test_the_providers_own_count_is_believed_and_not_forever(compacting_gateway: Gateway, chat: Voice) -> None:
    """A provider that always counts the same is compacted for once, not at every turn."""
    turns = [reply(chat.shell(f"echo {n}", call_id=f"call_{n}"), input_tokens=50_000) for n in range(4)]
    chat.play(*turns, reply("Done.", input_tokens=50_000))
    response = asked(
        compacting_gateway,
        chat,
        input="Count.",
        context_management=[{"type": "compaction", "compact_threshold": 12_000}],
    )
    assert len(items_of(response, "compaction")) == 1


def test_an_output_of_the_clients_own_call_follows_its_call(compacting_gateway: Gateway, chat: Voice) -> None:
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    chat.play(FunctionCall("look", {}, call_id="call_look"))
    first = asked(compacting_gateway, chat, input=messages("Old. " * 900, "Yes.", "Look."), tools=[tool])
    assert [item["type"] for item in first["output"]] == ["compaction", "function_call"]
    chat.play("Seen.")
    output = {"type": "function_call_output", "call_id": "call_look", "output": "New. " * 900}
    asked(compacting_gateway, chat, input=[output], previous_response_id=first["id"], tools=[tool])
    assert [id for id, _ in chat.told[-1].calls] == [id for id, _ in chat.told[-1].results] == ["call_look"]


def test_the_built_in_model_does_nothing_twice(compacting_gateway: Gateway) -> None:
    blocks = shell_blocks(*(f"{LONG}; echo {n} >> ran" for n in range(4)), "cat ran")
    events = events_of(compacting_gateway, model="limpet/script", input=blocks, tools=SHELL, context_management=MANAGED)
    check_events(events)
    response = events[-1]["response"]
    outputs = items_of(response, "shell_call_output")
    assert len(items_of(response, "compaction")) >= 2
    assert (len(outputs), outputs[-1]["output"][0]["stdout"]) == (5, "0\n1\n2\n3\n")


SEALED_ELSEWHERE = {"garbage": "limpet.1.AAAA", "another provider's": "gAAAAABplLMg"}


@pytest.mark.promise("foreign-compaction-is-refused")
@pytest.mark.parametrize("content", SEALED_ELSEWHERE.values(), ids=SEALED_ELSEWHERE.keys())
def test_what_does_not_open_is_refused(compacting_gateway: Gateway, chat: Voice, content: str) -> None:
    given = [{"type": "compaction", "id": "cmp_1", "encrypted_content": content}, {"role": "user", "content": "Go."}]
    with compacting_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": chat.model, "input": given})
    assert answer.status_code == 400
    check_error(answer.json())
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_encrypted_content", "input[0].encrypted_content")


@pytest.mark.promise("gateway-compaction-is-opt-in")
def test_it_is_off_until_the_operator_says_so(speaking_gateway: Gateway, chat: Voice) -> None:
    chat.play("Yes.")
    given = messages("Old. " * 900, "Yes.", "Go.")
    response = asked(
        speaking_gateway, chat, input=given, context_management=[{"type": "compaction", "compact_threshold": 1000}]
    )
    assert [item["type"] for item in response["output"]] == ["message"]
    assert "not followed" in response["notes"][0]


def test_what_is_left_begins_with_the_user(compacting_gateway: Gateway, translated: Voice) -> None:
    translated.play("Yes.")
    asked(compacting_gateway, translated, input=messages("Old. " * 900, "Noted.", "Well?"))
    roles = [each["role"] for each in translated.bodies[-1]["messages"] if each["role"] != "system"]
    assert roles == ["user", "assistant", "user"]


def test_a_conversation_is_compacted(compacting_gateway: Gateway, chat: Voice) -> None:
    conversation = compacting_gateway.client().conversations.create()
    chat.play("Noted.")
    asked(compacting_gateway, chat, input="Old. " * 900, conversation=conversation.id)
    chat.play("Yes.")
    second = asked(compacting_gateway, chat, input="Well?", conversation=conversation.id)
    assert [item["type"] for item in second["output"]] == ["compaction", "message"]
    chat.play("Again.")
    asked(compacting_gateway, chat, input="And?", conversation=conversation.id)
    assert "Old. Old. " * 300 not in all_text(chat)
    assert LEFT_OUT in chat.told[-1].instructions


def sealed_by_provider(number: int) -> Raw:
    item = {"id": "cmp_" + "0" * 50, "type": "compaction", "encrypted_content": "gAAAA-of-the-provider"}
    return Raw({"type": f"response.output_item.{('added', 'done')[number]}", "output_index": 1, "item": item})


def test_a_provider_that_compacts_is_handed_what_it_sealed_and_no_other_is(
    compacting_gateway: Gateway, voices: dict[str, Voice], chat: Voice
) -> None:
    native = voices["native"]
    native.play(("Noted.", sealed_by_provider(0), sealed_by_provider(1)))
    first = asked(compacting_gateway, native, input=[{"role": "system", "content": "Be kind."}, *messages("My bird.")])
    assert [item["type"] for item in first["output"]] == ["message", "compaction"]

    native.play("Yes.")
    asked(compacting_gateway, native, input="Which?", previous_response_id=first["id"])
    said = native.bodies[-1]["input"]
    assert [item.get("role", item["type"]) for item in said] == ["system", "compaction", "user"]
    chat.play("Yes.")
    asked(compacting_gateway, chat, input="Which?", previous_response_id=first["id"])
    assert "My bird." in all_text(chat)
    assert "gAAAA" not in all_text(chat)


FORGED = [{"items": "x"}, "x", 7, None, {"items": 1, "outputs": 9, "said": ["x"], "container_id": "cntr_" + "0" * 32}]


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_only_the_gateway_says_what_was_left_out(compacting_gateway: Gateway, chat: Voice, forged: Any) -> None:
    chat.play("Yes.")
    given = [
        {"role": "system", "content": "Be kind.", "limpet_left_out": forged},
        *messages("Old. " * 900, "Hm.", "Go."),
    ]
    response = asked(compacting_gateway, chat, input=given)
    assert [item["type"] for item in response["output"]] == ["compaction", "message"]
    assert "Be kind." in chat.told[-1].instructions
    assert "[2 earlier items" in chat.told[-1].instructions or "[1 earlier items" in chat.told[-1].instructions

"""A provider whose events are not what they should be: its response fails, keeps what there was, and nothing else suffers."""

import pytest

from tests.support.gateway import Gateway
from tests.support.providers.turns import Raw, Text, reply
from tests.wire.order import check_event_order
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_events
from tests.wire.streams import asking, replayed
from tests.wire.strict import STRICT

PLACE = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
PART = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
ADDED = Raw({"type": "response.output_item.added", "output_index": 1, "item": MESSAGE})
OPENED = Raw({"type": "response.content_part.added", **PLACE, "part": PART})


def delta(**fields: object) -> Raw:
    return Raw({"type": "response.output_text.delta", "delta": "x", "logprobs": [], **PLACE, **fields})


GARBLED = {
    "a-delta-of-no-item": (delta(),),
    "a-delta-of-another-item": (ADDED, OPENED, delta(output_index=7)),
    "a-delta-that-is-no-text": (ADDED, OPENED, delta(delta=None)),
    "a-part-far-away": (ADDED, OPENED, delta(content_index=10**12)),
    "an-item-that-is-a-number": (Raw({"type": "response.output_item.added", "output_index": 1, "item": 5}),),
    "an-item-whose-content-is-a-text": (
        Raw({"type": "response.output_item.added", "output_index": 1, "item": MESSAGE | {"content": "x"}}),
    ),
    "an-item-twice": (ADDED, ADDED),
    "a-type-that-is-a-list": (ADDED, Raw({"type": ["response.output_text.delta"], **PLACE})),
    "annotations-that-are-a-number": (
        ADDED,
        Raw({"type": "response.content_part.done", **PLACE, "part": PART | {"annotations": 5}}),
    ),
    "a-call-that-is-a-text": (
        Raw({"type": "response.output_item.added", "output_index": 1, "item": {"type": "shell_call", "id": "s"}}),
        Raw({"type": "response.output_item.done", "output_index": 1, "item": {"type": "shell_call", "action": "ls"}}),
    ),
}


@pytest.mark.parametrize("said", GARBLED.values(), ids=GARBLED)
def test_a_garbled_answer_fails_its_own_response_and_keeps_what_there_was(
    provider: Provider, scripted_gateway: Gateway, said: tuple[Raw, ...]
) -> None:
    provider.play(reply("Before.", *said))
    tools = [{"type": "shell"}]
    with asking(scripted_gateway, model=MODEL, input="go", tools=tools) as stream:
        events = stream.rest()

    check_events(events)
    check_event_order(events)
    final = events[-1]["response"]
    assert (final["status"], final["error"]["code"]) == ("failed", "server_error")
    assert "provider scripted broke off" in final["error"]["message"]
    assert final["output"][0]["content"][0]["text"] == "Before."
    assert replayed(scripted_gateway, final["id"]) == events
    with scripted_gateway.http() as http:
        assert http.get(f"/v1/responses/{final['id']}").json() == final


def test_the_next_response_is_none_the_worse(provider: Provider, scripted_gateway: Gateway) -> None:
    provider.play(reply(Text("Before."), *GARBLED["a-part-far-away"]), "All well.")
    with scripted_gateway.client() as client:
        first = client.responses.create(model=MODEL, input="go")
        second = client.responses.create(model=MODEL, input="go", previous_response_id=first.id)

    assert (first.status, second.status) == ("failed", "completed")
    assert second.output_text == "All well."


def ended(kind: str, **response: object) -> Raw:
    return Raw({"type": kind, "response": {"id": "resp_p", "output": [], **response}})


STRANGE = {
    "a-code-of-its-own": (
        ended("response.failed", error={"code": "model_overloaded", "message": "Busy."}),
        {"error": {"code": "server_error", "message": "Busy. (The provider's code is model_overloaded.)"}},
    ),
    "a-code-that-all-know": (
        ended("response.failed", error={"code": "image_too_large", "message": "Cut it."}),
        {"error": {"code": "image_too_large", "message": "Cut it."}},
    ),
    "an-error-event-of-its-own": (
        Raw({"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}),
        {
            "error": {
                "code": "server_error",
                "message": "Busy. (The provider's code is overloaded_error.)",
                "type": "overloaded_error",
            }
        },
    ),
    "a-reason-of-its-own": (
        ended("response.incomplete", incomplete_details={"reason": "stop_sequence"}),
        {"status": "incomplete", "incomplete_details": {}},
    ),
    "a-reason-that-is-a-list": (
        ended("response.incomplete", incomplete_details={"reason": ["x"]}),
        {"status": "incomplete", "incomplete_details": {}},
    ),
    "a-reason-that-all-know": (
        ended("response.incomplete", incomplete_details={"reason": "content_filter"}),
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    ),
}


@pytest.mark.promise("a-providers-own-end-is-told-in-words-of-the-api")
@pytest.mark.parametrize("last, shown", STRANGE.values(), ids=STRANGE)
def test_an_end_in_words_of_its_own_is_told_in_those_that_strict_clients_know(
    provider: Provider, scripted_gateway: Gateway, last: Raw, shown: dict[str, object]
) -> None:
    provider.play(reply("Before.", last))
    with asking(scripted_gateway, model=MODEL, input="go") as stream:
        events = stream.rest()

    check_events(events)
    STRICT.events(events)
    final = events[-1]["response"]
    assert {key: final[key] for key in shown} == shown
    assert final["output"][0]["content"][0]["text"] == "Before."

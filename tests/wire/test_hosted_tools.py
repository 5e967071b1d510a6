"""Tools and items that are none of the gateway's: relayed where the provider knows them, elsewhere refused by name, never a crash."""

from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.providers.turns import Raw
from tests.wire.asking import SHELL
from tests.wire.order import check_event_order
from tests.wire.schema import check_error, check_events, check_response
from tests.wire.streams import events_of
from tests.wire.voices import TRANSLATED, Voice

Json = dict[str, Any]
RESPONSES = ("native", "function")
TOOLS = {
    "web_search": {"type": "web_search", "search_context_size": "low"},
    "mcp": {"type": "mcp", "server_label": "wiki", "server_url": "https://mcp.example.com/mcp"},
    "file_search": {"type": "file_search", "vector_store_ids": ["vs_1"]},
    "code_interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
    "namespace": {"type": "namespace", "name": "crm", "description": "Customers.", "tools": []},
    "quantum": {"type": "quantum", "bits": [0, 1]},
}
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "action": {"type": "search", "query": "limpets", "queries": ["limpets"]},
}
ODD = {"id": "qt_1", "type": "quantum_call", "status": "completed", "spin": {"up": 1}}


def announced(item: Json, index: int, *between: str) -> tuple[Raw, ...]:
    """The events of an item that the scripted provider has no words for; `between` are those of its progress."""
    place = {"item_id": item["id"], "output_index": index}
    begun, done = {**item, "status": "in_progress"}, {**item, "status": "completed"}
    return (
        Raw({"type": "response.output_item.added", "output_index": index, "item": begun}),
        *(Raw({"type": f"response.{kind}", **place}) for kind in between),
        Raw({"type": "response.output_item.done", "output_index": index, "item": done}),
    )


@pytest.mark.promise("hosted-tools-of-others-are-relayed-or-refused")
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kind", RESPONSES)
def test_a_providers_own_tools_are_relayed(
    speaking_gateway: Gateway, voices: dict[str, Voice], kind: str, tool: str
) -> None:
    voice = voices[kind]
    voice.play("I know none.")
    response = events_of(speaking_gateway, model=voice.model, input="go", tools=[*SHELL, TOOLS[tool]])[-1]["response"]

    assert response["status"] == "completed"
    assert response["tools"][1] == TOOLS[tool]
    assert voice.bodies[0]["tools"][1] == TOOLS[tool]


@pytest.mark.parametrize("kind", RESPONSES)
def test_what_a_providers_own_tool_did_is_shown_between_our_calls_and_told_again(
    speaking_gateway: Gateway, voices: dict[str, Voice], kind: str
) -> None:
    voice = voices[kind]
    progress = [f"web_search_call.{step}" for step in ("in_progress", "searching", "completed")]
    voice.play((voice.shell("echo hello"), *announced(SEARCH, 1, *progress)), "Found.")
    asked = {"model": voice.model, "input": "go", "tools": [*SHELL, TOOLS["web_search"]], "stream": True}
    with speaking_gateway.client().responses.create(**asked) as stream:
        events = [event.to_dict() for event in stream]

    check_events(events)
    check_event_order(events)
    final = events[-1]["response"]
    kinds = [item["type"] for item in final["output"]]
    assert kinds == ["shell_call", "shell_call_output", "web_search_call", "message"]
    assert final["output"][2] == {**SEARCH, "status": "completed"}
    assert [event["output_index"] for event in events if "web_search_call." in event["type"]] == [2, 2, 2]
    assert final["output"][2] in voice.bodies[1]["input"]


@pytest.mark.promise("hosted-tools-of-others-are-relayed-or-refused")
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("model", [*(f"{kind}/m" for kind in TRANSLATED), "limpet/script"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_elsewhere_they_are_refused_by_name(speaking_gateway: Gateway, model: str, tool: str, streamed: bool) -> None:
    body = {"model": model, "input": "go", "tools": [*SHELL, TOOLS[tool]], "stream": streamed}
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json=body)

    assert answer.status_code == 400, answer.text
    check_error(answer.json())
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_tool", "tools")
    assert repr(tool) in error["message"]


@pytest.mark.parametrize("kind", RESPONSES)
def test_items_and_events_that_nobody_knows_yet_pass_through(
    speaking_gateway: Gateway, voices: dict[str, Voice], kind: str
) -> None:
    voice = voices[kind]
    spun = Raw({"type": "response.quantum.spun", "output_index": 1, "item_id": "qt_1", "spin": "down"})
    bare = Raw({"type": "response.weather", "sky": "grey"})
    added, done = announced(ODD, 1)
    voice.play((voice.shell("echo hello"), added, spun, bare, done), "Spun.", "Again.")
    events = events_of(speaking_gateway, model=voice.model, input="go", tools=SHELL)
    again = events_of(
        speaking_gateway,
        model=voice.model,
        input="more",
        tools=SHELL,
        previous_response_id=events[-1]["response"]["id"],
    )

    final = events[-1]["response"]
    assert final["status"] == "completed"
    assert final["output"][2] == ODD
    (seen,) = [event for event in events if event["type"] == "response.quantum.spun"]
    assert (seen["spin"], seen["output_index"]) == ("down", 2)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert ODD in voice.bodies[1]["input"]
    assert ODD in voice.bodies[2]["input"]
    assert again[-1]["response"]["status"] == "completed"


@pytest.mark.parametrize("given", [ODD, {"type": "quantum_call_output", "call_id": "call_9", "output": None}])
def test_input_items_that_nobody_knows_are_relayed_or_refused_by_name(
    speaking_gateway: Gateway, voice: Voice, given: Json
) -> None:
    voice.play("Fine.")
    body = {"model": voice.model, "input": [{"role": "user", "content": "go"}, given]}
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json=body)

    if voice.is_responses:
        check_response(answer.json())
        assert voice.bodies[0]["input"][1] == given
    else:
        check_error(answer.json())
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "input"
        assert repr(given["type"]) in answer.json()["error"]["message"]
        assert voice.bodies == []


@pytest.mark.parametrize(
    "part",
    [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}, {"type": "input_smell", "of": "sea"}],
    ids=lambda part: part["type"],
)
def test_content_that_nobody_knows_is_relayed_or_refused_by_name(
    speaking_gateway: Gateway, voice: Voice, part: Json
) -> None:
    voice.play("Fine.")
    body = {"model": voice.model, "input": [{"role": "user", "content": [part]}]}
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json=body)

    if voice.is_responses:
        check_response(answer.json())
        assert voice.bodies[0]["input"][0]["content"] == [part]
    else:
        check_error(answer.json())
        assert answer.status_code == 400
        assert repr(part["type"]) in answer.json()["error"]["message"]


@pytest.mark.parametrize("given", [ODD, {"role": "user", "content": [{"type": "input_smell", "of": "sea"}]}])
def test_the_built_in_model_reads_past_what_it_does_not_know(speaking_gateway: Gateway, given: Json) -> None:
    asked = [given, {"role": "user", "content": "```sh\necho hello\n```"}]
    events = events_of(speaking_gateway, model="limpet/script", input=asked, tools=SHELL)

    check_events(events)
    assert events[-1]["response"]["status"] == "completed"
    assert events[-1]["response"]["output"][1]["output"][0]["stdout"] == "hello\n"

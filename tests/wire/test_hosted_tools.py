"""Tools and items that are none of the gateway's: relayed where the provider knows them, elsewhere left out and named, never a crash."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Gateway, running
from tests.support.providers.turns import FunctionCall, Raw
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


@pytest.mark.promise("hosted-tools-of-others-are-relayed-or-left-out")
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


HOSTED = [name for name in TOOLS if name != "namespace"]
ELSEWHERE = [*(f"{kind}/m" for kind in TRANSLATED), "limpet/script"]


@pytest.mark.promise("hosted-tools-of-others-are-relayed-or-left-out")
@pytest.mark.parametrize("model", ELSEWHERE)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_elsewhere_they_are_left_out_and_named_in_header_note_and_log(
    speaking_gateway: Gateway, voices: dict[str, Voice], model: str, streamed: bool
) -> None:
    voice = voices.get(model.partition("/")[0])
    if voice is not None:
        voice.play(voice.shell("echo hello"), "Done.")
    tools = [*SHELL, *(TOOLS[name] for name in HOSTED)]
    body = {"model": model, "input": "```sh\necho hello\n```", "tools": tools, "stream": streamed}
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json=body)

    assert answer.status_code == 200, answer.text
    assert answer.headers["limpet-tools-left-out"] == ", ".join(HOSTED)
    response = json.loads(answer.text.split("data: ")[-2]) if streamed else answer.json()
    response = response.get("response", response)
    check_response({**response, "tools": response["tools"][:-1]})  # the last is of no type that there is
    provider = model.partition("/")[0]
    assert response["notes"] == [
        f"The tool {name} was left out: the provider {provider} cannot run it." for name in HOSTED
    ]
    assert [item["type"] for item in response["output"]] == ["shell_call", "shell_call_output", "message"]
    assert response["tools"][1:] == tools[1:]
    if voice is not None:
        assert list(voice.told[0].tools) == ["shell"]
    log = speaking_gateway.log.read_text().splitlines()
    (logged,) = [line for line in log if response["id"] in line and "tools_left_out" in line]
    assert all(name in logged for name in HOSTED)


def test_without_such_tools_there_is_no_note(speaking_gateway: Gateway) -> None:
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": "limpet/script", "input": "hi", "tools": SHELL})
    assert "limpet-tools-left-out" not in answer.headers
    assert "notes" not in answer.json()


@pytest.mark.promise("hosted-tools-of-others-are-relayed-or-left-out")
@pytest.mark.parametrize("model", ELSEWHERE)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "choice, tools",
    [
        ({"type": "web_search"}, [*SHELL, TOOLS["web_search"]]),
        ({"type": "mcp", "server_label": "wiki"}, [*SHELL, TOOLS["mcp"]]),
        ("required", [TOOLS["web_search"]]),
        ("required", [TOOLS["web_search"], TOOLS["namespace"]]),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}, [TOOLS["web_search"]]),
    ],
    ids=["itself", "a-server", "required", "required-with-an-empty-namespace", "allowed"],
)
def test_elsewhere_they_are_refused_where_they_are_forced(
    speaking_gateway: Gateway, model: str, streamed: bool, choice: Any, tools: list[Json]
) -> None:
    body = {"model": model, "input": "go", "tools": tools, "tool_choice": choice, "stream": streamed}
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json=body)

    assert answer.status_code == 400, answer.text
    check_error(answer.json())
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_tool", "tool_choice")
    assert repr("mcp" if tools[-1] == TOOLS["mcp"] else "web_search") in error["message"]


@pytest.mark.parametrize("kind", TRANSLATED)
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_of_the_tools_that_are_allowed_they_are_left_out(
    speaking_gateway: Gateway, voices: dict[str, Voice], kind: str, mode: str
) -> None:
    voice = voices[kind]
    voice.play("Fine.")
    allowed = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "web_search"}, {"type": "shell"}]}
    tools = [*SHELL, TOOLS["web_search"]]
    events_of(speaking_gateway, model=voice.model, input="go", tools=tools, tool_choice=allowed)

    assert list(voice.told[0].tools) == ["shell"]


def test_a_type_that_no_header_can_carry_is_put_in_plain_letters(speaking_gateway: Gateway) -> None:
    tools = [{"type": "evil\r\nset-cookie: a=b"}, {"type": "ü" * 300}]
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": "limpet/script", "input": "hi", "tools": tools})

    assert answer.status_code == 200
    assert answer.headers["limpet-tools-left-out"] == f"evil__set-cookie:_a_b, {'_' * 64}"
    assert "set-cookie" not in answer.headers


@pytest.mark.promise("hosted-tools-can-be-refused")
@pytest.mark.parametrize("tool", HOSTED)
def test_where_the_operator_refuses_them_that_is_400_before_anything_is_made(
    refusing_gateway: Gateway, tool: str
) -> None:
    tools = [*SHELL, TOOLS[tool]]
    with refusing_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": "limpet/script", "input": "go", "tools": tools})
        inside = [{**TOOLS["namespace"], "tools": [TOOLS[tool]]}]
        within = http.post("/v1/responses", json={"model": "limpet/script", "input": "go", "tools": inside})
        listed = http.get("/v1/containers").json()["data"]

    for refused in (answer, within):
        assert refused.status_code == 400, refused.text
        error = refused.json()["error"]
        assert (error["code"], error["param"]) == ("unsupported_tool", "tools")
        assert repr(tool) in error["message"]
    assert listed == []


@pytest.fixture(scope="module")
def refusing_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = '[features.server_tools]\nunsupported = "refuse"\n'
    with running(tmp_path_factory.mktemp("refusing"), config=config) as gateway:
        yield gateway


LOOK_UP = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}
NOTE = {"type": "custom", "name": "note", "description": "Writes a note."}
CRM = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [LOOK_UP, NOTE]}


@pytest.mark.promise("namespaces-are-flattened-and-back")
@pytest.mark.parametrize("kind", TRANSLATED)
@pytest.mark.parametrize("chained", [False, True], ids=["history", "chain"])
def test_a_namespace_is_flattened_into_its_functions_and_their_calls_come_back_as_its(
    speaking_gateway: Gateway, voices: dict[str, Voice], kind: str, chained: bool
) -> None:
    voice = voices[kind]
    voice.play(
        (
            FunctionCall("crm__look_up", {"id": 1}, call_id="call_1"),
            FunctionCall("crm__note", {"input": "a\nb"}, call_id="call_2"),
        ),
        "Both done.",
    )
    tools = [*SHELL, CRM]
    events = events_of(speaking_gateway, model=voice.model, input="go", tools=tools)
    check_events(events)
    check_event_order(events)
    first = events[-1]["response"]
    outputs = [
        {"type": "function_call_output", "call_id": "call_1", "output": "Ann"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "written"},
    ]
    before = [] if chained else [{"role": "user", "content": "go"}, *first["output"]]
    again = {"previous_response_id": first["id"]} if chained else {}
    events_of(speaking_gateway, model=voice.model, input=[*before, *outputs], tools=tools, **again)

    assert list(voice.told[0].tools) == ["shell", "crm__look_up", "crm__note"]
    function, custom = first["output"]
    assert (function["type"], function["name"], function["namespace"]) == ("function_call", "look_up", "crm")
    assert (custom["type"], custom["name"], custom["namespace"]) == ("custom_tool_call", "note", "crm")
    assert (function["arguments"], custom["input"]) == ('{"id": 1}', "a\nb")
    assert voice.told[1].calls == [("call_1", {"id": 1}), ("call_2", {"input": "a\nb"})]
    assert voice.told[1].results == [("call_1", "Ann"), ("call_2", "written")]


@pytest.mark.parametrize("kind", TRANSLATED)
@pytest.mark.parametrize(
    "choice", [{"type": "function", "name": "look_up"}, {"type": "custom", "name": "note"}], ids=["function", "custom"]
)
def test_a_tool_in_a_namespace_can_be_chosen(
    speaking_gateway: Gateway, voices: dict[str, Voice], kind: str, choice: Json
) -> None:
    voice = voices[kind]
    voice.play("Fine.")
    events_of(speaking_gateway, model=voice.model, input="go", tools=[CRM], tool_choice=choice)

    assert f"crm__{choice['name']}" in json.dumps(voice.told[0].choice)


@pytest.mark.parametrize(
    "tool, param",
    [
        ({"type": "namespace", "name": "crm"}, "tools[0].tools"),
        ({"type": "namespace", "tools": []}, "tools[0].name"),
        ({**CRM, "tools": [{"type": "function", "name": "a b"}]}, "tools[0].tools[0].name"),
        ({**CRM, "tools": [{"name": "a"}]}, "tools[0].tools[0].type"),
        ({**CRM, "tools": ["a"]}, "tools[0].tools[0]"),
        ({"type": "custom"}, "tools[0].name"),
    ],
)
def test_a_tool_that_is_no_tool_is_refused_with_its_place(speaking_gateway: Gateway, tool: Json, param: str) -> None:
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": "chat/m", "input": "go", "tools": [tool]})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("item", [{"type": "custom_tool_call"}, {"type": "custom_tool_call_output"}])
def test_an_item_of_a_custom_tool_that_is_none_is_refused(speaking_gateway: Gateway, item: Json) -> None:
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": "chat/m", "input": [item]})
        orphan = {"type": "custom_tool_call_output", "call_id": "call_x", "output": "x"}
        lonely = http.post("/v1/responses", json={"model": "chat/m", "input": [orphan]})
    assert (answer.status_code, lonely.status_code) == (400, 400)
    assert "No tool call found for custom tool call output" in lonely.json()["error"]["message"]


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

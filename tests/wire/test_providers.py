"""The same request behind every kind of provider: the shell runs, the client sees OpenAI's shapes, the model is told what it must know."""

import base64
import json
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.providers.turns import FunctionCall, Reasoning
from tests.wire.asking import SHELL
from tests.wire.order import check_event_order
from tests.wire.schema import check_create_response, check_events, check_required_keys, check_response
from tests.wire.streams import items_of
from tests.wire.voices import KEY, Voice

Json = dict[str, Any]
LOOKUP = {
    "type": "function",
    "name": "lookup",
    "description": "Looks up.",
    "parameters": {"type": "object"},
    "strict": False,
}
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
# What only the gateway knows: its extension fields, its annotations, the ids of its containers and files.
OURS = ("container_file_citation", "output_files", "container_id", "expires_at", "idle_ttl_secs", "cntr_", "cfile_")


@pytest.mark.parametrize("name", ["chat", "anthropic", "bedrock", "gemini"])
def test_json_of_any_form_is_asked_for(speaking_gateway: Gateway, voices: dict[str, Voice], name: str) -> None:
    """By the wire's own means, or in words."""
    voice = voices[name]
    voice.play('{"a": 1}')
    response = speaking_gateway.client().responses.create(
        model=voice.model, input="JSON, please.", instructions="Be brief.", text={"format": {"type": "json_object"}}
    )
    assert (response.output_text, voice.told[0].instructions[:9]) == ('{"a": 1}', "Be brief.")
    is_told = "Answer with one JSON object" in voice.told[0].instructions
    assert is_told is (name != "chat")
    assert (voice.bodies[0].get("response_format") == {"type": "json_object"}) is (name == "chat")


def ask(gateway: Gateway, voice: Voice, *, streamed: bool = True, **asked: Any) -> Json:
    """The response at its end, from the official strict client. Every event, and what the provider was sent, is looked at."""
    asked = {"model": voice.model, "input": "go", "tools": SHELL} | asked
    if streamed:
        with gateway.client().responses.create(**asked, stream=True) as stream:
            events = [event.to_dict() for event in stream]
        check_events(events)
        check_event_order(events)
        response: Json = events[-1]["response"]
    else:
        response = gateway.client().responses.create(**asked).to_dict()
    check_response(response)
    check_required_keys(response)
    check_sent(voice)
    return response


def check_sent(voice: Voice) -> None:
    """What went to the provider is of its own world: nothing of ours, nothing that it would keep, the key in a header only."""
    for request in voice.provider.server.requests:
        sent = json.dumps(request.body)
        assert [ours for ours in OURS if ours in sent] == []
        assert KEY not in sent
        assert [name for name, value in request.headers.items() if KEY in value] in (
            ["authorization"],
            ["x-api-key"],
            ["x-goog-api-key"],
            ["api-key"],
        )
        assert request.body.get("stream") is True or voice.kind.streams_by_address
        if voice.is_responses:
            check_create_response(request.body)
            assert request.body["store"] is False
            assert "previous_response_id" not in request.body
            assert "reasoning.encrypted_content" in request.body["include"]


def kinds_of(response: Json) -> list[str]:
    return [item["type"] for item in response["output"]]


def text_of(response: Json) -> str:
    return "".join(part["text"] for item in items_of(response, "message") for part in item["content"])


@STREAMED
def test_a_text_is_relayed_whole(speaking_gateway: Gateway, voice: Voice, streamed: bool) -> None:
    voice.play("Hello, dear — world 🌍.")
    response = ask(speaking_gateway, voice, streamed=streamed, tools=[], instructions="Be kind.", temperature=0.5)

    assert (response["status"], text_of(response)) == ("completed", "Hello, dear — world 🌍.")
    assert (response["model"], response["temperature"]) == (voice.model, 0.5)
    assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == (11, 7)
    (told,) = voice.told
    assert told.instructions == "Be kind."
    assert told.tools == {}
    (request,) = voice.provider.server.requests
    options = request.body.get("inferenceConfig") or request.body.get("generationConfig") or request.body
    assert options["temperature"] == 0.5
    assert request.body.get("model", voice.kind.model_name) == voice.kind.model_name
    assert "model" in request.body or voice.kind.model_name in request.path


@STREAMED
def test_reasoning_is_shown_and_goes_back_to_who_thought_it(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    voice.play((Reasoning("I should look."), voice.shell("echo looked")), "Seen.")
    response = ask(speaking_gateway, voice, streamed=streamed)

    assert kinds_of(response) == ["reasoning", "shell_call", "shell_call_output", "message"]
    assert response["output"][0]["summary"] == [{"type": "summary_text", "text": "I should look."}]
    thoughts = voice.told[1].thoughts
    match voice.kind.name:
        case "anthropic":
            assert [(each["thinking"], each["signature"]) for each in thoughts] == [
                ("I should look.", "sealed-by-the-provider")
            ]
        case "bedrock":
            assert [each["reasoningText"] for each in thoughts] == [
                {"text": "I should look.", "signature": "sealed-by-the-provider"}
            ]
        case "gemini":
            assert [base64.b64decode(each["thoughtSignature"]) for each in thoughts] == [b"sealed-by-the-provider"]
        case "chat":
            assert [each["reasoning_content"] for each in thoughts] == ["I should look."]
        case _:
            assert [each["encrypted_content"] for each in thoughts] == ["sealed-by-the-provider"]


@STREAMED
@pytest.mark.promise("shell-works-behind-any-provider", "shell-works-behind-bedrock-vertex-and-azure")
def test_a_shell_call_runs_in_the_box_and_the_model_gets_its_output(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    command = "echo $((6*7)); echo oh >&2; pwd > where; exit 3"
    voice.play(("I try.", voice.shell(command, call_id="call_a")), "It is 42.")
    response = ask(speaking_gateway, voice, streamed=streamed, instructions="Be exact.")

    assert kinds_of(response) == ["message", "shell_call", "shell_call_output", "message"]
    _, call, output, _ = response["output"]
    assert call["action"]["commands"] == [command]
    assert call["environment"] == {"type": "container_reference", "container_id": response["container_id"]}
    assert output["output"] == [{"stdout": "42\n", "stderr": "oh\n", "outcome": {"type": "exit", "exit_code": 3}}]
    assert text_of(response) == "I try.It is 42."
    assert response["usage"]["input_tokens"] == 22
    first, second = voice.told
    assert first.instructions.startswith("Be exact.")
    assert list(first.tools) == ["shell"]
    assert (first.calls, first.results) == ([], [])
    assert second.calls == [("call_a", [command])]
    assert [call_id for call_id, _ in second.results] == ["call_a"]
    expected = voice.result("42\n", stderr="oh\n", code=3)
    given = second.results[0][1]
    if voice.kind.has_native_shell:
        assert given == expected
    else:
        # A function's output also says what was written; the native one has no place for that.
        head, files = given.split("\n\nfiles written:\n")
        assert (head, "where (" in files) == (expected, True)


@pytest.mark.promise("shell-works-behind-bedrock-vertex-and-azure")
def test_a_shell_call_behind_azure_runs_in_the_box_too(speaking_gateway: Gateway, voices: dict[str, Voice]) -> None:
    voice = voices["azure"]
    voice.play(voice.shell("echo $((6*7))"), "It is 42.")
    response = ask(speaking_gateway, voice)

    assert kinds_of(response) == ["shell_call", "shell_call_output", "message"]
    assert voice.told[1].results == [("call_shell_1", voice.result("42\n"))]


@pytest.mark.promise("shell-works-behind-any-provider")
def test_the_built_in_model_takes_the_same_request(speaking_gateway: Gateway) -> None:
    with speaking_gateway.client().responses.create(
        model="limpet/script", input="```sh\necho $((6*7))\n```", tools=SHELL, stream=True
    ) as stream:
        events = [event.to_dict() for event in stream]

    check_events(events)
    check_event_order(events)
    final = events[-1]["response"]
    assert kinds_of(final) == ["shell_call", "shell_call_output", "message"]
    assert final["output"][1]["output"][0]["stdout"] == "42\n"


@pytest.mark.promise("model-without-a-native-shell-gets-a-function-tool", "hadrian-shell-function-call-never-leaks")
def test_a_function_stands_for_the_shell_only_towards_the_provider(speaking_gateway: Gateway, voice: Voice) -> None:
    voice.play(voice.shell("echo hello"), "Done.")
    with speaking_gateway.client().responses.create(model=voice.model, input="go", tools=SHELL, stream=True) as stream:
        events = [event.to_dict() for event in stream]

    tool = voice.told[0].tools["shell"]
    if voice.kind.has_native_shell:
        assert tool == {"type": "shell", "environment": {"type": "local"}}
    else:
        schema = tool.get("parameters") or tool["input_schema"]
        assert (schema["type"], schema["required"]) == ("object", ["commands"])
    assert items_of(events[-1]["response"], "shell_call")[0]["action"]["commands"] == ["echo hello"]
    assert "function_call" not in json.dumps(events)
    assert [tool["type"] for tool in events[-1]["response"]["tools"]] == ["shell"]


@pytest.mark.promise(
    "function-tool-description-guides-long-output",
    "function-tool-description-tells-where-it-is",
    "hadrian-model-is-told-directory-and-network",
)
def test_every_model_is_told_what_its_shell_is(speaking_gateway: Gateway, voice: Voice) -> None:
    """A native shell tool has no description, so the instructions end with it there."""
    voice.play("Nothing to do.", "Nor now.")
    ask(speaking_gateway, voice, instructions="Be brief.")
    ask(speaking_gateway, voice)

    with_instructions, without = voice.told
    if voice.kind.has_native_shell:
        before, _, description = with_instructions.instructions.partition("\n\nAbout the shell tool: ")
        assert (before, without.instructions) == ("Be brief.", f"About the shell tool: {description}")
    else:
        description = with_instructions.tools["shell"]["description"]
        assert (with_instructions.instructions, without.instructions) == ("Be brief.", "")
    assert ("Among what is installed: python3 3." in description) == (speaking_gateway.runtime == "bubblewrap")
    # What speaking_gateway's runtime is, in the words that the model needs.
    directory = "/mnt/data" if "/mnt/data" in description else "$LIMPET_DATA"
    assert f"working directory is {directory}" in description.replace("the directory that ", "").replace(" names", "")
    for word in (
        "stay from call to call",
        "stopped after 300 seconds",
        "at most 8000 characters",
        "write long output to a file under",
        "grep, head or tail",
        "no network" if directory == "/mnt/data" else "network can be reached",
    ):
        assert word in description, word


def test_a_turn_without_the_shell_is_told_nothing_of_it(speaking_gateway: Gateway, voice: Voice) -> None:
    """Neither a client's own shell, which is none of ours to describe, nor a request without one."""
    voice.play("Hello.", "Hello.")
    ask(speaking_gateway, voice, tools=[LOOKUP], instructions="Be brief.")
    ask(speaking_gateway, voice, tools=[{"type": "shell", "environment": {"type": "local"}}], instructions="Be brief.")

    assert [told.instructions for told in voice.told] == ["Be brief.", "Be brief."]
    assert [list(told.tools) for told in voice.told] == [["lookup"], ["shell"]]


@STREAMED
def test_two_calls_of_one_turn_both_run_and_both_are_answered(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    calls = voice.shell("echo one > f; echo 1", call_id="call_1"), voice.shell("cat f", call_id="call_2")
    voice.play(calls, "Done.")
    response = ask(speaking_gateway, voice, streamed=streamed)

    # Where the arguments of several calls may come mixed, the calls end together and their outputs follow.
    calls_and_outputs = ["shell_call", "shell_call_output"] * 2
    kinds = calls_and_outputs if voice.is_responses else sorted(calls_and_outputs)
    assert kinds_of(response) == [*kinds, "message"]
    outputs = items_of(response, "shell_call_output")
    assert [(item["call_id"], item["output"][0]["stdout"]) for item in outputs] == [
        ("call_1", "1\n"),
        ("call_2", "one\n"),
    ]
    assert voice.told[1].calls == [("call_1", ["echo one > f; echo 1"]), ("call_2", ["cat f"])]
    first, second = voice.told[1].results
    assert (first[0], second) == ("call_1", ("call_2", voice.result("one\n")))


@STREAMED
def test_a_call_beyond_max_tool_calls_leaves_no_trace_however_the_wire_mixes_calls(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    calls = voice.shell("echo 1", call_id="call_1"), voice.shell("echo 2", call_id="call_2")
    voice.play(calls, "Done.", "Next.")
    response = ask(speaking_gateway, voice, streamed=streamed, max_tool_calls=1)
    ask(speaking_gateway, voice, streamed=streamed, previous_response_id=response["id"])

    assert kinds_of(response) == ["shell_call", "shell_call_output", "message"]
    assert [item["status"] for item in items_of(response, "shell_call")] == ["completed"]
    for told in voice.told[1:]:
        assert told.calls == [("call_1", ["echo 1"])]


@STREAMED
def test_a_clients_function_beside_the_shell_goes_to_the_client_and_on_from_there(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    lookup = FunctionCall("lookup", {"what": "x"}, call_id="call_lookup")
    voice.play((voice.shell("echo from the shell", call_id="call_s"), lookup), "The end.")
    tools = [*SHELL, LOOKUP]
    first = ask(speaking_gateway, voice, streamed=streamed, tools=tools)
    given = {"type": "function_call_output", "call_id": "call_lookup", "output": "forty-two"}
    second = ask(
        speaking_gateway, voice, streamed=streamed, input=[given], tools=tools, previous_response_id=first["id"]
    )

    if voice.is_responses:
        assert kinds_of(first) == ["shell_call", "shell_call_output", "function_call"]
    else:
        assert kinds_of(first) == ["shell_call", "function_call", "shell_call_output"]
    (call,) = items_of(first, "function_call")
    assert (call["name"], call["call_id"], json.loads(call["arguments"])) == ("lookup", "call_lookup", {"what": "x"})
    assert (first["status"], text_of(second)) == ("completed", "The end.")
    assert set(voice.told[0].tools) == {"shell", "lookup"}
    asked = voice.told[1]
    assert asked.calls == [("call_s", ["echo from the shell"]), ("call_lookup", {"what": "x"})]
    assert dict(asked.results) == {"call_s": voice.result("from the shell\n"), "call_lookup": "forty-two"}
    assert second["container_id"] == first["container_id"]


@STREAMED
def test_arguments_that_cannot_be_read_go_back_to_the_model_which_tries_again(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    voice.play(voice.bad_shell(), voice.shell("echo now", call_id="call_again"), "Done.")
    response = ask(speaking_gateway, voice, streamed=streamed)

    assert response["status"] == "completed"
    assert [item["status"] for item in items_of(response, "shell_call")] == ["incomplete", "completed"]
    refused, ran = items_of(response, "shell_call_output")
    assert refused["output"][0]["outcome"] == {"type": "exit", "exit_code": 2}
    assert ran["output"][0]["stdout"] == "now\n"
    call_id, told = voice.told[1].results[0]
    assert call_id == "call_bad"
    assert '{"commands": ["…"]}' in json.dumps(told, ensure_ascii=False).replace('\\"', '"')
    assert [call_id for call_id, _ in voice.told[2].results] == ["call_bad", "call_again"]


def test_a_chain_of_three_keeps_the_box_and_tells_the_model_everything(speaking_gateway: Gateway, voice: Voice) -> None:
    voice.play(
        voice.shell("echo kept > note; echo 1", call_id="call_1"),
        "Written to note.",
        "You are welcome.",
        voice.shell("cat note", call_id="call_3"),
        "It says kept.",
    )
    first = ask(speaking_gateway, voice, input="Write a note.")
    second = ask(speaking_gateway, voice, input="Thanks.", tools=[], previous_response_id=first["id"])
    third = ask(speaking_gateway, voice, input="Read it.", previous_response_id=second["id"])

    assert first["output"][-1]["content"][0]["annotations"][0]["filename"] == "note"
    assert third["output"][1]["output"][0]["stdout"] == "kept\n"
    assert {first["container_id"], second["container_id"], third["container_id"]} == {first["container_id"]}
    last = voice.told[-1]
    assert [call_id for call_id, _ in last.calls] == ["call_1", "call_3"]
    assert [call_id for call_id, _ in last.results] == ["call_1", "call_3"]
    assert last.results[1][1] == voice.result("kept\n")
    sent = json.dumps(voice.bodies[-1])
    said = [
        sent.find(text) for text in ("Write a note.", "Written to note.", "Thanks.", "You are welcome.", "Read it.")
    ]
    assert -1 not in said
    assert said == sorted(said)


@STREAMED
def test_a_forced_shell_is_forced_in_the_first_turn_only(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    voice.play(voice.shell("true"), "Done.")
    response = ask(speaking_gateway, voice, streamed=streamed, tools=[LOOKUP, *SHELL], tool_choice={"type": "shell"})

    assert [told.choice for told in voice.told] == [voice.kind.forced_shell, "auto"]
    assert response["tool_choice"] == {"type": "shell"}
    assert kinds_of(response) == ["shell_call", "shell_call_output", "message"]


@STREAMED
def test_an_unstored_response_runs_all_the_same_and_is_not_kept(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    voice.play(voice.shell("echo hello"), "Done.")
    response = ask(speaking_gateway, voice, streamed=streamed, store=False)

    assert (response["store"], kinds_of(response)) == (False, ["shell_call", "shell_call_output", "message"])
    with pytest.raises(openai.NotFoundError):
        speaking_gateway.client().responses.retrieve(response["id"])

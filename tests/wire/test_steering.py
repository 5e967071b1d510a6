"""Input that a client adds to a response while it runs, over WebSocket."""

import json
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.providers.turns import FunctionCall, Reasoning, ShellCall, reply
from tests.wire.asking import SHELL
from tests.wire.provider import MODEL, Provider
from tests.wire.sockets import Socket, connected
from tests.wire.voices import Voice

LOOK_UP: list[Any] = [{"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}]
ADDED = [{"role": "user", "content": [{"type": "input_text", "text": "Keep it short."}]}]


def begun(socket: Socket, **body: Any) -> str:
    """A response that has begun."""
    socket.create(model=MODEL, **body)
    response_id: str = socket.typed("response.created", body.get("stream_id"))["response"]["id"]
    return response_id


def failed(socket: Socket) -> dict[str, Any]:
    """The next `response.steer.failed`, whatever its lane."""
    return socket.until(lambda event: event["type"] == "response.steer.failed")


@pytest.mark.promise("steering-ends-a-response-for-a-successor")
@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
def test_a_steered_response_ends_between_two_items_and_its_successor_goes_on(
    scripted_gateway: Gateway, provider: Provider, store: bool
) -> None:
    provider.play(
        reply(Reasoning("Let me think."), "A long answer.", hold_after=4),
        "A short answer.",
    )
    with connected(scripted_gateway) as socket:
        socket.create("main", model=MODEL, input="Answer.", store=store, instructions="Be kind.", max_output_tokens=99)
        first = socket.typed("response.output_item.added", "main")
        target = socket.received[0]["response"]["id"]
        provider.wait_held()
        socket.steer(target, ADDED)
        accepted = socket.typed("response.steer.accepted", "main")
        provider.let_go()
        ended = socket.ended("main")
        successor = socket.ended("main")["response"]

    assert first["output_index"] == 0
    assert accepted["steer"]["previous_response_id"] == target
    assert accepted["steer"]["id"].startswith("steer_")
    assert ended["type"] == "response.incomplete"
    assert ended["response"]["incomplete_details"] == {"reason": "steered"}
    assert [item["type"] for item in ended["response"]["output"]] == ["reasoning"]
    assert (successor["status"], successor["previous_response_id"]) == ("completed", target)
    assert successor["output"][0]["content"][0]["text"] == "A short answer."
    assert (successor["instructions"], successor["max_output_tokens"]) == ("Be kind.", 99)
    assert successor["store"] is store
    asked = provider.asked[1]["input"]
    assert [item["type"] for item in asked] == ["message", "reasoning", "message"]
    assert asked[2]["content"] == ADDED[0]["content"]


@pytest.mark.promise("steering-ends-a-response-for-a-successor")
def test_a_running_command_is_finished_and_the_model_is_not_asked_again_before_the_successor(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    provider.play(ShellCall(("echo started; sleep 0.3; echo finished",)), "Seen.")
    with connected(scripted_gateway) as socket:
        target = begun(socket, input="go", tools=SHELL)
        socket.typed("response.shell_call_output_content.delta")
        socket.steer(target, "And then stop.")
        ended = socket.ended()["response"]
        successor = socket.ended()["response"]

    assert (ended["status"], ended["incomplete_details"]) == ("incomplete", {"reason": "steered"})
    assert ended["output"][1]["output"][0]["stdout"] == "started\nfinished\n"
    assert successor["output"][0]["content"][0]["text"] == "Seen."
    assert successor["container_id"] == ended["container_id"]
    assert [item["type"] for item in provider.asked[1]["input"]] == [
        "message",
        "shell_call",
        "shell_call_output",
        "message",
    ]


@pytest.mark.promise("steering-ends-a-response-for-a-successor")
def test_a_response_that_completes_all_the_same_has_a_successor_before_what_waits_on_its_lane(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    provider.play(reply("The whole answer.", hold_after=4), "More.", "The next one.")
    with connected(scripted_gateway) as socket:
        target = begun(socket, input="one")
        provider.wait_held()
        socket.steer(target, "First this.")
        socket.steer(target, "Then that.")
        socket.typed("response.steer.accepted")
        socket.typed("response.steer.accepted")
        socket.create(model=MODEL, input="two")
        provider.let_go()
        ends = [socket.ended()["response"] for _ in range(3)]

    assert [end["status"] for end in ends] == ["completed"] * 3
    assert [end["output"][0]["content"][0]["text"] for end in ends] == ["The whole answer.", "More.", "The next one."]
    assert [end["previous_response_id"] for end in ends] == [None, target, None]
    assert [item["content"] for item in provider.asked[1]["input"][-2:]] == ["First this.", "Then that."]


@pytest.mark.promise("steering-ends-a-response-for-a-successor")
def test_the_official_client_steers(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(reply("The whole answer.", hold_after=4), "More.")
    client: openai.OpenAI = scripted_gateway.client()
    seen: list[Any] = []
    with client.responses.connect() as connection:
        connection.response.create(model=MODEL, input="go", stream_id="main")
        for event in connection:
            seen.append(event)
            if event.type == "response.created" and len(seen) == 1:
                connection.response.steer(previous_response_id=event.response.id, input="And?")
            if event.type == "response.steer.accepted":
                provider.wait_held()
                provider.let_go()
            if event.type == "response.completed" and event.response.previous_response_id is not None:
                break

    accepted = next(event for event in seen if event.type == "response.steer.accepted")
    assert accepted.stream_id == "main"
    assert accepted.steer.previous_response_id == seen[0].response.id
    assert seen[-1].response.output_text == "More."


@pytest.mark.promise("steering-waits-for-the-clients-output")
@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
def test_input_waits_for_the_outputs_of_the_clients_calls(
    scripted_gateway: Gateway, provider: Provider, store: bool
) -> None:
    provider.play(reply(FunctionCall("look_up", {}, call_id="call_1"), hold_after=3), "Found.")
    with connected(scripted_gateway) as socket:
        socket.create("main", model=MODEL, input="go", tools=LOOK_UP, store=store)
        target = socket.typed("response.created", "main")["response"]["id"]
        socket.typed("response.output_item.added", "main")
        socket.steer(target, "Shortly.")
        accepted = socket.typed("response.steer.accepted", "main")
        provider.wait_held()
        provider.let_go()
        ended = socket.ended("main")
        pending = socket.typed("response.steer.pending", "main")
        answer = {**pending["required_input"][0], "output": "42"}
        after = socket.response(
            "main", model=MODEL, input=[answer], tools=LOOK_UP, store=store, previous_response_id=target
        )

    assert ended["type"] == "response.completed"
    assert pending["reason"] == "waiting_for_required_input"
    assert pending["required_input"] == [{"type": "function_call_output", "call_id": "call_1", "name": "look_up"}]
    assert pending["steer"] == accepted["steer"]
    assert after["output"][0]["content"][0]["text"] == "Found."
    told = provider.asked[1]["input"]
    assert sorted(item["type"] for item in told[1:]) == ["function_call", "function_call_output", "message"]
    assert [item["content"] for item in told if item["type"] == "message"] == ["go", "Shortly."]


@pytest.mark.promise("steering-waits-for-the-clients-output")
def test_every_provider_is_told_the_answer_right_behind_the_call(speaking_gateway: Gateway, voice: Voice) -> None:
    voice.play(FunctionCall("look_up", {}, call_id="call_1"), "Found.")
    asked: dict[str, Any] = {"model": voice.model, "tools": LOOK_UP, "store": False}
    with connected(speaking_gateway) as socket:
        made = socket.response(input="go", **asked)
        call = next(item for item in made["output"] if item["type"] == "function_call")
        answer = {"type": "function_call_output", "call_id": call["call_id"], "output": "42"}
        after = socket.response(
            input=[{"role": "user", "content": "Shortly."}, answer], **asked, previous_response_id=made["id"]
        )

    assert after["output"][0]["content"][0]["text"] == "Found."
    told = json.dumps(voice.bodies[1].get("messages") or voice.bodies[1].get("contents") or voice.bodies[1]["input"])
    assert "Shortly." in told
    assert voice.is_responses or told.index("42") < told.index("Shortly.")


@pytest.mark.promise("steering-says-why-it-failed")
@pytest.mark.parametrize(
    "given",
    [
        "",
        [],
        None,
        5,
        ["text"],
        [{"role": "system", "content": "Obey."}],
        [{"role": "user", "content": "x", "id": "msg_1"}],
        [{"role": "user", "content": [{"type": "output_text", "text": "x"}]}],
        [{"type": "function_call_output", "call_id": "c", "output": "x"}],
        [{"role": "user"}],
    ],
)
def test_input_that_is_none_is_given_back(scripted_gateway: Gateway, provider: Provider, given: Any) -> None:
    provider.play(reply("Held.", hold_after=1))
    with connected(scripted_gateway) as socket:
        target = begun(socket, input="go", store=False)
        socket.steer(target, given)
        refused = failed(socket)
        provider.wait_held()
        provider.let_go()
        ended = socket.ended()

    assert (refused["error"]["code"], refused["error"]["type"]) == ("invalid_input", "invalid_request_error")
    assert refused["steer"] == {"previous_response_id": target, "input": given}
    assert ended["type"] == "response.completed"


@pytest.mark.promise("steering-says-why-it-failed")
def test_what_cannot_be_steered_says_so(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(reply("Held.", hold_after=1), "More.")
    codes = []
    with connected(scripted_gateway) as socket, connected(scripted_gateway) as other:
        done = socket.response(input="hello")["id"]
        for target in (done, "resp_unknown"):
            socket.steer(target, "And?")
            codes.append(failed(socket)["error"]["code"])
        target = begun(socket, input="go", store=False)
        other.steer(target, "And?")
        codes.append(failed(other)["error"]["code"])
        socket.send({"type": "response.steer", "previous_response_id": target, "input": "x", "stream_id": "main"})
        codes.append(failed(socket)["error"]["code"])
        for _ in range(17):
            socket.steer(target, "And?")
        codes.append(failed(socket)["error"]["code"])
        provider.wait_held()
    provider.wait_left()

    assert codes == [
        "response_already_completed",
        "response_not_found",
        "response_not_found",
        "invalid_input",
        "too_many_pending_steers",
    ]


@pytest.mark.promise("steering-says-why-it-failed")
def test_input_for_a_response_that_is_cancelled_is_given_back(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(reply("Held.", hold_after=1))
    with connected(scripted_gateway) as socket:
        target = begun(socket, input="go")
        provider.wait_held()
        socket.steer(target, "And?")
        accepted = socket.typed("response.steer.accepted")
        with scripted_gateway.http() as http:
            assert http.post(f"/v1/responses/{target}/cancel").status_code == 200
        refused = failed(socket)
        socket.steer(target, "And?")
        again = failed(socket)

    assert refused["steer"] == {**accepted["steer"], "input": "And?"}
    assert refused["error"]["code"] == again["error"]["code"] == "response_not_active"

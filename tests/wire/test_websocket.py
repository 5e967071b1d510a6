"""The WebSocket at `/v1/responses`: requests, lanes, chains, and how a connection ends."""

import threading
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.lib.responses_websocket import ResponsesWebSocketLimits, ResponsesWebSocketSession
from openai.types.websocket_reconnection import ReconnectingEvent
from websockets.exceptions import InvalidStatus

from tests.support.gateway import Gateway, lasting
from tests.support.host import eventually
from tests.support.providers.turns import Refuse, reply
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.order import check_event_order
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_events
from tests.wire.sockets import Socket, connected

LIMITS = ResponsesWebSocketLimits(
    max_lanes=4, max_events_per_lane=500, max_events=1000, max_bytes_per_lane=1 << 20, max_bytes=1 << 21
)
HELD = reply("Held until it is let go.", hold_after=1)


def unstored(said: str, **more: Any) -> Any:
    return {"type": "response.create", "model": "limpet/script", "store": False, "input": said, "tools": SHELL, **more}


def on_lane(socket: Socket, lane: str | None) -> list[str]:
    return [event["type"] for event in socket.received if event.get("stream_id") == lane]


@pytest.mark.promise("websocket-carries-responses")
def test_the_official_client_runs_commands_on_two_lanes(client: openai.OpenAI) -> None:
    seen: dict[str, list[Any]] = {"a": [], "b": []}
    with client.responses.connect() as connection:
        for lane in seen:
            said = shell_blocks(f"echo from-{lane}")
            connection.response.create(model="limpet/script", input=said, tools=SHELL, stream_id=lane)
        for event in connection:
            seen[str(event.stream_id)].append(event)
            if sum(events[-1].type == "response.completed" for events in seen.values() if events) == 2:
                break

    for lane, events in seen.items():
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert f"from-{lane}" in events[-1].response.output_text
        assert client.responses.retrieve(events[-1].response.id).output_text == events[-1].response.output_text


@pytest.mark.promise("websocket-carries-responses", "websocket-lanes-are-fifo-and-interleave")
def test_the_official_clients_lanes_collect_responses_and_fork(client: openai.OpenAI) -> None:
    with client.responses.connect() as connection, ResponsesWebSocketSession(connection, limits=LIMITS) as session:
        main, fork = session.lane("main"), session.lane("fork")
        main.send(unstored(shell_blocks("echo one > f; cat f")))
        parent = main.get_final_response(timeout=20)
        fork.send(unstored("hello", previous_response_id=parent.id))
        main.send(unstored(shell_blocks("cat f"), previous_response_id=parent.id))
        ends = [lane.get_final_response(timeout=20) for lane in (fork, main)]

    assert [end.status for end in ends] == ["completed", "completed"]
    assert [end.previous_response_id for end in ends] == [parent.id] * 2
    assert "one" in ends[1].output_text


@pytest.mark.promise("websocket-carries-responses")
def test_events_are_those_of_the_http_stream(gateway: Gateway) -> None:
    with connected(gateway) as socket:
        socket.response(input=shell_blocks("echo one"), tools=SHELL, stream=True)

    check_events(socket.received)
    check_event_order(socket.received)


@pytest.mark.promise("websocket-lanes-are-fifo-and-interleave")
def test_a_lane_is_first_in_first_out_and_lanes_run_beside_each_other(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    provider.play(HELD, "The second.")
    with connected(scripted_gateway) as socket:
        socket.create("slow", model=MODEL, input="first")
        provider.wait_held()
        socket.create("slow", model=MODEL, input="second")
        quick = socket.response("quick", input="hello")
        plain = socket.response(input="hello")
        asked_meanwhile = len(provider.asked)
        provider.let_go()
        first, second = socket.ended("slow")["response"], socket.ended("slow")["response"]

    assert quick["status"] == plain["status"] == first["status"] == second["status"] == "completed"
    assert asked_meanwhile == 1
    assert first["output"][0]["content"][0]["text"] == "Held until it is let go."
    assert on_lane(socket, "slow").count("response.created") == 2
    assert on_lane(socket, "slow").index("response.completed") < len(on_lane(socket, "slow")) // 2 + 1


@pytest.mark.promise("websocket-runs-sixteen-responses-at-once")
def test_the_seventeenth_response_waits(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(*[HELD] * 17)
    with connected(scripted_gateway) as socket:
        for number in range(16):
            socket.create(f"lane-{number}", model=MODEL, input="go", store=False)
        eventually(lambda: len(provider.asked) == 16)
        socket.create("one-more", model=MODEL, input="go", store=False)
        socket.send("{}")  # what comes after it is answered, so it has been read
        socket.error()
        asked_meanwhile = len(provider.asked)
        provider.let_go()
        last = socket.ended("one-more")

    assert asked_meanwhile == 16
    assert last["type"] == "response.completed"


@pytest.mark.promise("websocket-has-at-most-32-named-lanes")
def test_the_33rd_name_is_refused_and_nothing_else(gateway: Gateway) -> None:
    with connected(gateway) as socket:
        for number in range(32):
            socket.create(f"lane.{number}", input="hello", store=False)
        for number in range(32):
            assert any(
                event["type"] == "response.completed" and event["stream_id"] == f"lane.{number}"
                for event in socket.received
            ) or socket.ended(f"lane.{number}")
        socket.create("lane.32", input="hello")
        refused = socket.error("lane.32")
        others = [socket.response(lane, input="hello")["status"] for lane in (None, "lane.31")]

    assert refused["status"] == 400
    assert (refused["error"]["code"], refused["error"]["param"]) == ("websocket_stream_limit_reached", "stream_id")
    assert others == ["completed", "completed"]


@pytest.mark.promise("websocket-names-of-lanes-are-checked")
@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 257, 5, ["a"], {}])
def test_a_name_that_is_none_is_refused(gateway: Gateway, name: Any) -> None:
    with connected(gateway) as socket:
        socket.send({"type": "response.create", "model": "limpet/script", "input": "hello", "stream_id": name})
        refused = socket.error()
        assert socket.response("x" * 256, input="hello")["status"] == "completed"

    assert (refused["status"], refused["error"]["code"], refused["error"]["param"]) == (
        400,
        "invalid_stream_id",
        "stream_id",
    )


@pytest.mark.promise("websocket-chains-unstored-responses-on-one-connection")
def test_an_unstored_response_can_be_chained_to_on_its_connection_only(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    secret = "canary-e51b7f0c"
    provider.play("One.", "Two.", "Three.")
    with connected(scripted_gateway) as socket, connected(scripted_gateway) as other:
        first = socket.response(model=MODEL, input=f"Remember {secret}.", store=False)
        second = socket.response(model=MODEL, input="And?", store=False, previous_response_id=first["id"])
        other.create(model=MODEL, input="And?", store=False, previous_response_id=second["id"])
        missed = other.error()
        third = socket.response(model=MODEL, input="Again?", store=False, previous_response_id=second["id"])
        with scripted_gateway.http() as http:
            over_http = http.get(f"/v1/responses/{second['id']}").status_code
    with connected(scripted_gateway) as again:
        again.create(model=MODEL, input="And?", store=False, previous_response_id=third["id"])
        gone = again.error()

    texts = [item.get("content") for item in provider.asked[2]["input"]]
    assert [secret in str(text) for text in texts] == [True, False, False, False, False]
    assert len(texts) == 5
    for error in (missed, gone):
        assert (error["status"], error["error"]["code"]) == (400, "previous_response_not_found")
        assert error["error"]["param"] == "previous_response_id"
    assert over_http == 404
    for file in scripted_gateway.home.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


@pytest.mark.promise("websocket-failed-continuation-evicts-its-parent")
def test_a_failed_continuation_evicts_its_parent_and_a_failed_fork_does_not(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    provider.play("One.", "Two.")
    broken: dict[str, Any] = {"model": MODEL, "input": "go", "store": False, "temperature": 9}
    with connected(scripted_gateway) as socket:
        parent = socket.response("main", model=MODEL, input="go", store=False)["id"]
        socket.create("fork", **broken, previous_response_id=parent)
        assert socket.error("fork")["error"]["param"] == "temperature"
        child = socket.response("fork", model=MODEL, input="go", store=False, previous_response_id=parent)
        socket.create("main", **broken, previous_response_id=parent)
        socket.error("main")
        socket.create("main", model=MODEL, input="go", store=False, previous_response_id=parent)
        evicted = socket.error("main")

    assert child["status"] == "completed"
    assert evicted["error"]["code"] == "previous_response_not_found"


@pytest.mark.promise("websocket-failed-continuation-evicts-its-parent")
def test_a_stored_parent_is_found_again_after_a_failed_continuation(gateway: Gateway) -> None:
    with connected(gateway) as socket:
        parent = socket.response(input="hello")["id"]
        socket.create(input="go", temperature=9, previous_response_id=parent)
        socket.error()
        assert socket.response(input="go", previous_response_id=parent)["status"] == "completed"


@pytest.mark.promise("websocket-prepares-without-generating")
def test_a_warm_up_generates_nothing_and_can_be_chained_to(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play("Ready.")
    with connected(scripted_gateway) as socket:
        warm = socket.response(model=MODEL, store=False, stream=True, generate=False)
        after = socket.response(model=MODEL, store=False, input="go", previous_response_id=warm["id"])

    assert (warm["status"], warm["output"]) == ("completed", [])
    assert len(provider.asked) == 1
    assert after["previous_response_id"] == warm["id"]


@pytest.mark.promise("websocket-errors-are-those-of-http")
def test_a_request_that_is_refused_is_an_error_of_its_lane(gateway: Gateway) -> None:
    with connected(gateway) as socket, gateway.http() as http:
        for body in ({"input": "go", "temperature": 9}, {"input": "go", "model": "nobody/has-it"}, {"input": 5}, {}):
            socket.create("a", **body)
            refused = socket.error("a")
            over_http = http.post("/v1/responses", json={"model": "limpet/script", **body})
            assert (refused["status"], refused["error"]) == (over_http.status_code, over_http.json()["error"])

    assert on_lane(socket, "a") == ["error"] * 4


@pytest.mark.promise("websocket-errors-are-those-of-http")
def test_a_providers_refusal_fails_its_response(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(*[Refuse(429, "Slow down.", headers={"retry-after": "60"})] * 4, "Later.")
    with connected(scripted_gateway) as socket:
        refused = socket.response("a", model=MODEL, input="go")

    assert (refused["status"], refused["error"]["code"]) == ("failed", "rate_limit_exceeded")
    assert on_lane(socket, "a") == ["response.created", "response.in_progress", "response.failed"]


@pytest.mark.promise("beta-parts-are-refused-by-name")
@pytest.mark.parametrize(
    "event, named",
    [
        (
            {"type": "response.create", "model": "limpet/script", "input": "hi", "multi_agent": {"enabled": True}},
            "multi_agent",
        ),
        ({"type": "response.create", "model": "limpet/script", "input": "hi", "background": True}, "background"),
        ({"type": "response.inject", "response_id": "resp_1", "input": []}, "type"),
        ({"type": "session.update"}, "type"),
        ({"model": "limpet/script", "input": "hi"}, "type"),
    ],
)
def test_what_is_not_served_is_refused_by_its_name(gateway: Gateway, event: dict[str, Any], named: str) -> None:
    with connected(gateway) as socket:
        socket.send(event)
        refused = socket.error()
        after = socket.response(input="hello")

    assert (refused["status"], refused["error"]["param"]) == (400, named)
    assert named == "type" or named in refused["error"]["message"]
    assert after["status"] == "completed"


@pytest.mark.promise("beta-parts-are-refused-by-name")
def test_betas_that_are_not_served_are_refused_where_they_are_asked_for(gateway: Gateway) -> None:
    headers = {"OpenAI-Beta": "responses_websockets=2026-02-06, responses_multi_agent=v1"}
    with pytest.raises(InvalidStatus) as refused, connected(gateway, additional_headers=headers):
        pass
    with gateway.http() as http:
        asked = {"model": "limpet/script", "input": "hello"}
        over_http = http.post("/v1/responses", json=asked, headers=headers)
        passes = http.post("/v1/responses", json=asked, headers={"OpenAI-Beta": "assistants=v2"})
    with connected(gateway, additional_headers={"OpenAI-Beta": "responses_websockets=2026-02-06"}) as socket:
        assert socket.response(input="hello")["status"] == "completed"

    assert refused.value.response.status_code == over_http.status_code == 400
    assert over_http.json()["error"]["code"] == "unsupported_beta"
    assert passes.status_code == 200


@pytest.mark.promise("websocket-is-closed-for-a-restart")
def test_a_gateway_that_stops_tells_clients_to_come_back(tmp_path: Path) -> None:
    codes: list[int] = []
    answered: list[str] = []

    def came_back(event: ReconnectingEvent) -> None:
        codes.append(event.close_code)

    def read(connection: Any) -> None:
        for event in connection:
            answered.append(event.type)
            if event.type == "response.completed":
                return

    with lasting(tmp_path) as gateway:
        gateway.arguments = ("--port", gateway.url.rpartition(":")[2])
        with (
            gateway.client().responses.connect(
                on_reconnecting=came_back, max_retries=60, initial_delay=0.1, max_delay=0.5
            ) as official,
            connected(gateway) as busy,
        ):
            reader = threading.Thread(target=read, args=(official,))
            reader.start()
            busy.create(input=shell_blocks("sleep 0.5; echo late > file; cat file"), tools=SHELL)
            running = busy.typed("response.created")["response"]["id"]
            stopping = threading.Thread(target=gateway.stop)
            stopping.start()
            assert busy.close_code() == 1012
            stopping.join()
            gateway.start()
            official.response.create(model="limpet/script", input="hello")
            reader.join(20)
        client = gateway.client()
        eventually(lambda: client.responses.retrieve(running).status == "completed", within=15)
        with connected(gateway) as socket:
            chained = socket.response(input=shell_blocks("cat file"), tools=SHELL, previous_response_id=running)

    assert codes[0] == 1012
    assert answered[0] == "response.created"
    assert any(item.get("output") and item["output"][0]["stdout"] == "late\n" for item in chained["output"])


@pytest.mark.promise("websocket-unstored-response-ends-with-its-connection")
def test_an_unstored_response_ends_with_its_connection(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(HELD)
    with connected(scripted_gateway) as socket:
        socket.create(model=MODEL, input="go", store=False)
        provider.wait_held()
    provider.wait_left()

    said = scripted_gateway.log.read_text()
    assert [fault for fault in ("lane_broke", "run_broke", "Traceback") if fault in said] == []


def test_a_response_that_is_deleted_while_it_runs_ends_with_an_error_of_its_lane(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    provider.play(HELD, "Later.")
    with connected(scripted_gateway) as socket, scripted_gateway.http() as http:
        socket.create("a", model=MODEL, input="go")
        created = socket.typed("response.created", "a")
        provider.wait_held()
        assert http.delete(f"/v1/responses/{created['response']['id']}").status_code == 200
        refused = socket.error("a")
        after = socket.response("a", model=MODEL, input="again")

    assert (refused["status"], refused["error"]["code"], after["status"]) == (404, "response_not_found", "completed")


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-WebSocket-Version": "12"},
        {"Sec-WebSocket-Key": "short"},
        {"Sec-WebSocket-Key": ""},
        {"Connection": "close"},
        {"Upgrade": "h2c"},
    ],
)
def test_a_handshake_that_is_none_is_refused(gateway: Gateway, headers: dict[str, str]) -> None:
    whole = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with gateway.http() as http:
        answer = http.get("/v1/responses", headers={**whole, **headers})
        assert answer.status_code in (400, 426)
        assert http.get("/livez").status_code == 200


def test_a_web_page_of_another_origin_opens_no_socket(gateway: Gateway) -> None:
    with pytest.raises(InvalidStatus) as refused, connected(gateway, origin="https://evil.example"):
        pass
    assert refused.value.response.status_code == 403

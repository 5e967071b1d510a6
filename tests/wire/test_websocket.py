"""The WebSocket at `/v1/responses`: requests, lanes, chains, and how a connection ends."""

from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.order import check_event_order
from tests.wire.schema import check_events
from tests.wire.sockets import Socket, connected


def on_lane(socket: Socket, lane: str | None) -> list[dict[str, Any]]:
    return [event for event in socket.received if event.get("stream_id") == lane]


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


@pytest.mark.promise("websocket-carries-responses")
def test_events_are_those_of_the_http_stream(gateway: Gateway) -> None:
    with connected(gateway) as socket:
        socket.response(input=shell_blocks("echo one"), tools=SHELL, stream=True)

    check_events(socket.received)
    check_event_order(socket.received)

"""A provider's long stream on its way through the journal: whole and in order for everybody, however late or slow."""

import socket
from concurrent.futures import ThreadPoolExecutor

import httpx2

from tests.support.gateway import Gateway
from tests.support.providers.turns import Text, reply
from tests.wire.order import check_event_order
from tests.wire.streams import Event, Stream, replaying
from tests.wire.voices import Voice

DELTAS = 2_000
LONG = "".join(f"{n:<199}\n" for n in range(DELTAS))
DELTA = "response.output_text.delta"


def numbers(events: list[Event]) -> list[int]:
    """The numbers that the deltas carry, in the order in which they came."""
    return [int(event["delta"]) for event in events if event["type"] == DELTA]


def test_two_thousand_deltas_reach_a_slow_reader_and_one_that_joins_in_the_middle(
    speaking_gateway: Gateway, voices: dict[str, Voice]
) -> None:
    """The slow one takes nothing while the rest arrives, and has little room to let it wait in: no other client is held up by it."""
    voice = voices["native"]
    voice.play(reply(Text(LONG, pieces=DELTAS), hold_after=DELTAS // 2))
    little_room = httpx2.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 * 1024)])
    asked = {"model": voice.model, "input": "go", "stream": True}
    with (
        httpx2.Client(base_url=speaking_gateway.url, transport=little_room, timeout=30) as http,
        http.stream("POST", "/v1/responses", json=asked) as answer,
        ThreadPoolExecutor(1) as pool,
    ):
        slow = Stream(answer)
        response_id = slow.until("response.created")["response"]["id"]
        slow.until(DELTA, count=3)
        voice.provider.wait_held()
        with replaying(speaking_gateway, response_id) as joining:
            joining.until(DELTA, count=DELTAS // 2 - 10)
            rest = pool.submit(joining.rest)
            voice.provider.let_go()
            joined = rest.result(timeout=30)
        taken = slow.rest()

    assert numbers(joined) == list(range(DELTAS))
    assert taken == joined
    check_event_order(taken)
    assert taken[-1]["response"]["output"][0]["content"][0]["text"] == LONG


def test_two_thousand_deltas_of_every_provider_arrive_in_order(speaking_gateway: Gateway, voice: Voice) -> None:
    """Sent in pieces that cut frames and characters wherever they fall."""
    voice.play(reply(Text(LONG.replace(" ", "é"), pieces=DELTAS), chunk=1021))
    asked = {"model": voice.model, "input": "go", "stream": True}
    with speaking_gateway.http() as http, http.stream("POST", "/v1/responses", json=asked) as answer:
        events = Stream(answer).rest()

    check_event_order(events)
    told = "".join(event["delta"] for event in events if event["type"] == DELTA)
    assert told == LONG.replace(" ", "é")
    assert len([event for event in events if event["type"] == DELTA]) == DELTAS

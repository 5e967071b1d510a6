"""A client of the WebSocket at `/v1/responses` that sends what it is told, right or wrong."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.gateway import Gateway

SECONDS = 30.0
TERMINAL = frozenset({"response.completed", "response.failed", "response.incomplete", "error"})
Json = dict[str, Any]


class Socket:
    """One connection; what was received is kept in `received`."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.received: list[Json] = []

    def send(self, event: Any) -> None:
        self.connection.send(event if isinstance(event, str | bytes) else json.dumps(event))

    def create(self, lane: str | None = None, **body: Any) -> None:
        named = {} if lane is None else {"stream_id": lane}
        self.send({"type": "response.create", "model": "limpet/script", **named, **body})

    def steer(self, response_id: str, given: Any) -> None:
        self.send({"type": "response.steer", "previous_response_id": response_id, "input": given})

    def next(self) -> Json:
        """The next event."""
        event: Json = json.loads(self.connection.recv(timeout=SECONDS))
        self.received.append(event)
        return event

    def until(self, is_it: Callable[[Json], bool]) -> Json:
        while not is_it(event := self.next()):
            pass
        return event

    def typed(self, type: str, lane: str | None = None) -> Json:
        """The next event of that type on that lane."""
        return self.until(lambda event: event["type"] == type and event.get("stream_id") == lane)

    def ended(self, lane: str | None = None) -> Json:
        """The last event of the lane's response, or its error."""
        return self.until(lambda event: event["type"] in TERMINAL and event.get("stream_id") == lane)

    def response(self, lane: str | None = None, **body: Any) -> Json:
        """The response to one request, at its end."""
        self.create(lane, **body)
        event = self.ended(lane)
        assert event["type"] != "error", event
        shape: Json = event["response"]
        return shape

    def error(self, lane: str | None = None) -> Json:
        """The next error."""
        return self.typed("error", lane)

    def close_code(self) -> int:
        """With what the gateway closes; what it sends before is thrown away."""
        with suppress(ConnectionClosed):
            for _ in self.connection:
                pass
        assert self.connection.close_code is not None
        return self.connection.close_code


@contextmanager
def connected(gateway: Gateway, **options: Any) -> Iterator[Socket]:
    address = gateway.url.replace("http://", "ws://", 1) + "/v1/responses"
    with connect(
        address, **{"compression": None, "max_size": None, "proxy": None, "close_timeout": 2, **options}
    ) as connection:
        yield Socket(connection)

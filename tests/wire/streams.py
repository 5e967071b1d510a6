"""Streams as they stand on the wire: every frame, comment and event of one, read piece by piece while it comes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from tests.support.gateway import Gateway

Event = dict[str, Any]
DELTA = "response.shell_call_output_content.delta"
DONE = "[DONE]"


class Stream:
    """One open stream. Iterating gives its events; `lines` are all that came so far, comments too."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.lines: list[str] = []
        self.events: list[Event] = []
        self._lines = answer.iter_lines()

    def __iter__(self) -> Iterator[Event]:
        for line in self._lines:
            if self._take(line):
                yield self.events[-1]

    def until(self, kind: str, *, count: int = 1) -> Event:
        """Read on until the `count`-th event of that type from here; gives it."""
        for event in self:
            count -= event["type"] == kind
            if count == 0:
                return event
        raise AssertionError(f"the stream ended without {kind}: {[event['type'] for event in self.events]}")

    def until_printed(self, text: str) -> Event:
        """Read on until a command's output has that text in one delta."""
        for event in self:
            if event["type"] == DELTA and text in "".join(event["delta"].values()):
                return event
        raise AssertionError(f"the stream ended before {text!r} was printed")

    def until_comments(self, count: int) -> None:
        """Read on until so many comments have come."""
        for line in self._lines:
            self._take(line)
            count -= line.startswith(":")
            if count == 0:
                return
        raise AssertionError("the stream ended before enough comments came")

    def _take(self, line: str) -> bool:
        """Whether it is an event."""
        self.lines.append(line)
        is_event = line.startswith("data: ") and line != f"data: {DONE}"
        if is_event:
            self.events.append(json.loads(line[6:]))
        return is_event

    def rest(self) -> list[Event]:
        """Read to the end; all events from the first on."""
        for _ in self:
            pass
        return self.events


@contextmanager
def asking(gateway: Gateway, **body: Any) -> Iterator[Stream]:
    """A streamed request; leaving the block before its end is leaving as a client."""
    with gateway.http() as http, http.stream("POST", "/v1/responses", json={"stream": True, **body}) as answer:
        assert answer.status_code == 200, answer.read()
        yield Stream(answer)


@contextmanager
def replaying(gateway: Gateway, response_id: str, *, after: int | None = None) -> Iterator[Stream]:
    """A reader of a stored response, from its first event or from behind number `after`."""
    where = {"stream": "true"} | ({} if after is None else {"starting_after": str(after)})
    with gateway.http() as http, http.stream("GET", f"/v1/responses/{response_id}", params=where) as answer:
        assert answer.status_code == 200, answer.read()
        yield Stream(answer)


def events_of(gateway: Gateway, **body: Any) -> list[Event]:
    """All events of a streamed request."""
    with asking(gateway, **body) as stream:
        return stream.rest()


def replayed(gateway: Gateway, response_id: str, *, after: int | None = None) -> list[Event]:
    """All events that a reader gets."""
    with replaying(gateway, response_id, after=after) as stream:
        return stream.rest()


def items_of(response: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The items of one type, in order."""
    return [item for item in response["output"] if item["type"] == kind]

"""The rules of order: the real recordings keep them, and every way of breaking one is caught by that rule."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.wire.order import check_event_order
from tests.wire.schema import recording

Events = list[dict[str, Any]]


def stream() -> Events:
    """Two hosted shell calls and a message."""
    return copy.deepcopy(recording("openai-shell-skills"))


def numbered(events: Events) -> Events:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def place(events: Events, kind: str, index: int | None = None) -> int:
    """The position of the first event of that type (and output index)."""
    found = (
        number
        for number, event in enumerate(events)
        if event["type"] == kind and index in (None, event.get("output_index"))
    )
    return next(found)


def without(kind: str, index: int | None = None) -> Events:
    events = stream()
    del events[place(events, kind, index)]
    return numbered(events)


def moved(kind: str, index: int | None, *, before: str, before_index: int | None = None) -> Events:
    events = stream()
    event = events.pop(place(events, kind, index))
    events.insert(place(events, before, before_index), event)
    return numbered(events)


def changed(kind: str, change: Callable[[dict[str, Any]], None], index: int | None = None) -> Events:
    events = stream()
    change(events[place(events, kind, index)])
    return events


@pytest.mark.parametrize("name", ["openai-shell-skills", "openai-shell-local-multiturn"])
def test_the_recorded_streams_keep_every_rule(name: str) -> None:
    check_event_order(recording(name))


ADDED, DONE = "response.output_item.added", "response.output_item.done"
COMMAND, OUTPUT = "response.shell_call_command", "response.shell_call_output_content"
TEXT, PART = "response.output_text", "response.content_part"

BROKEN: list[tuple[str, Events, str]] = [
    ("a gap in the numbers", [*stream()[:50], *stream()[51:]], "is number 51, expected 50"),
    ("a number twice", [*stream()[:51], *stream()[50:]], "is number 50, expected 51"),
    (
        "numbers from one",
        [{**e, "sequence_number": e["sequence_number"] + 1} for e in stream()],
        "number 1, expected 0",
    ),
    ("no created", without("response.created"), "comes after nothing"),
    ("in_progress first", moved("response.in_progress", None, before="response.created"), "comes after nothing"),
    ("an item before in_progress", moved(ADDED, 0, before="response.in_progress"), "comes before response.in_progress"),
    ("created twice", numbered([stream()[0], *stream()]), "comes after response.created"),
    ("no final event", stream()[:-1], "ends without a final event"),
    ("something after the end", numbered([*stream(), stream()[-2]]), "comes after the final event"),
    ("two final events", numbered([*stream(), stream()[-1]]), "comes after the final event"),
    ("an item never added", without(ADDED, 0), "item 0 was not added"),
    ("an item never done", without(DONE, 2), "item 2 was added and never done"),
    ("an item done twice", numbered([*stream()[:38], stream()[37], *stream()[38:]]), "item 0 is done already"),
    ("an index left out", moved(ADDED, 4, before=ADDED, before_index=2), "has output_index 4, expected 2"),
    ("output before its call is done", moved(ADDED, 1, before=DONE, before_index=0), "its shell_call is not done yet"),
    ("the call done after its output", moved(DONE, 0, before=ADDED, before_index=2), "its shell_call is not done yet"),
    ("a delta before its item", moved(f"{COMMAND}.added", 0, before=ADDED, before_index=0), "item 0 was not added"),
    ("a command delta unannounced", without(f"{COMMAND}.added", 0), "was not announced by response.shell_call_command"),
    ("a command without its end", without(f"{COMMAND}.done", 0), "response.shell_call_command 0 was begun and never"),
    ("a command delta lost", without(f"{COMMAND}.delta", 0), "is not what the deltas wrote"),
    (
        "an output delta after its end",
        moved(f"{OUTPUT}.done", 1, before=f"{OUTPUT}.delta"),
        "has command_index 0, expected 1",
    ),
    ("a text delta lost", without(f"{TEXT}.delta"), "is not what the deltas wrote"),
    (
        "text before its part",
        moved(f"{PART}.added", 4, before=DONE, before_index=4),
        "was not announced by response.content_part",
    ),
    ("a part done before its text", moved(f"{PART}.done", 4, before=f"{TEXT}.done"), "did not come before it"),
    ("a part never done", without(f"{PART}.done"), "response.content_part 0 was begun and never done"),
    ("an item's id changed", changed(DONE, lambda e: e["item"].update(id="sh_x"), 0), "id changed from"),
    ("a call_id changed", changed(DONE, lambda e: e["item"].update(call_id="call_x"), 1), "call_id changed from"),
    (
        "an orphan output",
        changed(ADDED, lambda e: e["item"].update(call_id="call_x"), 1),
        "no shell_call with call_id 'call_x'",
    ),
    (
        "another item's id",
        changed(f"{OUTPUT}.delta", lambda e: e.update(item_id="sho_x")),
        "item_id 'sho_x' is not the item's",
    ),
    (
        "the response's id changed",
        changed("response.completed", lambda e: e["response"].update(id="x")),
        "response.id changed",
    ),
    (
        "an item left in progress",
        changed(DONE, lambda e: e["item"].update(status="in_progress"), 0),
        "is still in_progress",
    ),
    (
        "a final event of another status",
        changed("response.completed", lambda e: e["response"].update(status="failed")),
        "has status",
    ),
    (
        "an item missing at the end",
        changed("response.completed", lambda e: e["response"]["output"].pop()),
        "is not the done items",
    ),
    (
        "an item different at the end",
        changed("response.completed", lambda e: e["response"]["output"][0].update(status="incomplete")),
        "differs inside them",
    ),
    (
        "other commands in the done item",
        changed(DONE, lambda e: e["item"]["action"].update(commands=["ls"]), 0),
        "commands is not",
    ),
    (
        "other output in the done item",
        changed(DONE, lambda e: e["item"].update(output=[]), 1),
        "output is not what the events",
    ),
    (
        "an annotation that nobody announced",
        changed(f"{PART}.done", lambda e: e["part"]["annotations"].append({"type": "container_file_citation"})),
        "its annotations are not those that were announced",
    ),
    (
        "command text for a message",
        changed(f"{COMMAND}.delta", lambda e: e.update(output_index=9)),
        "item 9 was not added",
    ),
]


@pytest.mark.parametrize("events, problem", [pytest.param(*case[1:], id=case[0].replace(" ", "-")) for case in BROKEN])
def test_a_broken_order_is_caught_and_named(events: Events, problem: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_event_order(events)
    assert problem in str(caught.value)


def test_output_that_was_cut_on_the_item_is_accepted_when_said() -> None:
    events = changed(f"{OUTPUT}.delta", lambda event: event["delta"].update(stdout="more than the item kept"))
    with pytest.raises(AssertionError, match=r"stdout .* is not what the deltas wrote"):
        check_event_order(events)
    check_event_order(events, whole_output=False)


def test_a_failed_response_may_leave_its_last_item_open() -> None:
    events = stream()[:60]
    response = {**events[0]["response"], "status": "failed", "output": [events[37]["item"], events[41]["item"]]}
    failed = {"type": "response.failed", "sequence_number": 60, "response": response}
    check_event_order([*events, failed])
    lost = {**failed, "response": {**response, "output": []}}
    with pytest.raises(AssertionError, match="its output lacks items that were done"):
        check_event_order([*events, lost])


def test_a_queued_response_may_say_so_between_created_and_in_progress() -> None:
    events = stream()
    queued = {"type": "response.queued", "response": {**events[0]["response"], "status": "queued"}}
    check_event_order(numbered([events[0], queued, *events[1:]]))

"""The oracle itself: it accepts what the real service sent, and refuses what is broken, in words."""

import copy
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.wire.schema import (
    brought_up_to_date,
    check_container,
    check_container_file,
    check_container_list,
    check_create_container,
    check_create_response,
    check_deleted,
    check_error,
    check_event,
    check_events,
    check_model_list,
    check_required_keys,
    check_response,
    problems_of,
    recording,
)
from tests.wire.strict import STRICT

RECORDINGS = ("openai-shell-skills", "openai-shell-local-multiturn")
CONTAINER = {
    "id": "cntr_1",
    "object": "container",
    "name": "a",
    "created_at": 1,
    "status": "running",
    "last_active_at": 1,
    "expires_after": {"anchor": "last_active_at", "minutes": 20},
    "memory_limit": "1g",
    "network_policy": {"type": "disabled"},
}
FILE = {
    "id": "cfile_1",
    "object": "container.file",
    "container_id": "cntr_1",
    "created_at": 1,
    "bytes": 3,
    "path": "/mnt/data/a",
    "source": "assistant",
}


def events(name: str = RECORDINGS[0]) -> list[dict[str, Any]]:
    return [brought_up_to_date(event) for event in recording(name)]


def first(kind: str) -> dict[str, Any]:
    """A copy of the first recorded event of that type, to be broken."""
    return copy.deepcopy(next(event for event in events() if event["type"] == kind))


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_recorded_events_are_valid(name: str) -> None:
    check_events(events(name))


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_strict_client_reads_the_recorded_events(name: str) -> None:
    assert [event.type for event in STRICT.events(events(name))] == [event["type"] for event in recording(name)]


@pytest.mark.parametrize("name", RECORDINGS)
def test_bringing_a_recording_up_to_date_changes_only_two_known_things(name: str) -> None:
    assert {problem for event in recording(name) for problem in problems_of("ResponseStreamEvent", event)} == {
        "response.user: None is not of type 'string'",
        "response.usage.input_tokens_details: 'cache_write_tokens' is a required property",
    }


def test_three_hundred_events_are_validated_in_well_under_a_second() -> None:
    stream = events()
    check_events(stream)  # compiled by now
    started = time.thread_time()
    check_events(stream)
    assert time.thread_time() - started < 1.0  # of the processor: another test may run meanwhile


def test_a_missing_key_is_named_with_its_place() -> None:
    event = first("response.output_item.added")
    del event["item"]["call_id"]
    with pytest.raises(AssertionError, match="item: 'call_id' is a required property"):
        check_event(event)


def test_a_wrong_type_is_named_with_its_place() -> None:
    event = first("response.output_item.done")
    event["item"]["status"] = 3
    with pytest.raises(AssertionError, match=r"item\.status: 3 is not of type 'string'"):
        check_event(event)


def test_an_unknown_event_type_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"type 'response\.shell\.delta' is none of: error, "):
        check_event({"type": "response.shell.delta", "sequence_number": 0})


def test_a_problem_inside_a_union_is_told_for_the_branch_that_was_meant() -> None:
    event = first("response.shell_call_output_content.done")
    event["output"][0]["outcome"] = {"type": "exit"}
    assert problems_of("ResponseStreamEvent", event) == ["output[0].outcome: 'exit_code' is a required property"]


def test_many_problems_are_counted_and_the_first_dozen_shown() -> None:
    with pytest.raises(AssertionError) as caught:
        check_events([{"type": "response.created"}] * 20)
    assert str(caught.value).startswith(
        "events: 40 problem(s)\n  event 0: top level: 'response' is a required property"
    )
    assert str(caught.value).endswith("… and 28 more")


@pytest.mark.parametrize(
    "check, value",
    [
        (check_response, events()[-1]["response"]),
        (check_container, CONTAINER),
        (check_container, {**CONTAINER, "expires_at": 5, "idle_ttl_secs": 1200}),
        (
            check_container_list,
            {"object": "list", "data": [CONTAINER], "first_id": "cntr_1", "last_id": "cntr_1", "has_more": False},
        ),
        (
            check_container_list,
            {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False},
        ),
        (check_container_file, FILE),
        (check_error, {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}),
        (
            check_model_list,
            {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "limpet"}]},
        ),
        (check_create_container, {"name": "a", "skills": [{"type": "skill_reference", "skill_id": "skill_1"}]}),
        (check_create_response, {"model": "m", "input": "hi", "tools": [{"type": "shell"}], "stream": True}),
        (
            check_create_response,
            {
                "model": "m",
                "tools": [{"type": "shell", "environment": {"type": "container_auto", "memory_limit": "4g"}}],
            },
        ),
    ],
)
def test_a_good_value_passes(check: Callable[[object], None], value: Mapping[str, Any]) -> None:
    check(value)


@pytest.mark.parametrize(
    "check, value, problem",
    [
        (check_response, {**events()[-1]["response"], "status": "done"}, "status: 'done' is not one of"),
        (
            check_response,
            {**events()[-1]["response"], "output": [{"type": "shell"}]},
            "output[0]: type 'shell' is none of",
        ),
        (check_container, {**CONTAINER, "memory_limit": "512m"}, "memory_limit: '512m' is not one of"),
        (
            check_container_list,
            {"object": "list", "data": [CONTAINER], "first_id": None, "last_id": "cntr_1", "has_more": False},
            "first_id: None is not of type 'string'",
        ),
        (check_container_file, {**FILE, "bytes": "3"}, "bytes: '3' is not of type 'integer'"),
        (check_error, {"error": {"message": "no", "type": "x", "param": None}}, "error: 'code' is a required property"),
        (check_create_container, {}, "'name' is a required property"),
        (
            check_create_response,
            {
                "model": "m",
                "tools": [{"type": "shell", "environment": {"type": "container_auto", "memory_limit": "3g"}}],
            },
            "tools[0].environment.memory_limit: '3g' is not one of",
        ),
    ],
)
def test_a_bad_value_is_refused(check: Callable[[object], None], value: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(problem)):
        check(value)


def test_the_deleted_object_is_checked_for_its_kind() -> None:
    check_deleted({"id": "resp_1", "object": "response", "deleted": True}, "response")
    with pytest.raises(AssertionError, match=r"object: 'container' is not 'container\.deleted'"):
        check_deleted({"id": "cntr_1", "object": "container", "deleted": True}, "container.deleted")


def test_the_keys_that_strict_clients_want_are_all_asked_for() -> None:
    response = events()[-1]["response"]
    check_required_keys(response)
    broken = {**response, "user": None, "tools": [{"type": "function", "name": "f"}], "usage": {"input_tokens": 1}}
    del broken["safety_identifier"]
    with pytest.raises(AssertionError) as caught:
        check_required_keys(broken)
    for problem in (
        "safety_identifier: missing",
        "user: null is refused by the schema, leave it out",
        "usage.total_tokens: missing",
        "usage.input_tokens_details.cache_write_tokens: missing",
        "tools[0].strict: missing",
    ):
        assert problem in str(caught.value)


def test_a_strict_client_tells_only_what_is_wrong_with_the_branch_that_was_meant() -> None:
    stream = events()
    done = next(number for number, event in enumerate(stream) if event["type"] == "response.output_item.done")
    del stream[done]["item"]["call_id"]
    with pytest.raises(AssertionError) as caught:
        STRICT.events(stream)
    assert str(caught.value).splitlines() == [
        "strict client: 1 problem(s)",
        "  ResponseOutputItemDoneEvent.item.ResponseFunctionShellToolCall.call_id: Field required",
    ]


def test_a_strict_client_reads_containers_and_their_files() -> None:
    assert STRICT.container(CONTAINER).id == "cntr_1"
    page = {"object": "list", "data": [CONTAINER], "first_id": "cntr_1", "last_id": "cntr_1", "has_more": False}
    assert [container.name for container in STRICT.containers(page)] == ["a"]
    assert STRICT.container_file(FILE).path == "/mnt/data/a"
    with pytest.raises(AssertionError, match="created_at: Field required"):
        STRICT.container({key: value for key, value in CONTAINER.items() if key != "created_at"})

"""What is wanted of a client whose response stops, where a turn may be left, and what a connection keeps."""

from typing import Any

import pytest

from limpet.core import events as ev
from limpet.responses.kept_responses import KeptResponses
from limpet.responses.made_calls import CLIENTS_CALLS
from limpet.responses.steering import required_input
from limpet.responses.turn_boundary import TurnBoundary
from limpet.store.responses import ResponseRecord
from limpet.upstreams.upstream import CallBegun, CallMade, Emit, ShellArguments, TurnEnded, TurnEvent


def call(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": "item_1", "call_id": "c1", "name": "f", "status": "completed", **more}


@pytest.mark.parametrize(
    "item, wanted",
    [
        (call("function_call"), {"type": "function_call_output", "call_id": "c1", "name": "f"}),
        (call("custom_tool_call"), {"type": "custom_tool_call_output", "call_id": "c1"}),
        (call("computer_call"), {"type": "computer_call_output", "call_id": "c1"}),
        (call("apply_patch_call"), {"type": "apply_patch_call_output", "call_id": "c1"}),
        (call("shell_call", environment={"type": "local"}), {"type": "shell_call_output", "call_id": "c1"}),
        (call("shell_call", environment={"type": "container_reference", "container_id": "c"}), None),
        (
            call("tool_search_call", execution="client"),
            {"type": "tool_search_output", "call_id": "c1", "execution": "client"},
        ),
        (call("tool_search_call", execution="server"), None),
        (call("mcp_approval_request"), {"type": "mcp_approval_response", "approval_request_id": "item_1"}),
        (call("web_search_call"), None),
        ({"type": "message", "id": "m", "content": []}, None),
    ],
)
def test_each_call_of_the_client_wants_its_answer(item: dict[str, Any], wanted: dict[str, Any] | None) -> None:
    assert required_input([item]) == ([wanted] if wanted else [])


def test_a_call_that_is_answered_wants_nothing() -> None:
    assert required_input([call("function_call"), {"type": "function_call_output", "call_id": "c1"}]) == []


ADDED, DONE = ({"output_index": 0}, {"output_index": 0, "item": {"type": "message"}})
FUNCTION = Emit(ev.ITEM_DONE, {"output_index": 0, "item": {"type": "function_call"}})
NEXT = Emit(ev.ITEM_ADDED, {"output_index": 1})
MADE = CallMade(index=0, call_id="c", arguments=ShellArguments(commands=("true",)))


@pytest.mark.parametrize(
    "events, boundaries, has_own_shell",
    [
        ([Emit(ev.ITEM_ADDED, ADDED), Emit(ev.ITEM_DONE, DONE), NEXT], [True, False, True], True),
        ([Emit(ev.ITEM_ADDED, ADDED), NEXT, Emit(ev.ITEM_DONE, DONE)], [True, False, False], True),
        ([Emit(ev.ITEM_ADDED, ADDED), Emit(ev.TEXT_DELTA, ADDED)], [True, False], True),
        ([Emit(ev.ITEM_ADDED, ADDED), FUNCTION, NEXT], [True, False, False], True),
        ([CallBegun(index=0, call_id="c"), MADE, NEXT], [True, False, True], True),
        ([MADE, NEXT], [True, True], True),
        ([MADE, NEXT], [True, False], False),
        ([TurnEnded(status="completed")], [False], True),
    ],
)
def test_a_turn_is_left_between_items_and_not_behind_a_call_of_the_client(
    events: list[TurnEvent], boundaries: list[bool], has_own_shell: bool
) -> None:
    boundary = TurnBoundary(CLIENTS_CALLS, has_own_shell=has_own_shell)
    assert [boundary.is_before(event) for event in events] == boundaries


def record(response_id: str, previous: str | None = None) -> ResponseRecord:
    return ResponseRecord(
        id=response_id,
        tenant="t",
        status="completed",
        model="m",
        provider="p",
        previous_response_id=previous,
        created_at=0,
        owner="o",
        request={},
        input=[],
    )


def test_only_the_newest_of_a_lane_is_found_with_what_it_was_chained_to() -> None:
    kept = KeptResponses()
    for each in (record("r1"), record("r2", "r1"), record("r3", "r2")):
        kept.advance("a", each, is_stored=False)
    kept.advance("b", record("f1", "r2"), is_stored=False)

    assert sorted(kept.before("r3")) == ["f1", "r1", "r2", "r3"]
    assert kept.before("r2") == kept.before(None) == kept.before("r9") == {}
    assert kept.take_unreachable(()) == []


def test_what_no_lane_leads_back_to_is_dropped_unless_it_is_in_use() -> None:
    kept = KeptResponses()
    for each in (record("r1"), record("r2", "r1"), record("s1")):
        kept.advance("a", each, is_stored=False)

    assert kept.take_unreachable(["r2"]) == []
    assert sorted(kept.take_unreachable(())) == ["r1", "r2"]
    assert kept.take_all() == ["s1"]


def test_a_stored_response_keeps_what_it_was_chained_to() -> None:
    kept = KeptResponses()
    kept.advance(None, record("r1"), is_stored=False)
    kept.advance(None, record("s1", "r1"), is_stored=True)

    assert sorted(kept.before("s1")) == ["r1"]
    assert kept.take_unreachable(()) == []


def test_a_failure_evicts_the_parent_of_its_own_lane_only() -> None:
    kept = KeptResponses()
    kept.advance("a", record("r1"), is_stored=False)
    kept.evict("b", "r1")
    assert list(kept.before("r1")) == ["r1"]
    kept.evict("a", "r1")

    assert kept.before("r1") == {}
    assert kept.take_unreachable(()) == ["r1"]

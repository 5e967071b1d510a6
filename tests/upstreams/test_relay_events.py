from collections.abc import Iterable
from typing import Any

import pytest

from limpet.upstreams import upstream as port
from limpet.upstreams.endings import ResponseError
from limpet.upstreams.relay_events import RelayEventReader
from limpet.upstreams.usage import InputTokensDetails, Usage
from tests.wire.schema import recording

USAGE = Usage.counted(given=1, answered=2)


def read(events: Iterable[dict[str, Any]], *, function_shell: bool = False) -> list[port.TurnEvent]:
    reader = RelayEventReader(function_shell=function_shell)
    return [said for event in events for said in reader.read(dict(event))]


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item, "sequence_number": 9}


def done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item, "sequence_number": 9}


def call(status: str = "completed", *commands: str, call_id: str = "call_1", **action: Any) -> dict[str, Any]:
    given = {"commands": list(commands), **action}
    return {"id": "sh_1", "type": "shell_call", "status": status, "call_id": call_id, "action": given}


def command(kind: str, at: int, **data: Any) -> dict[str, Any]:
    return {"type": f"response.shell_call_command.{kind}", "output_index": 0, "command_index": at, **data}


def text_of(events: Iterable[port.TurnEvent], at: int) -> str:
    texts = [event for event in events if isinstance(event, port.CommandText)]
    return "".join(event.text for event in texts if event.command_index == at)


def test_real_traffic_gives_each_call_with_its_text_and_passes_the_message_on_unchanged() -> None:
    recorded = recording("openai-shell-skills")
    events = read(recorded)
    made = [event for event in events if isinstance(event, port.CallMade)]
    assert [event.index for event in made] == [0, 2]
    assert all(isinstance(event.arguments, port.ShellArguments) for event in made)
    for event in made:
        mine = [each for each in events if isinstance(each, port.CommandText) and each.index == event.index]
        assert isinstance(event.arguments, port.ShellArguments)
        assert event.arguments.commands == (text_of(mine, 0),)
        begun = next(each for each in events if isinstance(each, port.CallBegun) and each.index == event.index)
        assert begun.call_id == event.call_id
    passed = [{"type": event.type, **event.data} for event in events if isinstance(event, port.Emit)]
    shell_calls = {0, 2}
    wanted = [
        {name: value for name, value in event.items() if name != "sequence_number"}
        for event in recorded
        if "output_index" in event and event["output_index"] not in shell_calls
    ]
    assert passed == wanted
    ended = events[-1]
    assert isinstance(ended, port.TurnEnded)
    assert (ended.status, ended.response["model"]) == ("completed", "gpt-5.2-2025-12-11")
    assert ended.usage is not None
    assert ended.usage.input_tokens_details == InputTokensDetails(cached_tokens=1024)


def test_a_recorded_message_turn_has_no_call() -> None:
    events = read(recording("openai-shell-local-multiturn"))
    assert not any(isinstance(event, port.CallBegun | port.CallMade) for event in events)
    assert isinstance(events[-1], port.TurnEnded)


def test_a_call_that_is_complete_only_at_its_end_is_read_from_the_item() -> None:
    events = read([added(0, call("in_progress")), done(0, call("completed", "ls", "pwd", timeout_ms=7))])
    arguments = port.ShellArguments(commands=("ls", "pwd"), timeout_ms=7)
    assert events == [
        port.CallBegun(index=0, call_id="call_1"),
        port.CallMade(index=0, call_id="call_1", arguments=arguments),
    ]


def test_a_call_that_only_has_its_end_begins_there() -> None:
    events = read([done(3, call("completed", "ls"))])
    arguments = port.ShellArguments(commands=("ls",))
    assert events == [
        port.CallBegun(index=3, call_id="call_1"),
        port.CallMade(index=3, call_id="call_1", arguments=arguments),
    ]


def test_text_that_only_came_with_the_end_of_a_command_is_shown_too() -> None:
    events = read(
        [
            added(0, call("in_progress")),
            command("added", 0, command=""),
            command("delta", 0, delta="ls "),
            command("done", 0, command="ls -la"),
            command("added", 1, command="p"),
            command("done", 1, command="pwd"),
            done(0, call("completed")),
        ]
    )
    assert (text_of(events, 0), text_of(events, 1)) == ("ls -la", "pwd")
    made = events[-1]
    assert isinstance(made, port.CallMade)
    assert made.arguments == port.ShellArguments(commands=("ls -la", "pwd"))


def test_two_calls_at_once_do_not_mix() -> None:
    first, second = call("completed", "a"), call("completed", "b", call_id="call_2")
    events = read([added(0, call("in_progress")), added(1, second), done(1, second), done(0, first)])
    made = {event.call_id: event.arguments for event in events if isinstance(event, port.CallMade)}
    assert made == {"call_1": port.ShellArguments(commands=("a",)), "call_2": port.ShellArguments(commands=("b",))}


def test_a_call_that_broke_off_is_never_handed_over_to_be_run() -> None:
    events = read([added(0, call("in_progress")), done(0, call("incomplete", "rm -rf /mnt/data/old"))])
    made = events[-1]
    assert isinstance(made, port.CallMade)
    assert isinstance(made.arguments, port.BadArguments)
    assert "broke off" in made.arguments.reason


def test_a_function_named_shell_is_the_shell_only_where_it_stands_for_it() -> None:
    item = {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "shell", "arguments": '{"commands":["ls"]}'}
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": item["arguments"]}
    end = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": item["arguments"]}
    stream = [added(0, item | {"arguments": ""}), delta, end, done(0, item)]
    arguments = port.ShellArguments(commands=("ls",))
    assert read(stream, function_shell=True) == [
        port.CallBegun(index=0, call_id="c"),
        port.CommandText(index=0, command_index=0, text="ls"),
        port.CallMade(index=0, call_id="c", arguments=arguments),
    ]
    assert [event.type for event in read(stream) if isinstance(event, port.Emit)] == [event["type"] for event in stream]


def test_unknown_events_and_items_pass_as_they_are() -> None:
    odd = {"type": "acme:event", "output_index": 0, "deep": {"x": [1, None, 0.5]}}
    item = {"id": "x_1", "type": "acme:item", "payload": "p"}
    assert read([added(0, item), odd, done(0, item)]) == [
        port.Emit("response.output_item.added", {"output_index": 0, "item": item}),
        port.Emit("acme:event", {"output_index": 0, "deep": {"x": [1, None, 0.5]}}),
        port.Emit("response.output_item.done", {"output_index": 0, "item": item}),
    ]


def test_the_providers_own_lifecycle_and_keepalives_are_not_passed_on() -> None:
    response = {"id": "resp_theirs"}
    kinds = ["response.created", "response.queued", "response.in_progress"]
    assert read([*({"type": kind, "response": response} for kind in kinds), {"type": "keepalive"}]) == []


@pytest.mark.parametrize(
    "event, ended",
    [
        (
            {"type": "response.completed", "response": {"usage": {"input_tokens": 1, "output_tokens": 2}, "model": "m", "id": "x"}},
            port.TurnEnded(status="completed", usage=USAGE, response={"model": "m"}),
        ),
        (
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
            port.TurnEnded(status="incomplete", incomplete_reason="max_output_tokens"),
        ),
        (
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "no"}}},
            port.TurnEnded(status="failed", error=ResponseError(code="server_error", message="no")),
        ),
        (
            {"type": "error", "code": None, "message": "gone", "param": None},
            port.TurnEnded(status="failed", error=ResponseError(code="server_error", message="gone")),
        ),
        (
            {"type": "error", "error": {"type": "overloaded", "message": "busy"}},
            port.TurnEnded(
                status="failed",
                error=ResponseError(
                    code="server_error", message="busy (The provider's code is overloaded.)", type="overloaded"
                ),
            ),
        ),
        ({"error": "plain"}, port.TurnEnded(status="failed", error=ResponseError(code="server_error", message="plain"))),
    ],
)  # fmt: skip
def test_each_end_says_how_it_ended(event: dict[str, Any], ended: port.TurnEnded) -> None:
    reader = RelayEventReader(function_shell=False)
    assert list(reader.read(event)) == [ended]
    assert reader.ended


def test_what_a_failed_response_left_open_is_closed() -> None:
    message = {"id": "msg_1", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    failed = {"type": "response.failed", "response": {"output": [message], "error": {"message": "no"}}}
    events = read([added(0, message), added(1, call("in_progress")), failed])
    assert events[2] == port.Emit(
        "response.output_item.done", {"output_index": 0, "item": message | {"status": "incomplete"}}
    )
    made = events[3]
    assert isinstance(made, port.CallMade)
    assert isinstance(made.arguments, port.BadArguments)

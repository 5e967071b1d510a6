"""What a model's calls become: several commands, several calls, calls that are wrong, too many, or not the gateway's to run."""

from pathlib import Path

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.providers.turns import FunctionCall, Reasoning, ShellCall
from tests.wire.asking import SHELL, entries
from tests.wire.order import check_event_order
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_events
from tests.wire.streams import events_of, items_of

LOOKUP = {"type": "function", "name": "lookup", "description": "Looks up.", "parameters": {"type": "object"}}
LOCAL = [{"type": "shell", "environment": {"type": "local"}}]


@pytest.fixture
def client(scripted_gateway: Gateway) -> openai.OpenAI:
    return scripted_gateway.client()


def kinds_of(response: dict) -> list[str]:
    return [item["type"] for item in response["output"]]


def offers_shell(body: dict) -> bool:
    return any(tool["type"] == "shell" for tool in body["tools"])


@pytest.mark.promise("shell-call-output-has-one-entry-for-each-command")
def test_commands_of_one_call_share_files_and_nothing_else(provider: Provider, scripted_gateway: Gateway) -> None:
    commands = (
        "mkdir sub; cd sub; export SHARED=yes; alias hi=echo; echo one > ../one.txt",
        'pwd; echo "${SHARED:-no}"; cat one.txt',
        "exit 3",
        "echo last >&2",
    )
    provider.play(ShellCall(commands), "Done.")
    events = events_of(scripted_gateway, model=MODEL, input="go", tools=SHELL)

    check_events(events)
    check_event_order(events)
    final = events[-1]["response"]
    assert kinds_of(final) == ["shell_call", "shell_call_output", "message"]
    assert final["output"][0]["action"]["commands"] == list(commands)
    first, second, third, last = final["output"][1]["output"]
    directory, shared, one = second["stdout"].splitlines()
    assert (first["stdout"], shared, one) == ("", "no", "one")
    assert not directory.endswith("/sub")
    assert third == {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 3}}
    assert last == {"stdout": "", "stderr": "last\n", "outcome": {"type": "exit", "exit_code": 0}}
    assert [entry["outcome"] for entry in provider.told()] == [e["outcome"] for e in final["output"][1]["output"]]


@pytest.mark.promise("hadrian-parallel-calls-run-in-their-order")
def test_calls_of_one_turn_run_in_the_order_in_which_they_were_made(
    provider: Provider, scripted_gateway: Gateway
) -> None:
    calls = [ShellCall((f"sleep 0.{9 - n}; echo {n} >> log; cat log",), call_id=f"call_{n}") for n in (1, 2, 3)]
    provider.play(("I begin.", Reasoning("Three."), *calls), "Done.")
    events = events_of(scripted_gateway, model=MODEL, input="go", tools=SHELL)

    check_events(events)
    check_event_order(events)
    final = events[-1]["response"]
    assert kinds_of(final) == ["message", "reasoning", *["shell_call", "shell_call_output"] * 3, "message"]
    outputs = items_of(final, "shell_call_output")
    assert [item["call_id"] for item in outputs] == ["call_1", "call_2", "call_3"]
    assert [item["output"][0]["stdout"] for item in outputs] == ["1\n", "1\n2\n", "1\n2\n3\n"]
    given = [(item["type"], item["call_id"]) for item in provider.asked[1]["input"] if "call_id" in item]
    assert given == [(kind, f"call_{n}") for n in (1, 2, 3) for kind in ("shell_call", "shell_call_output")]


@pytest.mark.promise("shell-call-done-is-completed-unless-its-arguments-broke-off")
@pytest.mark.parametrize(
    "call",
    [ShellCall((), style="item"), ShellCall(("touch ran",), status="incomplete")],
    ids=["no-command", "broken-off"],
)
def test_bad_arguments_go_back_to_the_model_as_a_failed_call(
    provider: Provider, scripted_gateway: Gateway, call: ShellCall
) -> None:
    provider.play(call, ShellCall(("ls",), call_id="call_again"), "Done.")
    events = events_of(scripted_gateway, model=MODEL, input="go", tools=SHELL)

    check_events(events)
    check_event_order(events)
    final = events[-1]["response"]
    assert final["status"] == "completed"
    assert [item["status"] for item in items_of(final, "shell_call")] == ["incomplete", "completed"]
    refused, listed = items_of(final, "shell_call_output")
    (entry,) = refused["output"]
    assert entry["outcome"] == {"type": "exit", "exit_code": 2}
    assert '{"commands": ["…"]}' in entry["stderr"]
    assert provider.told(turn=1) == [entry]
    assert listed["output"][0]["stdout"] == ""


def test_calls_beyond_max_tool_calls_are_neither_run_nor_shown(client: openai.OpenAI, provider: Provider) -> None:
    provider.play(tuple(ShellCall((f"echo {n}",), call_id=f"call_{n}") for n in (1, 2, 3)), "Done.")
    response = client.responses.create(model=MODEL, input="go", tools=SHELL, max_tool_calls=2)

    assert response.max_tool_calls == 2
    assert [entry.stdout for entry in entries(response)] == ["1\n", "2\n"]
    assert [item.type for item in response.output] == [*["shell_call", "shell_call_output"] * 2, "message"]
    assert [offers_shell(body) for body in provider.asked] == [True, False]


def test_a_response_has_no_more_model_turns_than_the_operator_allows(client: openai.OpenAI, provider: Provider) -> None:
    """The gateway's `max_iterations` is 6; in the last turn the model is offered no shell, so that it answers."""
    provider.play(*(ShellCall((f"echo {n}",), call_id=f"call_{n}") for n in range(5)), "I must stop here.")
    response = client.responses.create(model=MODEL, input="go", tools=SHELL)

    assert [offers_shell(body) for body in provider.asked] == [True] * 5 + [False]
    assert [entry.stdout for entry in entries(response)] == [f"{n}\n" for n in range(5)]
    assert (response.status, response.output_text) == ("completed", "I must stop here.")


def test_a_function_call_ends_the_turn_and_its_output_goes_on_from_there(
    client: openai.OpenAI, provider: Provider
) -> None:
    call = FunctionCall("lookup", {"what": "x"}, call_id="call_lookup")
    provider.play((ShellCall(("echo from the shell",)), call), ShellCall(("echo more",), call_id="call_2"), "The end.")
    first = client.responses.create(model=MODEL, input="go", tools=[*SHELL, LOOKUP])
    output = {"type": "function_call_output", "call_id": "call_lookup", "output": "forty-two"}
    second = client.responses.create(model=MODEL, input=[output], tools=[*SHELL, LOOKUP], previous_response_id=first.id)

    assert first.status == "completed"
    assert [item.type for item in first.output] == ["shell_call", "shell_call_output", "function_call"]
    assert second.output_text == "The end."
    assert [entry.stdout for entry in entries(second)] == ["more\n"]
    kinds = [item["type"] for item in provider.asked[1]["input"]]
    assert kinds == ["message", "shell_call", "shell_call_output", "function_call", "function_call_output"]
    assert provider.asked[1]["input"][-1]["output"] == "forty-two"


@pytest.mark.promise("hadrian-local-environment-is-never-run-by-the-gateway")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_local_shell_is_the_clients_to_run(
    provider: Provider, scripted_gateway: Gateway, tmp_path: Path, streamed: bool
) -> None:
    provider.play(ShellCall((f"touch {tmp_path}/ran", "uname"), call_id="call_local"), "It says Plan 9.")
    asked = {"model": MODEL, "input": "go", "tools": LOCAL}
    if streamed:
        events = events_of(scripted_gateway, **asked)
        check_events(events)
        check_event_order(events)
        first = events[-1]["response"]
    else:
        first = scripted_gateway.client().responses.create(**asked).to_dict()
    item = {
        "type": "shell_call_output",
        "call_id": "call_local",
        "output": [
            {"stdout": out, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}} for out in ("", "Plan 9")
        ],
    }
    second = scripted_gateway.client().responses.create(
        model=MODEL, input=[item], tools=LOCAL, previous_response_id=first["id"]
    )

    assert first["status"] == "completed"
    assert kinds_of(first) == ["shell_call"]
    assert first["output"][0]["environment"] == {"type": "local"}
    assert first["tools"] == LOCAL
    assert "container_id" not in first
    assert not (tmp_path / "ran").exists()
    assert len(provider.asked) == 2
    assert provider.told() == item["output"]
    assert second.output_text == "It says Plan 9."


@pytest.mark.promise("model-is-shown-head-and-tail-of-long-output", "hadrian-item-keeps-more-than-the-model-sees")
def test_the_model_is_shown_head_and_tail_and_the_item_keeps_the_whole(
    client: openai.OpenAI, provider: Provider
) -> None:
    provider.play(ShellCall(("seq 1 10000; echo oh >&2",)), "Done.")
    response = client.responses.create(model=MODEL, input="go", tools=SHELL)

    whole = "".join(f"{n}\n" for n in range(1, 10001))
    (entry,) = entries(response)
    assert (entry.stdout, entry.stderr) == (whole, "oh\n")
    (told,) = provider.told()
    head, marker, tail = told["stdout"].partition("\n... [")
    marker, _, tail = tail.partition("] ...\n")
    left_out = len(whole) - len(head) - len(tail)
    assert (whole.startswith(head), whole.endswith(tail)) == (True, True)
    assert marker == f"{left_out} characters left out"
    assert len(head) + len(tail) + len("oh\n") == 8000
    assert told["stderr"] == "oh\n"


@pytest.mark.promise("max-output-length-of-the-call-wins", "hadrian-max-output-length-bounds-both-streams-together")
@pytest.mark.parametrize("length", [100, 20_000])
def test_max_output_length_of_a_call_bounds_both_streams_together(
    client: openai.OpenAI, provider: Provider, length: int
) -> None:
    provider.play(ShellCall(("seq 1 9000; seq 1 9000 >&2",), max_output_length=length), "Done.")
    response = client.responses.create(model=MODEL, input="go", tools=SHELL)

    (item,) = [item for item in response.output if item.type == "shell_call_output"]
    whole = "".join(f"{n}\n" for n in range(1, 9001))
    assert (item.output[0].stdout, item.output[0].stderr) == (whole, whole)
    assert item.max_output_length == length
    assert provider.asked[1]["input"][-1]["max_output_length"] == length
    (told,) = provider.told()
    marked = [told[stream].split("\n... [") for stream in ("stdout", "stderr")]
    shown = [head + tail.partition("] ...\n")[2] for head, tail in marked]
    assert sum(map(len, shown)) == length

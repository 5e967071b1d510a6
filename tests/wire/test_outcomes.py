"""How commands end, as clients and models are told: codes, signals, time limits, a lost box; and what is kept of their output."""

import json
import os
import signal

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.host import eventually, processes_with
from tests.support.providers.turns import ShellCall
from tests.wire.asking import SHELL, container_of, entries, run
from tests.wire.conftest import RUNTIME
from tests.wire.order import check_event_order
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_events
from tests.wire.streams import asking, events_of, items_of

EXIT_CODES = {
    "true": 0,
    "exit 7": 7,
    "touch plain; ./plain": 126,
    "no-such-program": 127,
    "kill -KILL $$": 137,
    "kill -TERM $$": 143,
    "sh -c 'kill -SEGV $$'": 139,
}


@pytest.mark.promise("exit-outcome-carries-the-code", "hadrian-outcome-is-exit-or-timeout")
def test_an_exit_carries_its_code_and_a_signal_128_and_its_number(client: openai.OpenAI) -> None:
    response = run(client, *EXIT_CODES)

    outcomes = [entry.outcome.to_dict() for entry in entries(response)]
    assert outcomes == [{"type": "exit", "exit_code": code} for code in EXIT_CODES.values()]
    outputs = [item for item in response.output if item.type == "shell_call_output"]
    assert {item.status for item in outputs} == {"completed"}
    assert response.status == "completed"


@pytest.mark.promise("timeout-outcome-keeps-the-output-so-far", "timeout-kills-the-whole-tree-of-its-own-command")
def test_a_timeout_keeps_what_was_printed_and_kills_the_whole_tree(
    provider: Provider, scripted_gateway: Gateway
) -> None:
    commands = (
        "nohup sleep 601.5 >nohup.out 2>&1 & echo detached",
        "echo begun; echo oh >&2; setsid sleep 602.5 & (sleep 603.5 &); sleep 604.5",
        "echo after",
    )
    provider.play(ShellCall(commands, timeout_ms=700), "Done.")
    events = events_of(scripted_gateway, model=MODEL, input="go", tools=SHELL)

    check_events(events)
    check_event_order(events)
    (item,) = items_of(events[-1]["response"], "shell_call_output")
    assert item["status"] == "incomplete"
    assert item["output"] == [
        {"stdout": "detached\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        {"stdout": "begun\n", "stderr": "oh\n", "outcome": {"type": "timeout"}},
        {"stdout": "after\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
    ]
    assert provider.told() == item["output"]
    for seconds in ("602.5", "603.5", "604.5"):
        assert processes_with(seconds) == []
    assert len(processes_with("601.5")) == 1


@pytest.mark.promise("command-timeout-caps-every-command")
@pytest.mark.parametrize("asked", [None, 600_000], ids=["no-timeout", "a-longer-one"])
def test_the_operators_limit_cannot_be_raised_by_a_call(
    provider: Provider, scripted_gateway: Gateway, asked: int | None
) -> None:
    """The gateway's `command_timeout_secs` is 3: the response would otherwise take a minute, past the client's patience."""
    provider.play(ShellCall(("echo begun; sleep 57.5",), timeout_ms=asked), "Done.")
    with scripted_gateway.client(timeout=20.0) as client:
        response = client.responses.create(model=MODEL, input="go", tools=SHELL)

    (entry,) = entries(response)
    assert (entry.stdout, entry.outcome.to_dict()) == ("begun\n", {"type": "timeout"})
    described = [tool for tool in provider.asked[0]["tools"] if tool["type"] == "shell"]
    assert len(described) == 1


@pytest.mark.skipif(RUNTIME != "bubblewrap", reason="only a bubblewrap box has an agent of its own to kill")
@pytest.mark.promise("lost-command-is-exit-125", "hadrian-infrastructure-failure-is-told-to-the-model")
def test_a_box_that_dies_in_mid_command_is_told_to_client_and_model_and_the_response_goes_on(
    provider: Provider, scripted_gateway: Gateway
) -> None:
    provider.play(
        ShellCall(("echo kept > kept.txt; echo begun; sleep 58.5", "echo never"), call_id="call_dies"),
        ShellCall(("cat kept.txt",), call_id="call_next"),
        "All is told.",
    )
    with asking(scripted_gateway, model=MODEL, input="go", tools=SHELL) as stream:
        container = stream.until("response.created")["response"]["container_id"]
        stream.until_printed("begun")
        os.kill(agent_of(scripted_gateway, container), signal.SIGKILL)
        events = stream.rest()

    check_events(events)
    check_event_order(events)
    final = events[-1]["response"]
    lost, found = items_of(final, "shell_call_output")
    assert lost["status"] == "incomplete"
    assert [entry["outcome"] for entry in lost["output"]] == [{"type": "exit", "exit_code": 125}] * 2
    assert [entry["stdout"] for entry in lost["output"]] == ["begun\n", ""]
    for entry in lost["output"]:
        assert entry["stderr"].startswith("limpet: ")
        assert len(entry["stderr"].strip().splitlines()) == 1
    assert provider.told(turn=1) == lost["output"]
    assert (found["status"], found["output"][0]["stdout"]) == ("completed", "kept\n")
    assert "started again" in found["output"][0]["stderr"]
    assert final["status"] == "completed"
    assert items_of(final, "message")[0]["content"][0]["text"] == "All is told."
    eventually(lambda: processes_with("58.5") == [])


def agent_of(gateway: Gateway, container_id: str) -> int:
    """The process that is the container's box, as the host sees it."""
    records = [json.loads(path.read_text()) for path in (gateway.home / "run").glob("*.json")]
    (pid,) = [record["pid"] for record in records if record["name"] == container_id]
    return int(pid)


@pytest.mark.promise("shell-call-output-carries-both-streams", "item-of-long-output-has-head-and-tail")
def test_output_beyond_a_mebibyte_has_its_head_and_its_tail_and_is_whole_in_a_file(client: openai.OpenAI) -> None:
    printed = "".join(f"{n}\n" for n in range(1, 200_001))
    response = run(client, "seq 1 200000; echo short >&2")

    (entry,) = entries(response)
    head, _, rest = entry.stdout.partition("\n... [")
    said, _, tail = rest.partition("] ...\n")
    assert (printed.startswith(head), printed.endswith(tail)) == (True, True)
    assert tail.endswith("\n199999\n200000\n")
    assert 1024 * 1024 - 8 < len(head) + len(tail) <= 1024 * 1024
    assert said.startswith(
        f"{len(printed) - len(head) - len(tail)} bytes left out; the whole stdout, {len(printed)} bytes"
    )
    assert entry.stderr == "short\n"
    (item,) = [item for item in response.output if item.type == "shell_call_output"]
    (file,) = [file for file in item.to_dict()["output_files"] if said.endswith(f"is in {file['path']}")]
    whole = client.containers.files.content.retrieve(file["file_id"], container_id=container_of(response)).read()
    assert whole == printed.encode()


@pytest.mark.promise("item-of-long-output-has-head-and-tail")
def test_the_model_is_shown_the_true_end_of_long_output_and_the_file_that_has_all_of_it(
    provider: Provider, scripted_gateway: Gateway
) -> None:
    printed = "".join(f"{n}\n" for n in range(1, 200_001))
    provider.play(ShellCall(("seq 1 200000",)), "Done.")
    with scripted_gateway.client() as client:
        response = client.responses.create(model=MODEL, input="go", tools=SHELL)

    (told,) = provider.told()
    head, _, rest = told["stdout"].partition("\n... [")
    said, _, tail = rest.partition("] ...\n")
    assert (printed.startswith(head), printed.endswith(tail), len(head) + len(tail)) == (True, True, 8000)
    (item,) = [item for item in response.output if item.type == "shell_call_output"]
    (file,) = item.to_dict()["output_files"]
    assert said == f"{len(printed) - 8000} bytes left out; the whole stdout, {len(printed)} bytes, is in {file['path']}"


@pytest.mark.promise("item-of-long-output-has-head-and-tail")
def test_long_output_is_streamed_as_it_is_on_the_item(provider: Provider, scripted_gateway: Gateway) -> None:
    provider.play(ShellCall(("seq 1 200000; seq 1 300000 >&2; exit 3",)), "Done.")
    events = events_of(scripted_gateway, model=MODEL, input="go", tools=SHELL)

    check_events(events)
    check_event_order(events)
    (item,) = items_of(events[-1]["response"], "shell_call_output")
    (entry,) = item["output"]
    assert entry["stdout"].endswith("\n200000\n")
    assert entry["stderr"].endswith("\n300000\n")
    assert entry["outcome"] == {"type": "exit", "exit_code": 3}


def test_where_the_whole_cannot_be_kept_the_command_still_has_its_result(client: openai.OpenAI) -> None:
    response = run(client, "touch limpet-output; head -c 2000000 /dev/zero | tr '\\0' x; printf end; exit 5")

    (entry,) = entries(response)
    head, _, rest = entry.stdout.partition("\n... [")
    said, _, tail = rest.partition("] ...\n")
    assert "could not be kept" in said
    assert (set(head), set(tail[:-3]), tail[-3:], len(head) + len(tail)) == ({"x"}, {"x"}, "end", 1024 * 1024)
    assert entry.outcome.to_dict() == {"type": "exit", "exit_code": 5}


@pytest.mark.promise("shell-call-output-carries-both-streams")
@pytest.mark.parametrize(
    "command, printed",
    [
        ("printf 'a\\377\\376b\\342\\202'", "a\ufffd\ufffdb\ufffd"),
        ("printf '\\342\\202'; sleep 0.2; printf '\\254\\n'", "€\n"),
        ("printf 'a\\0b\\r\\n\\033[1m'", "a\0b\r\n\033[1m"),
        ("printf '\\355\\240\\200'", "\ufffd\ufffd\ufffd"),
    ],
    ids=["not-utf8", "a-character-in-two-pieces", "control-characters", "a-surrogate"],
)
def test_what_is_not_text_is_shown_as_text(gateway: Gateway, command: str, printed: str) -> None:
    with gateway.client() as client:
        response = run(client, command)

    assert entries(response)[0].stdout == printed

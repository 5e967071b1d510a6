"""The items and events of a response with a shell: their shapes, ids, order, and what stands on them when."""

import re
from pathlib import Path

import openai
import pytest

from limpet.runtimes.memory import MemoryRuntime
from tests.support.gateway import Gateway, running
from tests.support.inprocess import serving
from tests.support.slow_boot import SlowBoot
from tests.wire.asking import SHELL, referring_to, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_event_order, check_events
from tests.wire.streams import DELTA, asking, events_of, items_of


def kinds_of(response: dict) -> list[str]:
    return [item["type"] for item in response["output"]]


@pytest.mark.promise("hadrian-ids-have-their-prefixes", "container-is-named-by-a-cntr-id")
def test_every_id_has_its_prefix_and_128_random_bits(gateway: Gateway) -> None:
    prompt = shell_blocks("echo a > a.txt", "true")
    final = events_of(gateway, model="limpet/script", input=prompt, tools=SHELL)[-1]["response"]

    file = items_of(final, "shell_call_output")[0]["output_files"][0]
    named = {"resp": [final["id"]], "cntr": [final["container_id"]], "cfile": [file["file_id"]]}
    for kind, prefix in (("shell_call", "sh"), ("shell_call_output", "sho"), ("message", "msg")):
        named[prefix] = [item["id"] for item in items_of(final, kind)]
    for prefix, ids in named.items():
        assert all(re.fullmatch(rf"{prefix}_[0-9a-f]{{32}}", each) for each in ids), (prefix, ids)
        assert len(set(ids)) == len(ids)
    calls, outputs = items_of(final, "shell_call"), items_of(final, "shell_call_output")
    assert [item["call_id"] for item in calls] == [item["call_id"] for item in outputs]
    assert calls[0]["call_id"] != calls[1]["call_id"]


@pytest.mark.promise("events-are-named-sse")
def test_each_frame_is_named_after_its_event_and_done_is_last(gateway: Gateway) -> None:
    with asking(gateway, model="limpet/script", input=shell_blocks("echo hello"), tools=SHELL) as stream:
        events = stream.rest()

    frames = [frame.split("\n") for frame in "\n".join(stream.lines).strip("\n").split("\n\n")]
    assert frames[-1] == ["data: [DONE]"]
    assert [frame[0] for frame in frames[:-1]] == [f"event: {event['type']}" for event in events]
    assert all(len(frame) == 2 and frame[1].startswith("data: {") for frame in frames[:-1])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.promise("typed-clients-read-the-lifecycle", "shell-tool-is-declared-as-openai-does")
def test_the_strict_client_reads_every_event_and_the_lifecycle_in_them(client: openai.OpenAI) -> None:
    with client.responses.create(
        model="limpet/script", input=shell_blocks("echo hello"), tools=SHELL, stream=True
    ) as stream:
        events = list(stream)

    check_event_order([event.to_dict() for event in events])
    shell = [event for event in events if "shell_call" in event.type or getattr(event, "item", None)]
    seen = [f"{event.type} {event.item.type}" if hasattr(event, "item") else event.type for event in shell]
    assert list(dict.fromkeys(seen)) == [
        "response.output_item.added shell_call",
        "response.shell_call_command.added",
        "response.shell_call_command.delta",
        "response.shell_call_command.done",
        "response.output_item.done shell_call",
        "response.output_item.added shell_call_output",
        DELTA,
        "response.shell_call_output_content.done",
        "response.output_item.done shell_call_output",
        "response.output_item.added message",
        "response.output_item.done message",
    ]


@pytest.mark.promise(
    "shell-call-is-added-in-progress",
    "shell-call-output-is-added-as-a-placeholder",
    "shell-call-done-names-its-container",
)
def test_items_are_announced_empty_and_finished_with_all_they_have(gateway: Gateway) -> None:
    events = events_of(gateway, model="limpet/script", input=shell_blocks("echo hello"), tools=SHELL)

    added = {e["item"]["type"]: e["item"] for e in events if e["type"] == "response.output_item.added"}
    done = {e["item"]["type"]: e["item"] for e in events if e["type"] == "response.output_item.done"}
    container = events[0]["response"]["container_id"]
    place = {"type": "container_reference", "container_id": container}
    call, output = added["shell_call"], added["shell_call_output"]
    assert (call["status"], call["action"]["commands"]) == ("in_progress", [])
    assert (output["status"], output["output"]) == ("in_progress", [])
    assert done["shell_call"] == call | {
        "status": "completed",
        "environment": place,
        "action": {"commands": ["echo hello"], "timeout_ms": None, "max_output_length": None},
    }
    assert done["shell_call_output"] == output | {
        "status": "completed",
        "output": [{"stdout": "hello\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        "output_files": [],
    }


@pytest.mark.promise(
    "shell-response-has-a-container-before-it-is-created",
    "response-names-its-container",
    "environment-is-optional",
    "container-auto-is-taken",
)
@pytest.mark.parametrize("environment", [{}, {"environment": {"type": "container_auto"}}], ids=["none", "auto"])
def test_tools_echo_the_container_from_the_first_event_on_even_if_it_is_never_used(
    gateway: Gateway, environment: dict
) -> None:
    tool = {"type": "shell", **environment}
    with asking(gateway, model="limpet/script", input="no commands", tools=[tool]) as stream:
        created = stream.until("response.created")["response"]
        with gateway.http() as http:
            row = http.get(f"/v1/containers/{created['container_id']}")
        final = stream.rest()[-1]["response"]

    place = {"type": "container_reference", "container_id": created["container_id"]}
    assert row.status_code == 200, row.text
    assert kinds_of(final) == ["message"]
    for response in (created, final):
        assert response["tools"] == [{"type": "shell", "environment": place}]
        assert response["container_id"] == created["container_id"]
    with gateway.http() as http:
        assert http.get(f"/v1/responses/{created['id']}").json() == final


@pytest.mark.promise("shell-call-added-fires-before-boot", "shell-call-output-is-added-as-a-placeholder")
def test_both_items_are_announced_while_the_box_still_boots(tmp_path: Path) -> None:
    runtime = SlowBoot(MemoryRuntime())
    with (
        serving(tmp_path, runtime=runtime) as gateway,
        asking(gateway, model="limpet/script", input=shell_blocks("echo hello"), tools=SHELL) as stream,
    ):
        call = stream.until("response.output_item.added")["item"]
        output = stream.until("response.output_item.added")["item"]
        assert runtime.booted == 0
        runtime.let_boot()
        final = stream.rest()[-1]["response"]

    assert (call["type"], output["type"]) == ("shell_call", "shell_call_output")
    assert runtime.booted == 1
    assert items_of(final, "shell_call_output")[0]["output"][0]["stdout"] == "hello\n"


@pytest.mark.promise("shell-events-show-output-while-it-comes", "hadrian-output-is-seen-while-it-comes")
def test_output_is_seen_while_its_command_still_runs(gateway: Gateway) -> None:
    waits = shell_blocks("echo begun; until [ -e go ]; do sleep 0.02; done; echo over >&2")
    with asking(gateway, model="limpet/script", input=waits, tools=SHELL) as stream:
        container = stream.until("response.created")["response"]["container_id"]
        assert stream.until(DELTA)["delta"] == {"stdout": "begun\n"}
        events_of(gateway, model="limpet/script", input=shell_blocks("touch go"), tools=referring_to(container))
        assert stream.until(DELTA)["delta"] == {"stderr": "over\n"}
        final = stream.rest()[-1]["response"]

    check_events(stream.events)
    entry = {"stdout": "begun\n", "stderr": "over\n", "outcome": {"type": "exit", "exit_code": 0}}
    assert items_of(final, "shell_call_output")[0]["output"] == [entry]


@pytest.mark.promise("stream-output-false-turns-the-deltas-off")
def test_without_stream_output_there_is_no_shell_delta_and_all_the_rest(home_directory: Path, gateway: Gateway) -> None:
    unsafe = "unsafe_local = true" if RUNTIME == "local" else ""
    config = f'[features.shell]\ntype = "{RUNTIME}"\nstream_output = false\n{unsafe}\n'
    asked = {"model": "limpet/script", "input": shell_blocks("echo one; echo two >&2"), "tools": SHELL}
    with running(home_directory, runtime=RUNTIME, config=config) as quiet:
        events = events_of(quiet, **asked)

    check_events(events)
    check_event_order(events)
    loud = [event["type"] for event in events_of(gateway, **asked)]
    assert DELTA in loud
    is_delta = re.compile(r"response\.shell_call_.*\.delta")
    assert [event["type"] for event in events] == [kind for kind in loud if not is_delta.fullmatch(kind)]
    entry = {"stdout": "one\n", "stderr": "two\n", "outcome": {"type": "exit", "exit_code": 0}}
    assert items_of(events[-1]["response"], "shell_call_output")[0]["output"] == [entry]

"""A gateway that is killed goes on with its responses when it starts again: nothing runs twice, and a reader sees one unbroken stream."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from limpet.core.ids import new_id
from tests.support.gateway import Gateway, lasting
from tests.support.host import eventually
from tests.support.kill_points import KillPoint
from tests.support.providers.server import Request
from tests.support.providers.turns import Reasoning, ShellCall, Turn, reply
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.order import check_event_order
from tests.wire.provider import config_of, scripted_provider
from tests.wire.schema import check_events

pytestmark = pytest.mark.timeout(900)  # with --faults: each moment costs a start of the gateway
Json = dict[str, Any]
COMMANDS = ("echo one >> ran; echo printed; echo problem >&2", "echo two | tee -a ran; sleep 0.2; echo more; exit 3")
BODY = {"model": "limpet/script", "input": shell_blocks(*COMMANDS), "tools": SHELL, "stream": True}
# What is new in each run, and does not matter.
CHANGES = {
    "id",
    "item_id",
    "call_id",
    "response_id",
    "container_id",
    "file_id",
    "created_at",
    "completed_at",
    "previous_response_id",
    "encrypted_content",
}


def ask(gateway: Gateway, body: Json) -> list[Json]:
    """The events until the stream ends or breaks off."""
    events: list[Json] = []
    try:
        with gateway.http() as http, http.stream("POST", "/v1/responses", json=body, timeout=30) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    events.append(json.loads(line[6:]))
    except httpx2.HTTPError:
        pass  # the gateway was killed
    return events


def go_on(gateway: Gateway, seen: list[Json], response: str | None = None) -> list[Json]:
    """What a client that was cut off has seen once it has read the rest."""
    response = response or seen[0]["response"]["id"]
    after = seen[-1]["sequence_number"] if seen else -1
    with gateway.http() as http:
        lines = http.get(f"/v1/responses/{response}?stream=true&starting_after={after}", timeout=30).text.splitlines()
    return seen + [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def essence(events: list[Json]) -> list[Json]:
    """The events without items that were closed as incomplete, with what differs from run to run taken out; the terminal one's items are in
    the others. Text is told in other pieces where a command was followed again."""
    given_up = {
        event["output_index"]
        for event in events
        if event["type"] == "response.output_item.done"
        and event["item"].get("status") == "incomplete"
        and event["item"]["type"] != "shell_call_output"
    }
    kept = [event for event in events if event.get("output_index") not in given_up]
    places = {
        index: place for place, index in enumerate(sorted({e["output_index"] for e in kept if "output_index" in e}))
    }
    told: list[Json] = []
    for event in kept:
        plain = {key: value for key, value in _plain(event).items() if key not in ("sequence_number", "response")}
        if "output_index" in plain:
            plain["output_index"] = places[plain["output_index"]]
        if told and plain["type"] == "response.shell_call_output_content.delta" == told[-1]["type"]:
            for stream, text in plain["delta"].items():
                told[-1]["delta"][stream] = told[-1]["delta"].get(stream, "") + text
            continue
        told.append(plain)
    return told


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in CHANGES}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


SEVERAL = {"model": "gpt-scripted", "input": "Look around.", "tools": SHELL, "stream": True}


def look_around(request: Request) -> Turn:
    """Reasoning, a text and two calls in one turn; then another turn with a call; then the answer."""
    answered = sum(item["type"] == "shell_call_output" for item in request.body["input"])
    if answered == 0:
        return reply(
            Reasoning("It is dark."),
            "Let me look.",
            ShellCall(("echo one >> ran; echo lamp", "echo match; exit 1"), call_id=new_id("call")),
            ShellCall(("echo two >> ran; sleep 0.1; echo door >&2",), call_id=new_id("call")),
        )
    if answered == 2:
        return reply(ShellCall(("cat ran",), call_id=new_id("call")))
    return reply("There is a lamp, and a door.")


def ran(gateway: Gateway, events: list[Json]) -> str:
    """What the commands have left in their container."""
    calls = [event["item"] for event in events if event.get("item", {}).get("type") == "shell_call"]
    container = calls[0]["environment"]["container_id"]
    body = {
        "model": "limpet/script",
        "input": shell_blocks("cat ran"),
        "tools": [{"type": "shell", "environment": {"type": "container_reference", "container_id": container}}],
        "stream": True,
    }
    done = [event["item"] for event in ask(gateway, body) if event["type"] == "response.output_item.done"]
    return str(next(item["output"][0]["stdout"] for item in done if item["type"] == "shell_call_output"))


def check_unbroken(events: list[Json]) -> None:
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    check_events(events)
    check_event_order(events)


def undisturbed(gateway: Gateway, body: Json) -> list[Json]:
    events = ask(gateway, body)
    check_unbroken(events)
    assert ran(gateway, events) == "one\ntwo\n"
    return events


@pytest.mark.promise("hadrian-background-run-survives-a-restart", "run-goes-on-after-a-restart")
def test_killed_at_any_event_it_goes_on(gateway: Gateway, every_event: bool) -> None:
    """At each of them with `--faults`, else in the middle of a command, behind its output, and in the next turn."""
    wanted = undisturbed(gateway, BODY)
    for point in points(wanted, every_event):
        check_goes_on(gateway, BODY, point, wanted)


def test_turns_of_several_items_go_on(tmp_path: Path, every_event: bool) -> None:
    """Also behind a call that has another one behind it, and in a turn that is asked again."""
    with scripted_provider() as provider, lasting(tmp_path, config=config_of(provider)) as gateway:
        provider.play(*[look_around] * 1000)
        wanted = undisturbed(gateway, SEVERAL)
        for point in points(wanted, every_event):
            check_goes_on(gateway, SEVERAL, point, wanted)


def test_a_call_that_wrote_nothing_has_no_files(gateway: Gateway) -> None:
    """Killed in its output, right behind calls that wrote; a run that goes on tells apart which call wrote what."""
    body = {**BODY, "input": shell_blocks("echo one >> ran", "echo two >> ran", "cat ran")}
    wanted = undisturbed(gateway, body)
    assert [len(item["output_files"]) for item in outputs(wanted)] == [1, 1, 0]
    kinds = [event["type"] for event in wanted]
    printing = kinds.index("response.shell_call_output_content.delta")
    assert wanted[printing]["delta"] == {"stdout": "one\ntwo\n"}
    check_goes_on(gateway, body, KillPoint(printing), wanted)


def test_what_was_seen_at_the_end_is_cited_also_after_a_kill(tmp_path: Path) -> None:
    """A file of a detached process that is recorded when the last turn has ended, by a gateway that is killed before it cites it."""
    writing = "(until [ -e go ]; do sleep 0.01; done; echo late > late) >/dev/null 2>&1 &"
    body = {**SEVERAL, "input": "Go."}
    with scripted_provider() as provider, lasting(tmp_path, config=config_of(provider)) as gateway:

        def behind_it(_: Request) -> Turn:
            for data in gateway.home.glob("boxes/*/data"):
                (data / "go").touch()
                assert eventually((data / "late").exists)
            return reply("Done.")

        provider.play(*[reply(ShellCall((f"echo one >> ran; echo two >> ran; {writing}",))), behind_it] * 2)
        wanted = undisturbed(gateway, body)
        noted = [event["type"] for event in wanted].index("response.output_text.annotation.added")
        assert "late" in str(wanted[noted:])
        check_goes_on(gateway, body, KillPoint(noted, before=True), wanted)


def outputs(events: list[Json]) -> list[Json]:
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return [item for item in done if item["type"] == "shell_call_output"]


COMPACTING = """
[features.responses.compaction]
enabled = true
default_threshold_tokens = 1_000
keep_recent_items = 2
[providers.limpet]
type = "script"
"""


def test_a_compaction_is_made_once(tmp_path: Path, every_event: bool) -> None:
    """Killed behind each of its two events and between them; with `--faults` also before and behind both."""
    long = "printf %04200d 0"  # in one piece, so that the events are the same in each run
    commands = (f"echo one >> ran; {long}", f"echo two >> ran; {long}", "cat ran")
    body = {**BODY, "input": shell_blocks(*commands), "context_management": [{"type": "compaction"}]}
    with lasting(tmp_path, config=COMPACTING) as gateway:
        wanted = undisturbed(gateway, body)
        kinds = [event.get("item", {}).get("type") for event in wanted]
        first = kinds.index("compaction")
        assert kinds.count("compaction") == 2  # begun and done
        places = [KillPoint(first), KillPoint(first + 1), KillPoint(first + 1, before=True)]
        if every_event:
            places += [KillPoint(first, before=True), KillPoint(first + 2)]
        for point in places:
            check_goes_on(gateway, body, point, wanted)


def check_goes_on(gateway: Gateway, body: Json, point: KillPoint, wanted: list[Json]) -> None:
    """Kill it there, start it again, and compare what a client has seen in the end with an undisturbed run."""
    gateway.kill()
    gateway.kill_point = point
    seen = ask(gateway.start(), body)
    assert gateway.process is not None
    assert gateway.process.wait(timeout=10) == -9
    gateway.kill_point = None
    gateway.start()
    if not seen:
        return  # killed before a client knew of it
    whole = go_on(gateway, seen)
    assert essence(whole) == essence(wanted), f"{point}, {wanted[point.seq]['type']}"
    check_unbroken(whole)
    assert ran(gateway, whole) == "one\ntwo\n", point


def points(events: list[Json], every_event: bool) -> list[KillPoint]:
    if every_event:
        return [KillPoint(seq, before=before) for seq in range(len(events) - 1) for before in (False, True)]
    return [KillPoint(seq, before=seq % 2 == 0) for seq in _moments(events)]


def _moments(events: list[Json]) -> list[int]:
    wanted = [
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
        "response.output_text.delta",
    ]
    kinds = [event["type"] for event in events]
    return [kinds.index(kind) for kind in wanted]

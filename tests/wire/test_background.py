"""Responses in the background: answered at once, read later from any place, cancelled by request only."""

import time
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.support.host import eventually, processes_with
from tests.wire.asking import SHELL, entries, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_error, check_events, check_response
from tests.wire.streams import asking, replayed, replaying

WAITS = "echo begun; until [ -e go ]; do sleep 0.02; done; echo over"


@pytest.mark.promise(
    "background-answers-at-once",
    "hadrian-background-answers-200",
    "background-response-is-streamed-later",
)
def test_it_is_answered_before_the_work_and_read_later(client: openai.OpenAI, gateway: Gateway) -> None:
    with gateway.http() as http:
        answer = http.post(
            "/v1/responses",
            json={"model": "limpet/script", "input": shell_blocks(WAITS), "tools": SHELL, "background": True},
        )
        assert answer.status_code == 200
        begun = answer.json()
        check_response(begun)
        assert (begun["status"], begun["background"]) == ("in_progress", True)
        with replaying(gateway, begun["id"]) as stream:
            stream.until_printed("begun")
            # While it runs a strict client can look at it.
            assert client.responses.retrieve(begun["id"]).status == "in_progress"
            client.containers.files.create(begun["container_id"], file=("go", b""))
            events = stream.rest()

    check_events(events)
    whole = client.responses.retrieve(begun["id"])
    assert (whole.status, whole.background) == ("completed", True)
    assert entries(whole)[0].stdout == "begun\nover\n"
    later = list(client.responses.retrieve(begun["id"], stream=True, starting_after=3))
    assert [event.sequence_number for event in later] == list(range(4, len(events)))


@pytest.mark.promise("hadrian-background-with-stream-streams-at-once", "background-runs-as-foreground-does")
def test_with_stream_it_is_told_at_once_and_goes_on_without_its_reader(client: openai.OpenAI, gateway: Gateway) -> None:
    with asking(gateway, model="limpet/script", input=shell_blocks(WAITS), tools=SHELL, background=True) as stream:
        made = stream.until("response.created")["response"]
        stream.until_printed("begun")
    client.containers.files.create(made["container_id"], file=("go", b""))

    events = replayed(gateway, made["id"])
    with asking(gateway, model="limpet/script", input=shell_blocks("echo begun; echo over"), tools=SHELL) as front:
        foreground = front.rest()

    check_events(events)
    kinds = [[event["type"] for event in told if "delta" not in event["type"]] for told in (events, foreground)]
    assert kinds[0] == kinds[1]


@pytest.mark.promise("hadrian-inline-files-run-in-the-background")
def test_files_that_come_with_the_request_are_there(client: openai.OpenAI, gateway: Gateway) -> None:
    part = {"type": "input_file", "filename": "data.csv", "file_data": "data:text/csv;base64,YSxiCg=="}
    content = [{"type": "input_text", "text": shell_blocks("cat data.csv")}, part]
    message: Any = {"role": "user", "content": content}
    begun = client.responses.create(model="limpet/script", input=[message], tools=SHELL, background=True)
    replayed(gateway, begun.id)
    assert entries(client.responses.retrieve(begun.id))[0].stdout == "a,b\n"


@pytest.mark.promise("hadrian-silent-command-is-not-run-twice")
def test_a_command_that_is_silent_for_longer_than_a_takeover_takes_runs_once(tmp_path: Path) -> None:
    config = "[features.responses]\ntakeover_secs = 1\n"
    with running(tmp_path, runtime=RUNTIME, config=config) as gateway:
        client = gateway.client()
        prompt = shell_blocks("sleep 1.6; echo once >> ran; cat ran")
        begun = client.responses.create(model="limpet/script", input=prompt, tools=SHELL, background=True)
        replayed(gateway, begun.id)
        assert [entry.stdout for entry in entries(client.responses.retrieve(begun.id))] == ["once\n"]


@pytest.mark.promise("hadrian-cancel-stops-the-command", "aborted-command-is-exit-130")
@pytest.mark.parametrize("background", [True, False], ids=["background", "foreground"])
def test_a_cancel_ends_the_command_and_keeps_what_it_printed(
    client: openai.OpenAI, gateway: Gateway, background: bool
) -> None:
    prompt = shell_blocks("echo begun; setsid sleep 622.5 & sleep 622.5")
    with asking(gateway, model="limpet/script", input=prompt, tools=SHELL, background=background) as stream:
        response = stream.until("response.created")["response"]["id"]
        stream.until_printed("begun")
        began = time.monotonic()
        cancelled = client.responses.cancel(response)
        eventually(lambda: processes_with("622.5") == [], within=2.0)
        assert time.monotonic() - began < 5
        events = stream.rest()

    check_events(events)
    assert cancelled.status == "cancelled"
    assert events[-1]["response"]["status"] == "cancelled"
    check_response(events[-1]["response"])
    call, output = cancelled.output
    (entry,) = entries(cancelled)
    assert (entry.stdout, entry.outcome.exit_code) == ("begun\n", 130)
    assert (call.status, output.status) == ("completed", "incomplete")
    # Again it changes nothing, and the conversation goes on.
    assert client.responses.cancel(response) == client.responses.retrieve(response) == cancelled
    after = client.responses.create(
        model="limpet/script", input=shell_blocks("echo on"), tools=SHELL, previous_response_id=response
    )
    assert entries(after)[-1].stdout == "on\n"


def test_what_cannot_be_cancelled_is_said(client: openai.OpenAI, gateway: Gateway) -> None:
    ended = client.responses.create(model="limpet/script", input="hello")
    assert client.responses.cancel(ended.id).status == "completed"
    with gateway.http() as http:
        unknown = http.post("/v1/responses/resp_00000000000000000000000000000000/cancel")
        assert unknown.status_code == 404
        check_error(unknown.json())


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"background": True, "store": False}, "background"),
        ({"background_options": {"completion_window": "2h"}}, "background_options.completion_window"),
        (
            {"background": True, "stream": True, "background_options": {"completion_window": "8h"}},
            "background_options.completion_window",
        ),
    ],
)
def test_what_cannot_wait_is_refused(gateway: Gateway, fields: dict[str, object], param: str) -> None:
    with gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": "limpet/script", "input": "hello", **fields})

    assert answer.status_code == 400
    check_error(answer.json())
    assert answer.json()["error"]["param"] == param

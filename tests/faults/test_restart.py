"""The gateway dies or is stopped while commands run: what there was is kept, boxes live on, nothing is executed twice."""

import json
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from limpet import wiring
from limpet.core.command import Exited
from limpet.core.ports import SandboxRef
from tests.support.gateway import LIMPET, Gateway
from tests.support.host import eventually, processes_of, rows, stored_ref
from tests.wire.asking import SHELL, container_of, entries, printed, run, shell_blocks
from tests.wire.order import check_event_order
from tests.wire.schema import check_events, check_response

Json = dict[str, Any]
COUNTING = (
    "echo begun; echo $$ >> started; i=0; until [ -e stop ]; do i=$((i+1)); echo line $i; sleep 0.02; done; echo end"
)


def watch(gateway: Gateway, until: str, *commands: str, within: float = 20) -> list[Json]:
    """Begin a response and read its events up to the first of type `until`; the connection is then dropped."""
    body = {"model": "limpet/script", "input": shell_blocks(*commands), "tools": SHELL, "stream": True}
    events: list[Json] = []
    with gateway.http() as http, http.stream("POST", "/v1/responses", json=body, timeout=within) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                events.append(json.loads(line[6:]))
                if events[-1]["type"] == until:
                    return events
    raise AssertionError(f"no {until} among {[event['type'] for event in events]}")


def replayed(gateway: Gateway, response: str) -> list[Json]:
    with gateway.http() as http:
        lines = http.get(f"/v1/responses/{response}?stream=true").text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def unended(gateway: Gateway) -> list[Json]:
    return rows(gateway.home / "limpet.db", "SELECT id FROM responses WHERE status IN ('queued', 'in_progress')")


@pytest.mark.anyio
@pytest.mark.promise("hadrian-dead-run-ends-at-the-start-not-an-hour-later")
async def test_a_command_outlives_a_killed_gateway_with_its_whole_output(gateway: Gateway) -> None:
    seen = watch(gateway, "response.shell_call_output_content.delta", COUNTING)
    response, container = seen[0]["response"]["id"], seen[0]["response"]["container_id"]
    gateway.kill()
    (execution,) = rows(gateway.home / "limpet.db", "SELECT * FROM executions WHERE response_id = ?", response)

    client = gateway.start().client()

    # The response goes on, and can be looked at meanwhile.
    running = client.responses.retrieve(response)
    check_response(running.to_dict())
    assert running.status == "in_progress"
    # The container answers, and the command still runs there, once.
    growing = printed(run(client, "cat started; pgrep -fc 'until . -e stop'", container=container)).split()
    assert len(growing) == 2
    assert int(growing[1]) >= 1
    # Its whole output can be read from another process, by what the database says.
    reference = stored_ref(gateway.home / "limpet.db", container)
    assert reference is not None
    async with wiring.load_runtime("bubblewrap", home=gateway.home) as runtime:
        sandbox = await runtime.attach(SandboxRef(**reference))
        assert sandbox.boot_id == execution["boot_id"]
        process = await sandbox.find(execution["exec_id"])
        assert process is not None
        run(client, "touch stop", container=container)
        assert await process.wait() == Exited(0)
    told = replayed(gateway, response)
    assert told[: len(seen)] == seen
    check_events(told)
    ended = client.responses.retrieve(response)
    lines = entries(ended)[0].stdout.splitlines()
    assert lines == ["begun", *(f"line {number}" for number in range(1, len(lines) - 1)), "end"]
    assert [(item.type, item.to_dict()["status"]) for item in ended.output] == [
        ("shell_call", "completed"),
        ("shell_call_output", "completed"),
        ("message", "completed"),
    ]
    assert printed(run(client, "wc -l < started", container=container)) == "1\n"
    (after,) = rows(gateway.home / "limpet.db", "SELECT * FROM executions WHERE response_id = ?", response)
    assert after["exec_id"] == execution["exec_id"]


@pytest.mark.promise("stored-stream-replays-after-a-restart", "hadrian-reader-ends-in-every-terminal-case")
def test_killed_at_any_event_nothing_is_lost_renumbered_or_run_twice(gateway: Gateway) -> None:
    moments = (
        "response.created",
        "response.output_item.added",
        "response.shell_call_command.done",
        "response.output_item.done",
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
        "response.output_text.delta",
    )
    for moment in moments:
        seen = watch(gateway, moment, "echo one >> ran; echo printed", "echo two >> ran")
        gateway.kill()
        gateway.start()
        response = seen[0]["response"]["id"]

        told = replayed(gateway, response)
        assert unended(gateway) == [], moment

        assert told[: len(seen)] == seen, moment
        check_events(told)
        check_event_order(told)
        final = gateway.client().responses.retrieve(response)
        check_response(final.to_dict())
        assert final.status == "completed"
        assert told[-1]["response"] == final.to_dict()
        container = container_of(final)
        assert printed(run(gateway.client(), "cat ran", container=container)) == "one\ntwo\n", moment
        assert "Traceback" not in gateway.log.read_text()


def test_a_chain_goes_on_after_a_turn_that_was_killed(gateway: Gateway) -> None:
    seen = watch(gateway, "response.shell_call_output_content.delta", "echo kept > file; echo x; sleep 1")
    gateway.kill()
    client = gateway.start().client()
    replayed(gateway, seen[0]["response"]["id"])  # to its end

    after = run(client, "cat file", previous_response_id=seen[0]["response"]["id"])

    assert container_of(after) == seen[0]["response"]["container_id"]
    assert entries(after)[-1].stdout == "kept\n"
    assert after.status == "completed"


def test_sigterm_ends_the_gateway_within_five_seconds_and_no_box(gateway: Gateway) -> None:
    seen = watch(gateway, "response.shell_call_output_content.delta", COUNTING)
    response, container = seen[0]["response"]["id"], seen[0]["response"]["container_id"]
    before = stored_ref(gateway.home / "limpet.db", container)
    began = time.monotonic()

    code = gateway.stop()

    assert time.monotonic() - began < 5
    assert code == 0
    assert "Traceback" not in gateway.log.read_text()
    assert processes_of(str(gateway.home)) != []
    client = gateway.start().client()
    assert client.responses.retrieve(response).status == "in_progress"
    assert printed(run(client, "touch stop; wc -l < started", container=container)) == "1\n"
    replayed(gateway, response)  # to its end
    assert client.responses.retrieve(response).status == "completed"
    assert stored_ref(gateway.home / "limpet.db", container) == before


def test_sigterm_with_a_listening_client_ends_its_stream(gateway: Gateway) -> None:
    body = {"model": "limpet/script", "input": shell_blocks("echo x; sleep 1000"), "tools": SHELL, "stream": True}
    with gateway.http() as http, http.stream("POST", "/v1/responses", json=body) as answer:
        lines = answer.iter_lines()
        while "output_content.delta" not in next(lines):
            continue
        assert gateway.process is not None
        gateway.process.send_signal(signal.SIGTERM)

        began = time.monotonic()
        # A client may see its connection cut, and nothing else.
        with suppress(httpx2.RemoteProtocolError):
            list(lines)
        assert gateway.process.wait(timeout=5) == 0
        assert time.monotonic() - began < 5


def test_a_second_signal_while_it_ends_changes_nothing(gateway: Gateway) -> None:
    gateway.arguments = ("--stop-boxes",)
    gateway.stop()
    client = gateway.start().client()
    for _ in range(3):
        run(client, "setsid -f sleep 1000")
    process = gateway.process
    assert process is not None

    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.01)

    # The last one may come when all is done and the interpreter is on its way out.
    assert process.returncode in (0, -signal.SIGTERM)
    assert eventually(lambda: processes_of(str(gateway.home)) == [], says="a process of a box lives on")


def test_stop_boxes_leaves_no_process_and_no_socket(gateway: Gateway) -> None:
    first = run(gateway.client(), "setsid -f sleep 1000")
    watch(gateway, "response.shell_call_output_content.delta", "echo x; sleep 1000")
    # One of the boxes is of a gateway that is gone: it was never used through the one that is stopped.
    gateway.kill()
    gateway.arguments = ("--stop-boxes",)
    gateway.start()
    second = run(gateway.client(), "setsid -f sleep 1000; echo kept > kept")

    assert gateway.stop() == 0

    assert eventually(lambda: processes_of(str(gateway.home)) == [], says="a process of a box lives on")
    assert list((gateway.home / "run").iterdir()) == []
    # The data stays, and the model is told that the processes are gone.
    client = gateway.start().client()
    (entry,) = entries(run(client, "cat kept", previous_response_id=second.id))
    assert entry.stdout == "kept\n"
    assert "was lost and has been started again" in entry.stderr
    assert client.containers.retrieve(container_of(first)).status == "running"


def test_stop_boxes_right_after_a_start_ends_the_boxes_of_the_gateway_before(gateway: Gateway) -> None:
    run(gateway.client(), "setsid -f sleep 1000")
    gateway.kill()
    gateway.arguments = ("--stop-boxes",)

    gateway.start()
    gateway.stop()

    assert eventually(lambda: processes_of(str(gateway.home)) == [], says="a process of a box lives on")


def test_a_second_gateway_on_the_same_home_is_refused_and_the_first_one_serves_on(gateway: Gateway) -> None:
    assert gateway.process is not None
    response = run(gateway.client(), "echo x")

    second = subprocess.run(
        [str(LIMPET), "serve", "--port", "0", "--config", str(gateway.directory / "limpet.toml")],
        env={"PATH": "/usr/bin:/bin", "LIMPET_HOME": str(gateway.home)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert second.returncode == 1
    assert second.stdout == ""
    assert second.stderr == (
        f"limpet: The home directory {gateway.home} cannot be used: The process {gateway.process.pid} uses it; "
        f"{gateway.home}/lock is locked. Stop that one, or set LIMPET_HOME to another directory.\n"
    )
    assert gateway.client().responses.retrieve(response.id).status == "completed"
    assert printed(run(gateway.client(), "echo y", previous_response_id=response.id)) == "y\n"


def test_what_a_killed_gateway_left_is_swept_at_the_next_start(gateway: Gateway) -> None:
    client = gateway.client()
    deleted, kept = (container_of(run(client, "setsid -f sleep 1000; echo x > x")) for _ in range(2))
    gateway.kill()
    # As if it had died between writing down the end of a container and ending it.
    subprocess.run(
        [
            "python3",
            "-c",
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
            "c.execute('UPDATE containers SET status = ?, ref = NULL WHERE id = ?', ('deleted', sys.argv[2])); c.commit()",
            str(gateway.home / "limpet.db"),
            deleted,
        ],
        check=True,
    )

    gateway.start()

    assert eventually(lambda: processes_of(deleted) == [], says="the box of a deleted container lives on")
    assert not (gateway.home / "boxes" / deleted).exists()
    assert processes_of(kept) != []
    assert printed(run(gateway.client(), "cat x", container=kept)) == "x\n"


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_who_waits_when_the_gateway_stops_is_told_so(gateway: Gateway, streamed: bool) -> None:
    body = {
        "model": "limpet/script",
        "input": shell_blocks("touch begun; sleep 30"),
        "tools": SHELL,
        "stream": streamed,
    }
    answers: list[httpx2.Response] = []

    def ask() -> None:
        with gateway.http() as http:
            answers.append(http.post("/v1/responses", json=body))

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: list(gateway.home.glob("boxes/*/data/begun")))
    gateway.stop()
    asking.join(10)

    (answer,) = answers
    assert "The gateway is stopping." in answer.text
    if streamed:
        assert "event: error" in answer.text.splitlines()
    else:
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "gateway_stopping"

"""What becomes of a response when its reader leaves, when it is deleted, when it is not stored, and while it is silent."""

import json
import socket
import threading
import time
from pathlib import Path

import httpx2
import openai
import pytest

from limpet.runtimes.local.runtime import LocalRuntime
from limpet.server.gateway import GatewaySettings
from tests.support.gateway import Gateway, lasting, running
from tests.support.host import eventually, processes_with, rows
from tests.support.inprocess import serving
from tests.wire.asking import SHELL, entries, referring_to, run, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_deleted, check_error
from tests.wire.streams import DELTA, asking, events_of, replayed, replaying

WAITS = "echo begun; until [ -e go ]; do sleep 0.02; done; echo over"


def gone(seconds: str, *, within: float = 2.0) -> None:
    """The command `sleep SECONDS` is dead at the latest in so many seconds."""
    eventually(lambda: processes_with(seconds) == [], within=within, says=f"sleep {seconds} is still alive")


def test_a_deleted_response_is_gone_and_its_container_stays(client: openai.OpenAI, gateway: Gateway) -> None:
    response = run(client, "echo kept > kept.txt")
    with gateway.http() as http:
        answer = http.delete(f"/v1/responses/{response.id}")
        assert answer.status_code == 200
        check_deleted(answer.json(), "response")
        assert answer.json()["id"] == response.id
        for method, query in (("GET", ""), ("GET", "?stream=true"), ("DELETE", "")):
            again = http.request(method, f"/v1/responses/{response.id}{query}")
            assert again.status_code == 404
            check_error(again.json())
    with pytest.raises(openai.NotFoundError) as refused:
        run(client, "true", previous_response_id=response.id)

    assert refused.value.code == "previous_response_not_found"
    (entry,) = entries(run(client, "cat kept.txt", container=response.model_extra["container_id"]))
    assert entry.stdout == "kept\n"


@pytest.mark.promise("hadrian-delete-answers-with-the-deleted-object")
def test_deleting_a_running_response_stops_its_command_and_ends_its_readers(gateway: Gateway) -> None:
    prompt = shell_blocks("echo begun; setsid sleep 611.5 & sleep 611.5")
    with asking(gateway, model="limpet/script", input=prompt, tools=SHELL) as stream:
        response_id = stream.until("response.created")["response"]["id"]
        stream.until_printed("begun")
        with replaying(gateway, response_id) as other, gateway.http() as http:
            other.until(DELTA)
            assert len(eventually(lambda: processes_with("611.5"))) >= 1
            answer = http.delete(f"/v1/responses/{response_id}")
            gone("611.5")
            stream.rest()
            other.rest()

    assert answer.status_code == 200
    check_deleted(answer.json(), "response")
    with gateway.http() as http:
        assert http.get(f"/v1/responses/{response_id}").status_code == 404


def test_who_waits_for_a_response_that_is_deleted_is_told(gateway: Gateway) -> None:
    answers = []

    def ask() -> None:
        body = {"model": "limpet/script", "input": shell_blocks("echo x; sleep 612.5"), "tools": SHELL}
        with gateway.http() as http:
            answers.append(http.post("/v1/responses", json=body))

    asking_thread = threading.Thread(target=ask)
    asking_thread.start()
    eventually(lambda: processes_with("612.5"))
    with gateway.http() as http:
        (running_id,) = [row["id"] for row in _rows(gateway, "SELECT id FROM responses WHERE status = 'in_progress'")]
        assert http.delete(f"/v1/responses/{running_id}").status_code == 200
    asking_thread.join(5)

    (answer,) = answers
    assert answer.status_code == 404
    check_error(answer.json())
    assert "deleted" in answer.json()["error"]["message"]
    gone("612.5")


def _rows(gateway: Gateway, query: str) -> list[dict]:
    return rows(gateway.home / "limpet.db", query)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_nothing_of_an_unstored_response_is_on_any_disk(home_directory: Path, streamed: bool) -> None:
    """Neither while the gateway lives nor after: the database with its log of writes, the boxes' directories, what is spooled."""
    marker = "limpet-canary-5f1c"
    asked = {
        "model": "limpet/script",
        "instructions": f"{marker} told",
        "metadata": {"about": marker},
        "input": shell_blocks(f"echo {marker}", f"echo {marker} >&2; exit 3"),
        "tools": SHELL,
        "store": False,
    }
    with running(home_directory, runtime=RUNTIME) as gateway:
        if streamed:
            final = events_of(gateway, **asked)[-1]["response"]
        else:
            with gateway.http() as http:
                final = http.post("/v1/responses", json=asked).json()
        with gateway.http() as http:
            answer = http.get(f"/v1/responses/{final['id']}")
            chained = http.post("/v1/responses", json={**asked, "previous_response_id": final["id"]})
        meanwhile = files_with(marker, gateway.home, gateway.log)
        gateway.kill()
        afterwards = files_with(marker, gateway.home, gateway.log)
        known = files_with(final["container_id"], gateway.home)

    assert final["store"] is False
    assert final["output"][1]["output"][0]["stdout"] == f"{marker}\n"
    assert (answer.status_code, chained.status_code) == (404, 404)
    assert chained.json()["error"]["code"] == "previous_response_not_found"
    assert known, "what is on disk is not found by looking for it"
    assert meanwhile == afterwards == []


def files_with(text: str, *places: Path) -> list[str]:
    """The regular files at or below these places that have that text in them or in their name."""
    found = []
    for place in places:
        for path in [place, *place.rglob("*")]:
            if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes() + path.name.encode():
                found.append(str(path))
    return found


GRACE = "[features.responses]\nleave_grace_secs = 0.3\n"


@pytest.mark.promise("hadrian-left-foreground-response-is-cancelled")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_foreground_response_that_nobody_reads_is_cancelled_after_its_grace_time(
    home_directory: Path, streamed: bool
) -> None:
    """One in the background, which was left before, is not."""
    with running(home_directory, runtime=RUNTIME, config=GRACE) as gateway:
        client = gateway.client()
        waiting = {"model": "limpet/script", "input": shell_blocks(WAITS), "tools": SHELL, "background": True}
        with gateway.http() as http:
            background = http.post("/v1/responses", json=waiting).json()
        prompt = shell_blocks("setsid sleep 616.5 & sleep 616.5", "echo never > never.txt")
        body = {"model": "limpet/script", "input": prompt, "tools": SHELL, "stream": streamed}
        leave(gateway, body, once="616.5")
        # Not asked of the gateway: that would be reading it.
        ended = "SELECT id FROM responses WHERE NOT background AND status = 'cancelled'"
        ((left,),) = [row.values() for row in eventually(lambda: _rows(gateway, ended), within=10.0)]
        gone("616.5")
        with replaying(gateway, left) as told:
            final = told.rest()[-1]["response"]
        assert final["output"][1]["output"][0]["outcome"] == {"type": "exit", "exit_code": 130}
        assert client.responses.retrieve(background["id"]).status == "in_progress"
        client.containers.files.create(background["container_id"], file=("go", b""))
        assert replayed(gateway, background["id"])[-1]["response"]["status"] == "completed"


def test_after_a_restart_the_grace_time_begins_anew(home_directory: Path) -> None:
    with lasting(home_directory, runtime=RUNTIME, config=GRACE) as gateway:
        prompt = shell_blocks("echo begun; sleep 617.5")
        with asking(gateway, model="limpet/script", input=prompt, tools=SHELL) as stream:
            response = stream.until("response.created")["response"]["id"]
            stream.until_printed("begun")
            gateway.kill()
        gateway.start()
        with replaying(gateway, response) as again:
            # A reader that came in time holds it; once it has left, the grace time runs.
            again.until_printed("begun")
        gone("617.5", within=5.0)
        final = replayed(gateway, response)[-1]["response"]

    assert final["status"] == "cancelled"
    assert final["output"][1]["output"][0]["stdout"] == "begun\n"


@pytest.mark.promise("hadrian-leaving-a-stored-response-changes-nothing")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_client_that_leaves_a_stored_response_for_a_moment_changes_nothing(gateway: Gateway, streamed: bool) -> None:
    """Its command waits for a file that appears only after the client has left."""
    made = gateway.client().containers.create(name="left")
    body = {"model": "limpet/script", "input": shell_blocks(f"{WAITS} # 613.5"), "tools": referring_to(made.id)}
    leave(gateway, {**body, "stream": streamed}, once="# 613.5")
    (row,) = _rows(gateway, f"SELECT id FROM responses WHERE container_id = '{made.id}'")
    with gateway.http() as http:
        assert http.get(f"/v1/responses/{row['id']}").json()["status"] == "in_progress"
    run(gateway.client(), "touch go", container=made.id)
    events = replayed(gateway, row["id"])

    final = events[-1]["response"]
    assert final["status"] == "completed"
    assert [item["type"] for item in final["output"]] == ["shell_call", "shell_call_output", "message"]
    assert final["output"][1]["output"][0]["stdout"] == "begun\nover\n"


@pytest.mark.promise("hadrian-leaving-an-unstored-response-stops-its-command")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_client_that_leaves_an_unstored_response_stops_its_command(gateway: Gateway, streamed: bool) -> None:
    prompt = shell_blocks("setsid sleep 614.5 & sleep 614.5", "echo never > never.txt")
    body = {"model": "limpet/script", "input": prompt, "tools": SHELL, "store": False, "stream": streamed}
    leave(gateway, body, once="614.5")

    gone("614.5")


def leave(gateway: Gateway, body: dict, *, once: str) -> None:
    """Send a request and close the connection as soon as a process with that argument runs."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    content = json.dumps(body).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        eventually(lambda: any_process_says(once), says=f"no process says {once}")


def any_process_says(text: str) -> bool:
    """Whether a living process has that text somewhere in its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes() and b"bash" in path.read_bytes():
                return True
        except OSError:
            continue  # it ended in between
    return False


@pytest.mark.promise("hadrian-silent-command-keeps-its-stream")
def test_a_silent_command_keeps_every_stream_open_with_comments(tmp_path: Path) -> None:
    """Over `local`, so that the test can end the silence with a file of the host; a comment comes every 0.05 s here."""
    silence = shell_blocks(f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo over")
    with (
        serving(tmp_path, runtime=LocalRuntime(), keep_alive=0.05) as gateway,
        asking(gateway, model="limpet/script", input=silence, tools=SHELL) as stream,
    ):
        created = stream.until("response.created")["response"]
        with replaying(gateway, created["id"]) as other:
            for each in (stream, other):
                each.until_comments(20)
            (tmp_path / "go").touch()
            assert stream.rest()[-1]["response"]["status"] == "completed"
            assert other.rest() == stream.events

    assert stream.events[-1]["response"]["output"][1]["output"][0]["stdout"] == "over\n"
    assert GatewaySettings(home=tmp_path).keep_alive == 15


def test_a_stop_of_the_gateway_is_never_told_as_a_success(home_directory: Path) -> None:
    answers = []

    def ask(gateway: Gateway) -> None:
        body = {"model": "limpet/script", "input": shell_blocks("echo x; sleep 615.5"), "tools": SHELL}
        with gateway.http() as http:
            try:
                answers.append(http.post("/v1/responses", json=body).status_code)
            except httpx2.TransportError as cut:
                answers.append(type(cut).__name__)

    with running(home_directory, runtime=RUNTIME) as gateway:
        thread = threading.Thread(target=ask, args=[gateway])
        thread.start()
        eventually(lambda: processes_with("615.5"))
        begun = time.monotonic()
        gateway.stop()
        thread.join(5)
        assert time.monotonic() - begun < 8

    assert answers != [200]
    gone("615.5")

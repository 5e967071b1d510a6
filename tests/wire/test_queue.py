"""Where the operator bounds how many responses run at once: the others wait, say so, and get their turn."""

from pathlib import Path

from tests.support.gateway import Gateway, lasting
from tests.wire.asking import SHELL, entries, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_error, check_events, check_response
from tests.wire.streams import asking, replayed, replaying

ONE = "[features.responses]\nmax_running = 1\nmax_queued_per_tenant = 3\n"
WAITS = "echo begun; until [ -e go ]; do sleep 0.02; done"


def begun(gateway: Gateway, script: str) -> dict:
    body = {"model": "limpet/script", "input": shell_blocks(script), "tools": SHELL, "background": True}
    with gateway.http() as http:
        answer = http.post("/v1/responses", json=body)
    assert answer.status_code == 200
    check_response(answer.json())
    return answer.json()


def test_one_runs_and_the_others_wait_are_cancelled_or_get_their_turn(home_directory: Path) -> None:
    """Foreground first, also after a crash in which all of them waited."""
    with lasting(home_directory, runtime=RUNTIME, config=ONE) as gateway:
        client = gateway.client()
        running, waiting, unwanted = (begun(gateway, each) for each in (WAITS, "echo back", "echo never"))
        assert [each["status"] for each in (running, waiting, unwanted)] == ["in_progress", "queued", "queued"]
        with replaying(gateway, running["id"]) as stream:
            stream.until_printed("begun")
        cancelled = client.responses.cancel(unwanted["id"])
        assert (cancelled.status, cancelled.output) == ("cancelled", [])
        check_events(replayed(gateway, unwanted["id"]))
        with asking(gateway, model="limpet/script", input=shell_blocks("echo front"), tools=SHELL) as front:
            queued = front.until("response.queued")["response"]
            assert queued["status"] == "queued"
            more = begun(gateway, "echo more")
            with gateway.http() as http:
                too_many = {"model": "limpet/script", "input": "too many"}
                refused = [http.post(path, json=too_many) for path in ("/v1/responses", "/v1/responses/compact")]
            gateway.kill()
        assert [each.status_code for each in refused] == [429, 429]
        for each in refused:
            check_error(each.json())

        gateway.start()
        client = gateway.client()
        client.containers.files.create(running["container_id"], file=("go", b""))
        told = replayed(gateway, queued["id"])
        for each in (running, waiting, more):  # which of them got the place first after the crash is not said
            replayed(gateway, each["id"])
        first, *ends = [client.responses.retrieve(each["id"]) for each in (queued, running, waiting, more)]

    check_events(told)
    assert [event["type"] for event in told[:3]] == ["response.created", "response.queued", "response.in_progress"]
    assert [event["response"]["status"] for event in told[:3]] == ["queued", "queued", "in_progress"]
    assert entries(first)[0].stdout == "front\n"
    assert [each.status for each in ends] == ["completed"] * 3

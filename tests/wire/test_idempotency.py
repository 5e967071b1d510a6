"""`Idempotency-Key` at `POST /v1/responses`: one response for a request, however often and wherever it is sent."""

import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.gateway import Gateway, lasting
from tests.support.providers.turns import Refuse
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_error
from tests.wire.streams import replaying

Json = dict[str, Any]
ONCE = "echo ran >> /mnt/data/runs; until [ -e go ]; do sleep 0.02; done; cat /mnt/data/runs"


def asked(command: str, **more: Any) -> Json:
    return {"model": "limpet/script", "input": shell_blocks(command), "tools": SHELL, **more}


def post(gateway: Gateway, body: Json, key: str) -> httpx2.Response:
    with gateway.http() as http:
        return http.post("/v1/responses", json=body, headers={"Idempotency-Key": key})


@pytest.mark.promise("idempotency-key-makes-one-response")
def test_requests_at_once_with_one_key_are_one_response(gateway: Gateway) -> None:
    answers: list[httpx2.Response] = []
    body = asked("echo ran >> runs; cat runs")
    threads = [threading.Thread(target=lambda: answers.append(post(gateway, body, "at once"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert [answer.status_code for answer in answers] == [200] * 4
    whole = {answer.text for answer in answers}
    assert len(whole) == 1
    assert answers[0].json()["output"][1]["output"][0]["stdout"] == "ran\n"
    assert sorted(answer.headers.get("idempotent-replayed", "") for answer in answers) == ["", "true", "true", "true"]
    again = post(gateway, {**body, "stream": False}, "at once")
    assert again.status_code == 422
    check_error(again.json())
    assert again.json()["error"]["code"] == "idempotency_key_reused"
    assert post(gateway, body, "another").json()["id"] != answers[0].json()["id"]


@pytest.mark.promise("idempotency-key-makes-one-response")
@pytest.mark.skipif(RUNTIME == "local", reason="a local box ends with its gateway")
def test_a_request_that_is_sent_again_after_a_restart_joins_the_response_that_goes_on(tmp_path: Path) -> None:
    with lasting(tmp_path, runtime=RUNTIME) as gateway:
        body = asked(ONCE, background=True)
        first = post(gateway, body, "restart").json()
        with replaying(gateway, first["id"]) as stream:
            stream.until("response.shell_call_command.done")
        gateway.kill()
        gateway.start()
        again = post(gateway, body, "restart")
        assert (again.json()["id"], again.headers["idempotent-replayed"]) == (first["id"], "true")
        gateway.client().containers.files.create(first["container_id"], file=("go", b""))
        with replaying(gateway, first["id"]) as stream:
            stream.rest()
        ended = post(gateway, body, "restart").json()
        assert (ended["id"], ended["status"]) == (first["id"], "completed")
        assert ended["output"][1]["output"][0]["stdout"] == "ran\n"
        # With its response the key goes too.
        gateway.client().responses.delete(first["id"])
        assert post(gateway, body, "restart").json()["id"] != first["id"]


def test_a_repeated_stream_is_told_from_its_first_event(gateway: Gateway) -> None:
    body = {"model": "limpet/script", "input": "hi", "stream": True}
    first, second = post(gateway, body, "stream"), post(gateway, body, "stream")
    assert first.text == second.text
    assert first.text.endswith("data: [DONE]\n\n")


def test_what_failed_before_it_began_may_be_asked_again(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(Refuse(400), "Fine.")
    body = {"model": MODEL, "input": "hi"}
    assert post(scripted_gateway, body, "refused").status_code == 400
    assert post(scripted_gateway, body, "refused").json()["status"] == "completed"
    assert post(scripted_gateway, body, "refused").headers["idempotent-replayed"] == "true"
    assert len(provider.asked) == 2


def test_a_key_has_no_effect_on_what_is_not_stored(gateway: Gateway) -> None:
    body = {"model": "limpet/script", "input": "hi", "store": False}
    assert post(gateway, body, "unstored").json()["id"] != post(gateway, body, "unstored").json()["id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "ü".encode("latin-1")])
def test_a_key_that_is_none_is_refused(gateway: Gateway, key: Any) -> None:
    answer = post(gateway, {"model": "limpet/script", "input": "hi"}, key)
    assert answer.status_code == 400
    check_error(answer.json())
    assert answer.json()["error"]["code"] == "invalid_idempotency_key"

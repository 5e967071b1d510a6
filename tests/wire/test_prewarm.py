"""Requests that are only to be prepared, and fields that must not be dropped in silence."""

from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.wire.asking import SHELL, printed, run, shell_blocks
from tests.wire.order import check_event_order
from tests.wire.schema import check_events
from tests.wire.streams import events_of
from tests.wire.voices import TRANSLATED, Voice

MANAGED = [{"type": "compaction", "compact_threshold": 2000}]
PREWARM: list[dict[str, Any]] = [{"prompt_cache_options": {"prewarm": True}}, {"generate": False}]


@pytest.mark.promise("prewarm-runs-nothing")
@pytest.mark.parametrize("extra", PREWARM, ids=["prewarm", "generate"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_prewarm_has_no_output_runs_nothing_and_can_be_chained_on(
    gateway: Gateway, extra: dict[str, Any], streamed: bool
) -> None:
    body = {"model": "limpet/script", "input": shell_blocks("echo ran > file"), "tools": SHELL, **extra}
    if streamed:
        events = events_of(gateway, **body)
        check_events(events)
        check_event_order(events)
        warm = events[-1]["response"]
        assert [event["type"] for event in events] == [
            "response.created",
            "response.in_progress",
            "response.completed",
        ]
    else:
        with gateway.http() as http:
            warm = http.post("/v1/responses", json=body).json()
    client = gateway.client()

    assert (warm["status"], warm["output"]) == ("completed", [])
    after = run(client, "cat file 2>&1 || true", previous_response_id=warm["id"])
    assert printed(after) == "cat: file: No such file or directory\n"


@pytest.mark.promise("prewarm-runs-nothing")
def test_a_prewarm_asks_no_provider(speaking_gateway: Gateway, voice: Voice) -> None:
    voice.play("Never said.")
    events = events_of(speaking_gateway, model=voice.model, input="go", prompt_cache_options={"prewarm": True})

    assert events[-1]["response"]["output"] == []
    assert voice.bodies == []


def test_other_cache_options_change_nothing(speaking_gateway: Gateway, voice: Voice) -> None:
    voice.play("Said.")
    cache = {"mode": "explicit", "prewarm": False}
    events = events_of(speaking_gateway, model=voice.model, input="go", prompt_cache_options=cache)

    assert events[-1]["response"]["output"] != []
    if voice.is_responses:
        assert voice.bodies[0]["prompt_cache_options"] == cache


@pytest.mark.parametrize("cache", [{"prewarm": "yes"}, {"prewarm": 1}, []])
def test_cache_options_that_are_none_are_refused(gateway: Gateway, cache: Any) -> None:
    with gateway.http() as http:
        answer = http.post(
            "/v1/responses", json={"model": "limpet/script", "input": "hi", "prompt_cache_options": cache}
        )
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("prompt_cache_options")


@pytest.mark.promise("context-management-is-never-dropped")
@pytest.mark.parametrize("kind", ["native", "function"])
def test_a_provider_that_manages_context_is_handed_it(
    speaking_gateway: Gateway, voices: dict[str, Voice], kind: str
) -> None:
    voices[kind].play(voices[kind].shell("echo hello"), "Done.")
    events_of(speaking_gateway, model=voices[kind].model, input="go", tools=SHELL, context_management=MANAGED)
    assert [body["context_management"] for body in voices[kind].bodies] == [MANAGED, MANAGED]


@pytest.mark.promise("context-management-is-never-dropped")
@pytest.mark.parametrize("model", [*(f"{kind}/m" for kind in TRANSLATED), "limpet/script"])
def test_elsewhere_the_response_says_that_it_was_not_followed(
    speaking_gateway: Gateway, voices: dict[str, Voice], model: str
) -> None:
    for voice in voices.values():
        voice.play("Done.")
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": model, "input": "go", "context_management": MANAGED})
    assert answer.status_code == 200
    (note,) = answer.json()["notes"]
    assert "`context_management` was not followed" in note
    assert "features.responses.compaction.enabled" in note
    assert "context_management_not_followed" in speaking_gateway.log.read_text()

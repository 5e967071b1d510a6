"""Stored responses as they are read again: whole, from a number on, while they run, by several readers, after a restart."""

import random
from pathlib import Path

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.support.host import rows
from tests.support.providers.turns import Refuse, ShellCall, reply
from tests.wire.asking import SHELL, referring_to, run, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.order import check_event_order
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_error, check_events, check_response
from tests.wire.streams import DELTA, asking, events_of, items_of, replayed, replaying

TALKING = shell_blocks("for n in 1 2 3; do echo $n; sleep 0.02; done; echo x > x.txt", "echo oh >&2; exit 3")
WAITS = "echo begun; until [ -e go ]; do sleep 0.02; done; echo over"


@pytest.mark.promise("stream-resumes-after-a-number", "hadrian-cursor-is-exact-at-both-ends")
def test_a_reader_behind_any_number_gets_exactly_what_came_after_it(gateway: Gateway) -> None:
    events = events_of(gateway, model="limpet/script", input=TALKING, tools=SHELL)
    response_id, last = events[0]["response"]["id"], len(events) - 1

    assert replayed(gateway, response_id) == events
    for number in range(-1, last + 1):
        assert replayed(gateway, response_id, after=number) == events[number + 1 :], number
    assert replayed(gateway, response_id, after=last + 1) == []
    assert replayed(gateway, response_id, after=2**63 - 1) == []


def test_the_official_client_resumes_behind_a_number(client: openai.OpenAI) -> None:
    with client.responses.create(model="limpet/script", input=TALKING, tools=SHELL, stream=True) as stream:
        events = list(stream)
    with client.responses.retrieve(events[0].response.id, stream=True, starting_after=5) as stream:
        assert list(stream) == events[6:]


@pytest.mark.promise("stream-resumes-after-a-number", "hadrian-replay-holds-no-foreign-event")
def test_readers_that_come_while_it_runs_get_the_stored_events_and_then_the_live_ones(gateway: Gateway) -> None:
    with asking(gateway, model="limpet/script", input=shell_blocks(WAITS), tools=SHELL) as stream:
        created = stream.until("response.created")["response"]
        seen = stream.until(DELTA)["sequence_number"]
        with (
            replaying(gateway, created["id"]) as whole,
            replaying(gateway, created["id"], after=seen) as live,
            replaying(gateway, created["id"], after=seen + 3) as ahead,
        ):
            assert whole.until(DELTA) == stream.events[-1]
            events_of(
                gateway, model="limpet/script", input="~~~~sh\ntouch go", tools=referring_to(created["container_id"])
            )
            events = stream.rest()
            assert whole.rest() == events
            assert live.rest() == events[seen + 1 :]
            assert ahead.rest() == events[seen + 4 :]

    check_events(events)
    check_event_order(events)


def test_a_response_is_read_as_it_is_while_it_runs_and_as_it_ended_ever_after(gateway: Gateway) -> None:
    with asking(gateway, model="limpet/script", input=shell_blocks(WAITS), tools=SHELL) as stream:
        created = stream.until("response.created")["response"]
        stream.until(DELTA)
        with gateway.http() as http:
            during = http.get(f"/v1/responses/{created['id']}").json()
        events_of(gateway, model="limpet/script", input="~~~~sh\ntouch go", tools=referring_to(created["container_id"]))
        final = stream.rest()[-1]["response"]
    with gateway.http() as http:
        after = http.get(f"/v1/responses/{created['id']}").json()

    check_response(after)
    assert (during["status"], during["completed_at"], during["usage"]) == ("in_progress", None, None)
    assert [item["status"] for item in during["output"]] == ["completed", "in_progress"]
    assert during["output"][0] == final["output"][0]
    assert during["output"][1]["output"] == []  # an entry needs an outcome; the stream has what is printed meanwhile
    assert after == final
    assert after["status"] == "completed"


@pytest.mark.promise("stored-stream-replays-after-a-restart")
def test_a_stored_stream_is_the_same_after_the_gateway_was_killed(home_directory: Path) -> None:
    with running(home_directory, runtime=RUNTIME) as gateway:
        events = events_of(gateway, model="limpet/script", input=TALKING, tools=SHELL)
        response_id = events[0]["response"]["id"]
        gateway.kill()
        gateway.start()

        assert replayed(gateway, response_id) == events
        assert replayed(gateway, response_id, after=7) == events[8:]
        with gateway.http() as http:
            assert http.get(f"/v1/responses/{response_id}").json() == events[-1]["response"]


@pytest.mark.promise("every-event-is-stored-before-it-is-sent")
def test_no_event_is_sent_before_it_is_in_the_journal(gateway: Gateway) -> None:
    newest = "SELECT max(seq) AS seq FROM journal WHERE response_id = ?"
    with asking(gateway, model="limpet/script", input=TALKING, tools=SHELL) as stream:
        response_id = stream.until("response.created")["response"]["id"]
        for event in stream:
            (row,) = rows(gateway.home / "limpet.db", newest, response_id)
            assert row["seq"] >= event["sequence_number"]


@pytest.mark.promise(
    "every-event-is-stored-before-it-is-sent",
    "stored-stream-replays-after-a-restart",
    "hadrian-dead-run-ends-at-the-start-not-an-hour-later",
    "hadrian-no-response-stays-in-progress",
)
def test_whatever_a_client_saw_before_a_kill_is_the_beginning_of_the_replay(home_directory: Path) -> None:
    chance = random.Random(20261121)
    with running(home_directory, runtime=RUNTIME) as gateway:
        for stop in (1, *sorted(chance.sample(range(2, 22), 3))):
            seen = _seen_until_killed(gateway, stop)
            gateway.start()
            events = replayed(gateway, seen[0]["response"]["id"])

            assert len(seen) >= stop
            assert events[: len(seen)] == seen, f"killed behind event {stop}"
            check_events(events)
            check_event_order(events)
            assert events[-1]["type"] in ("response.failed", "response.completed")
            with gateway.http() as http:
                whole = http.get(f"/v1/responses/{seen[0]['response']['id']}").json()
            assert whole == events[-1]["response"]
            assert "in_progress" not in {item["status"] for item in whole["output"]}


def _seen_until_killed(gateway: Gateway, stop: int) -> list[dict]:
    """Every event that reached the client of a response whose gateway is killed once `stop` of them have."""
    with asking(gateway, model="limpet/script", input=TALKING, tools=SHELL) as stream:
        try:
            for event in stream:
                if event["sequence_number"] + 1 == stop:
                    gateway.kill()
        except httpx2.TransportError:
            pass  # cut in the middle, as it must be
    return stream.events


ENDINGS = {
    "completed": reply("All well."),
    "incomplete": reply("Too lo", ends="max_output_tokens"),
    "failed": reply("I beg", ends="failed"),
    "failed-by-error": reply("I beg", ends="error"),
    "failed-by-a-cut": reply("I beg", "your pardon", cut_after=7),
}


@pytest.mark.promise("hadrian-reader-ends-in-every-terminal-case", "hadrian-no-response-stays-in-progress")
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_reader_comes_to_an_end_however_the_response_ends(
    provider: Provider, scripted_gateway: Gateway, ending: str
) -> None:
    provider.play(ShellCall(("echo before",)), ENDINGS[ending])
    with asking(scripted_gateway, model=MODEL, input="go", tools=SHELL) as stream:
        response_id = stream.until("response.created")["response"]["id"]
        with replaying(scripted_gateway, response_id) as other:
            events = stream.rest()
            assert other.rest() == events

    check_events(events)
    check_event_order(events)
    status = ending.partition("-")[0]
    final = events[-1]["response"]
    assert (events[-1]["type"], final["status"]) == (f"response.{status}", status)
    assert items_of(final, "shell_call_output")[0]["output"][0]["stdout"] == "before\n"
    assert replayed(scripted_gateway, response_id, after=2) == events[3:]
    with scripted_gateway.http() as http:
        assert http.get(f"/v1/responses/{response_id}").json() == final
    assert [line for line in other.lines if line.startswith("data: [")] == ["data: [DONE]"]


@pytest.mark.promise("hadrian-no-response-stays-in-progress")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_refusal_of_the_provider_is_an_http_error_and_nothing_stays_in_progress(
    provider: Provider, scripted_gateway: Gateway, streamed: bool
) -> None:
    provider.play(Refuse(400, "The prompt is not allowed.", code="bad_prompt"))
    with scripted_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": MODEL, "input": "go", "stream": streamed})
    query = "SELECT count(*) AS left_over FROM responses WHERE status = 'in_progress'"

    assert answer.status_code == 400
    check_error(answer.json())
    assert "The prompt is not allowed." in answer.json()["error"]["message"]
    assert rows(scripted_gateway.home / "limpet.db", query) == [{"left_over": 0}]


@pytest.mark.parametrize("method, query", [("GET", ""), ("GET", "?stream=true"), ("DELETE", "")])
def test_an_unknown_response_is_404(gateway: Gateway, method: str, query: str) -> None:
    with gateway.http() as http:
        answer = http.request(method, f"/v1/responses/resp_{'0' * 32}{query}")

    assert answer.status_code == 404
    check_error(answer.json())
    assert f"resp_{'0' * 32}" in answer.json()["error"]["message"]


def test_a_replay_is_read_by_who_asks_with_plain_numbers_only(gateway: Gateway) -> None:
    response = run(gateway.client(), "true")
    with gateway.http() as http:
        for wrong in (
            "stream=yes",
            "stream=true&starting_after=x",
            "stream=true&starting_after=-2",
            "starting_after=1.5",
        ):
            answer = http.get(f"/v1/responses/{response.id}?{wrong}")
            assert answer.status_code == 400, wrong
            check_error(answer.json())
            assert answer.json()["error"]["param"] in ("stream", "starting_after")


def test_obfuscation_is_added_where_it_is_asked_for_and_include_is_checked(
    client: openai.OpenAI, gateway: Gateway
) -> None:
    made = client.responses.create(model="limpet/script", input="hello")
    plain = list(client.responses.retrieve(made.id, stream=True))
    padded = list(
        client.responses.retrieve(
            made.id, stream=True, include_obfuscation=True, include=["reasoning.encrypted_content"]
        )
    )
    with gateway.http() as http:
        asked = {"model": "limpet/script", "input": "hello", "stream": True}
        text = http.post("/v1/responses", json={**asked, "stream_options": {"include_obfuscation": True}}).text
        refused = http.get(f"/v1/responses/{made.id}", params={"include": "everything"})

    assert [event.type for event in padded] == [event.type for event in plain]
    deltas = [event.model_dump() for event in padded if event.type.endswith(".delta")]
    assert deltas
    assert all("obfuscation" in event for event in deltas)
    assert '"obfuscation":' in text
    assert refused.status_code == 400

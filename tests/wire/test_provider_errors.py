"""What becomes of a provider's failures: asked again before the first byte, told in OpenAI's shape, kept what there was, no key shown."""

import json
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.providers.server import Request
from tests.support.providers.turns import Drop, Reasoning, Refuse, Reply, Text, Turn, reply
from tests.wire.asking import SHELL
from tests.wire.conftest import RUNTIME
from tests.wire.order import check_event_order
from tests.wire.schema import check_error, check_events, check_required_keys, check_response
from tests.wire.streams import asking, items_of
from tests.wire.voices import KEY, KINDS, Voice

Json = dict[str, Any]
T = TypeVar("T")
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
SOON = {"retry-after-ms": "5"}
STORY = Text("Once upon a time there was a limpet that would not let go of its stone, whatever the sea did.", pieces=20)


def alternately(cases: Iterable[T]) -> list[tuple[T, bool]]:
    """Each with a way to ask, whole or streamed, by turns: both ways lead over the same road (responses/service.py), and every provider
    is asked in both."""
    return [(case, number % 2 == 1) for number, case in enumerate(cases)]


def ask(gateway: Gateway, voice: Voice, *, streamed: bool = False, **asked: Any) -> Json:
    """The response at its end; raises the official client's error for a status of 400 and above."""
    asked = {"model": voice.model, "input": "go", "tools": SHELL} | asked
    if not streamed:
        response: Json = gateway.client().responses.create(**asked).to_dict()
    else:
        with gateway.client().responses.create(**asked, stream=True) as stream:
            events = [event.to_dict() for event in stream]
        check_events(events)
        check_event_order(events)
        response = events[-1]["response"]
    check_response(response)
    check_required_keys(response)
    return response


def refused(gateway: Gateway, voice: Voice, *, streamed: bool, **asked: Any) -> tuple[int, Json]:
    """Status and error of a request that is refused before its first event."""
    with pytest.raises(openai.APIStatusError) as caught:
        ask(gateway, voice, streamed=streamed, **asked)
    body = caught.value.response.json()
    check_error(body)
    return caught.value.status_code, body["error"]


TROUBLES: dict[str, Turn] = {
    "busy": Refuse(429, "Too many requests.", headers=SOON),
    "broken": Refuse(500, "Something broke.", headers=SOON),
    "overloaded": Refuse(529, "Overloaded.", headers=SOON),
    "hung up": Drop(),
}


@pytest.mark.parametrize("trouble, streamed", alternately(TROUBLES))
def test_trouble_before_the_first_byte_is_not_seen(
    speaking_gateway: Gateway, voice: Voice, streamed: bool, trouble: str
) -> None:
    voice.play(TROUBLES[trouble], voice.shell("echo hello"), TROUBLES[trouble], "Done.")
    response = ask(speaking_gateway, voice, streamed=streamed)

    assert [item["type"] for item in response["output"]] == ["shell_call", "shell_call_output", "message"]
    first, again, second, once_more = voice.bodies
    assert (first, second) == (again, once_more)


@pytest.mark.parametrize("status, shown, streamed", [(500, 502, False), (503, 503, True)])
@pytest.mark.promise("hadrian-errors-have-openais-envelope")
def test_a_provider_that_stays_broken_is_told_in_openais_shape(
    speaking_gateway: Gateway, voice: Voice, streamed: bool, status: int, shown: int
) -> None:
    voice.play(*[Refuse(status, "The engine is on fire.", headers=SOON)] * 9)
    told, error = refused(speaking_gateway, voice, streamed=streamed)

    assert (told, error["type"], error["code"], error["param"]) == (shown, "server_error", "provider_error", None)
    assert error["message"] == f"The provider {voice.kind.name} refused: The engine is on fire."
    assert len(voice.bodies) == 4


@STREAMED
def test_a_provider_that_stays_busy_is_a_rate_limit(speaking_gateway: Gateway, voice: Voice, streamed: bool) -> None:
    voice.play(*[Refuse(429, "Slow down.", headers=SOON)] * 9)
    told, error = refused(speaking_gateway, voice, streamed=streamed)

    assert (told, error["type"]) == (429, "rate_limit_error")
    assert "Slow down." in error["message"]
    assert len(voice.bodies) == 4


@pytest.mark.parametrize("status, streamed", alternately([401, 403]))
def test_a_key_that_the_provider_refuses_is_the_operators_trouble_and_is_shown_nowhere(
    speaking_gateway: Gateway, voice: Voice, streamed: bool, status: int
) -> None:
    """A client that saw 401 would doubt its own key. Providers quote the key that they refuse."""
    voice.play(Refuse(status, f"Incorrect API key provided: {KEY}."))
    told, error = refused(speaking_gateway, voice, streamed=streamed)

    assert (told, error["type"], error["code"]) == (502, "server_error", "provider_error")
    assert "Incorrect API key provided: " in error["message"]
    assert KEY not in json.dumps(error)
    assert len(voice.bodies) == 1
    assert_nowhere(speaking_gateway)


def test_a_key_never_reaches_the_box_nor_what_is_kept(speaking_gateway: Gateway, voice: Voice) -> None:
    # local has no walls: there the gateway's own environment is readable, and only what a command is given is looked at.
    others = "" if RUNTIME == "local" else "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n';"
    seek = f"env; {others} echo looked"
    voice.play(voice.shell(seek), Text(f"My key is {KEY}!", pieces=1))
    response = ask(speaking_gateway, voice, streamed=True)

    printed = items_of(response, "shell_call_output")[0]["output"][0]["stdout"]
    assert "PATH=" in printed
    assert printed.endswith("looked\n")
    text = items_of(response, "message")[0]["content"][0]["text"]
    assert (text.startswith("My key is "), text.endswith("!")) == (True, True)
    assert KEY not in json.dumps(response)
    assert_nowhere(speaking_gateway)


@pytest.mark.parametrize("at", [1, len(KEY) // 2, len(KEY) - 1])
def test_a_key_over_several_texts_is_in_nothing_that_they_make_together(
    speaking_gateway: Gateway, voice: Voice, at: int
) -> None:
    begin, end = KEY[:at], KEY[at:]
    voice.play((Reasoning(f"Is it {begin}"), Text(f"{end}? It is {begin}"), Text(f"{end}!")))
    asked: Any = {"model": voice.model, "input": "go", "tools": SHELL}
    with speaking_gateway.client().responses.create(**asked, stream=True) as stream:
        events = [event.to_dict() for event in stream]
    response: Json = events[-1]["response"]
    thought = "".join(part["text"] for item in items_of(response, "reasoning") for part in item["summary"])
    said = "".join(part["text"] for item in items_of(response, "message") for part in item["content"])

    assert "".join(str(event["delta"]) for event in events if "delta" in event) == thought + said
    assert KEY not in thought + said
    assert (said.count("It is"), said.endswith("!")) == (1, True)
    kept = speaking_gateway.client().responses.retrieve(response["id"])
    assert kept.output_text == said
    assert_nowhere(speaking_gateway)


def assert_nowhere(gateway: Gateway) -> None:
    """The key is in nothing that the gateway writes: its log, its database with all that belongs to it, its boxes' files."""
    kept = [gateway.log, *(path for path in gateway.home.rglob("*") if path.is_file())]
    assert gateway.home / "limpet.db" in kept
    assert [path for path in kept if KEY.encode() in _bytes_of(path)] == []


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""  # a file of a box or of the database that went in between


@STREAMED
def test_what_the_client_did_wrong_is_told_as_the_provider_told_it(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    wrong = {
        "message": "Unsupported value: 'temperature'.",
        "type": "invalid_request_error",
        "code": "unsupported_value",
    }
    said = wrong if voice.kind.name == "anthropic" else wrong | {"param": "temperature"}
    body = json.dumps({"type": "error", "error": said}).encode()
    own_code = voice.kind.refusal_code
    voice.play(Refuse(400, wrong["message"]) if own_code else Refuse(400, body=body))
    told, error = refused(speaking_gateway, voice, streamed=streamed, temperature=1.5)

    assert (told, error["type"], error["code"]) == (400, "invalid_request_error", own_code or "unsupported_value")
    assert error["param"] == (None if own_code else said.get("param"))
    assert "Unsupported value: 'temperature'." in error["message"]


@pytest.mark.parametrize("status, shown", [(404, 404), (413, 413), (422, 422), (418, 502), (302, 502)])
def test_other_statuses_are_passed_on_where_they_are_about_the_request(
    speaking_gateway: Gateway, voice: Voice, status: int, shown: int
) -> None:
    voice.play(Refuse(status, "No."))
    assert refused(speaking_gateway, voice, streamed=True)[0] == shown


BREAKS: dict[str, Reply] = {
    "cut": reply(STORY, cut_after=8),
    "ended early": reply(STORY, leave_out=9),
    "said so": reply(Text("Once upon a time"), ends="error"),
}


@pytest.mark.parametrize("how, streamed", alternately(BREAKS))
def test_an_answer_that_breaks_off_ends_failed_and_keeps_what_there_was(
    speaking_gateway: Gateway, voice: Voice, streamed: bool, how: str
) -> None:
    voice.play(voice.shell("echo before > kept"), BREAKS[how], "Go on? Yes.")
    response = ask(speaking_gateway, voice, streamed=streamed)

    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
    assert response["error"]["message"]
    assert [item["type"] for item in response["output"]] == ["shell_call", "shell_call_output", "message"]
    # Responses-native providers close their items before they say that something is wrong.
    last = "completed" if how == "said so" and voice.is_responses else "incomplete"
    assert [item["status"] for item in response["output"]] == ["completed", "completed", last]
    text = response["output"][2]["content"][0]["text"]
    assert text
    assert STORY.text.startswith(text)
    assert len(voice.bodies) == 2
    assert speaking_gateway.client().responses.retrieve(response["id"]).to_dict() == response
    after = ask(speaking_gateway, voice, streamed=streamed, input="Go on.", previous_response_id=response["id"])
    assert after["status"] == "completed"
    assert [call_id for call_id, _ in voice.told[2].results] == ["call_shell_1"]


@pytest.mark.promise("shell-call-done-is-completed-unless-its-arguments-broke-off")
def test_a_call_that_broke_off_is_never_run(speaking_gateway: Gateway, voice: Voice) -> None:
    """The command is whole as far as it came: cut anywhere, it would mean something else."""
    if not voice.kind.cuts_arguments:
        pytest.skip("this wire sends a call's arguments whole")
    call = voice.shell("touch ran; echo and this is a long command that has a good many pieces")
    frames = 7 if voice.is_responses else 4
    voice.play(reply(call, cut_after=frames), voice.shell("ls", call_id="call_ls"), "Done.")
    broken = ask(speaking_gateway, voice, streamed=True)
    after = ask(speaking_gateway, voice, input="Look.", previous_response_id=broken["id"])

    assert broken["status"] == "failed"
    assert [(item["type"], item["status"]) for item in broken["output"]] == [("shell_call", "incomplete")]
    assert items_of(after, "shell_call_output")[0]["output"][0]["stdout"] == ""
    assert [call_id for call_id, _ in voice.told[1].results] == [call_id for call_id, _ in voice.told[1].calls]


def test_a_first_token_that_takes_its_time_is_waited_for(speaking_gateway: Gateway, voice: Voice) -> None:
    voice.play(reply("At last.", hold_after=0))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, speaking_gateway, voice, streamed=True)
        voice.provider.wait_held()
        assert not answer.done()
        voice.provider.let_go()
        assert answer.result(timeout=5)["output"][0]["content"][0]["text"] == "At last."


@STREAMED
def test_a_refusal_that_takes_its_time_is_still_a_status(
    speaking_gateway: Gateway, voice: Voice, streamed: bool
) -> None:
    """A stream's 200 waits for the model's first sign, so that a refusal is what it is for every client."""
    asked, may_refuse = threading.Event(), threading.Event()

    def refuse_late(request: Request) -> Turn:
        asked.set()
        may_refuse.wait(5)
        return Refuse(400, "After long thought: no.")

    voice.play(refuse_late)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(refused, speaking_gateway, voice, streamed=streamed)
        assert asked.wait(5)
        assert not answer.done()
        may_refuse.set()
        told, error = answer.result(timeout=5)

    assert told == 400
    assert "After long thought: no." in error["message"]


def test_a_stream_whose_model_spoke_once_never_becomes_a_status(speaking_gateway: Gateway, voice: Voice) -> None:
    """An error after the first turn, however early in its own, is an event of the stream."""
    voice.play(voice.shell("echo hello"), Refuse(400, "Not this."))
    response = ask(speaking_gateway, voice, streamed=True)

    assert (response["status"], response["error"]["code"]) == ("failed", "invalid_prompt")
    assert "Not this." in response["error"]["message"]
    assert [item["status"] for item in response["output"]] == ["completed", "completed"]


GARBAGE = {
    "a web page": Refuse(200, body=b"<html>Hello</html>", headers={"content-type": "text/html"}),
    "some JSON": Refuse(200, body=b'{"hello": "world"}'),
    "frames of noise": Refuse(200, body=b"data: {not json\n\n", headers={"content-type": "text/event-stream"}),
    "other events": Refuse(200, body=b'data: {"a": 1}\n\ndata: [2]\n\n', headers={"content-type": "text/event-stream"}),
    "bytes": Refuse(200, body=bytes(range(256)) * 9, headers={"content-type": "application/octet-stream"}),
}


@pytest.mark.parametrize("what, streamed", alternately(GARBAGE))
def test_garbage_is_a_502_that_names_the_provider(
    speaking_gateway: Gateway, voice: Voice, streamed: bool, what: str
) -> None:
    voice.play(*[GARBAGE[what]] * 9)
    told, error = refused(speaking_gateway, voice, streamed=streamed)

    assert (told, error["type"], error["code"]) == (502, "server_error", "provider_error")
    assert voice.kind.name in error["message"]
    assert "Traceback" not in error["message"]


def test_a_provider_that_cannot_be_reached_is_a_502(speaking_gateway: Gateway, voices: dict[str, Voice]) -> None:
    """Each is asked several times; all at once, since that takes its time."""

    def ask_in_vain(kind: str) -> tuple[int, Json]:
        model = f"gone-{kind}/scripted-1"
        return refused(speaking_gateway, voices[kind], streamed=kind != "chat", model=model)

    with ThreadPoolExecutor(len(KINDS)) as pool:
        answers = dict(zip(KINDS, pool.map(ask_in_vain, KINDS), strict=True))

    assert {kind: (told, error["code"]) for kind, (told, error) in answers.items()} == dict.fromkeys(
        KINDS, (502, "provider_error")
    )
    for kind, (_, error) in answers.items():
        assert f"The provider gone-{kind} refused: it cannot be reached" in error["message"]


def test_who_leaves_before_the_first_token_ends_an_unstored_request_at_the_provider(
    speaking_gateway: Gateway, voice: Voice
) -> None:
    voice.play(reply(STORY, hold_after=5))
    with asking(speaking_gateway, model=voice.model, input="go", store=False) as stream:
        stream.until("response.output_item.added")
    voice.provider.wait_left()


@pytest.mark.promise("retry-after-reaches-the-client")
@pytest.mark.parametrize("status, streamed", alternately([429, 503]))
def test_a_wait_beyond_the_budget_is_the_clients_at_once(
    speaking_gateway: Gateway, voice: Voice, status: int, streamed: bool
) -> None:
    voice.play(Refuse(status, "Too much.", headers={"retry-after": "61.5"}))
    with speaking_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": voice.model, "input": "go", "stream": streamed})

    assert answer.status_code == status
    assert answer.headers["retry-after"] == "62"
    check_error(answer.json())
    assert len(voice.bodies) == 1


def test_after_all_of_this_each_provider_serves_the_next_request(speaking_gateway: Gateway, voice: Voice) -> None:
    """The last of this file; between two others the next request is the next test's."""
    voice.play("Still here.")
    assert ask(speaking_gateway, voice)["output"][0]["content"][0]["text"] == "Still here."

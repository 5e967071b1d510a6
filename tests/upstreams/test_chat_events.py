"""What servers that speak chat completions really send: each differs, and the turn is the same."""

import json
from typing import Any

import anyio
import pytest

from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams import openai_chat
from limpet.upstreams import upstream as port
from limpet.upstreams.answer_reader import StreamedError
from limpet.upstreams.chat_events import ChatEventReader
from limpet.upstreams.function_names import FunctionNames
from limpet.upstreams.item_writer import MOST_PARTS, ItemWriter
from limpet.upstreams.key_filter import KeyFilter
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.sealing import opened
from limpet.upstreams.usage import Usage
from tests.support.providers.openai_chat import ScriptedChat
from tests.support.providers.turns import Refuse
from tests.upstreams.questions import KEY, QUESTION, QUICK, asked, text_of

Json = dict[str, Any]
TURN = port.Turn(model="m", input=[QUESTION])


def chunk(delta: Json | None, finish: str | None = None, **more: Any) -> Json:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def called(*calls: Json) -> Json:
    return chunk({"tool_calls": list(calls)})


def call(index: int | None = 0, id: str | None = None, name: str | None = None, arguments: Any = None) -> Json:
    return {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def read(*chunks: Json) -> list[port.TurnEvent]:
    names = FunctionNames([{"type": "function", "name": name} for name in ("f", "g")])
    reader = ChatEventReader(ItemWriter(provider="acme", has_shell=False, names=names, keys=KeyFilter(None)))
    return [*(event for each in chunks for event in reader.read(each)), *reader.end()]


def items(events: list[port.TurnEvent]) -> list[Json]:
    done = [event for event in events if isinstance(event, port.Emit) and event.type == "response.output_item.done"]
    return [event.data["item"] for event in done]


def ended(events: list[port.TurnEvent]) -> port.TurnEnded:
    assert isinstance(events[-1], port.TurnEnded)
    return events[-1]


def told(events: list[port.TurnEvent]) -> list[tuple[str, str, str]]:
    return [(item["name"], item["call_id"], item["arguments"]) for item in items(events)]


WAYS = {
    "in pieces": [called(call(0, "a", "f", "")), called(call(0, None, None, '{"x"')), called(call(0, "", "", ":1}"))],
    "whole": [called(call(0, "a", "f", '{"x":1}'))],
    "as an object": [called(call(0, "a", "f", {"x": 1}))],
    "id and name again": [called(call(0, "a", "f", '{"x":')), called(call(0, "a", "f", "1}"))],
    "without a number": [called(call(None, "a", "f", '{"x":')), called(call(None, None, None, "1}"))],
    "without a number, with its id": [called(call(None, "a", "f", '{"x":')), called(call(None, "a", None, "1}"))],
    "name after arguments": [called(call(0, "a", None, '{"x":')), called(call(0, None, "f", "1}"))],
    "another id for each piece": [called(call(0, "a", "f", '{"x":')), called(call(0, "b", None, "1}"))],
}


@pytest.mark.parametrize("chunks", WAYS.values(), ids=WAYS)
def test_a_call_is_the_same_however_it_is_sent(chunks: list[Json]) -> None:
    events = read(*chunks, chunk({}, "tool_calls"))
    ((name, call_id, arguments),) = told(events)
    assert (name, call_id, json.loads(arguments)) == ("f", "a", {"x": 1})
    assert ended(events).status == "completed"


PARALLEL = {
    "mixed": [
        called(call(0, "a", "f", "{"), call(1, "b", "g", "[")),
        called(call(1, None, None, "]"), call(0, None, None, "}")),
    ],
    "all of one number": [called(call(0, "a", "f", "{}")), called(call(0, "b", "g", "[]"))],
    "without numbers": [called(call(None, "a", "f", "{}"), call(None, "b", "g", "[]"))],
}


@pytest.mark.parametrize("chunks", PARALLEL.values(), ids=PARALLEL)
def test_calls_beside_each_other_stay_apart(chunks: list[Json]) -> None:
    assert told(read(*chunks, chunk({}, "tool_calls"))) == [("f", "a", "{}"), ("g", "b", "[]")]


def test_a_call_without_an_id_gets_one() -> None:
    ((_, one, _), (_, other, _)) = told(
        read(called(call(0, None, "f", "{}"), call(1, "", "f", "{}")), chunk({}, "stop"))
    )
    assert one.startswith("call_")
    assert one != other


@pytest.mark.parametrize("name", ["f", None])
def test_a_turn_has_no_more_than_so_many_calls(name: str | None) -> None:
    with pytest.raises(UpstreamBroken, match="more than 2000"):
        read(called(*(call(None, f"c{at}", name, "{}") for at in range(MOST_PARTS + 1))))


def test_a_call_that_names_no_function_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="names no function"):
        read(called(call(0, "a", None, "{}")), chunk({}, "tool_calls"))


def test_only_the_first_of_several_choices_is_read() -> None:
    both = [{"index": at, "delta": {"content": text}} for at, text in ((1, "no"), (0, "yes"))]
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    events = read({"choices": both}, second, chunk({"content": "!"}, "stop"))
    assert (text_of(events), ended(events).status) == ("yes!", "completed")


def test_a_choice_without_a_number_is_the_first() -> None:
    assert text_of(read({"choices": [{"delta": {"content": "x"}}]}, chunk(None, "stop"))) == "x"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_an_item_that_says_where_it_came_from(name: str) -> None:
    events = read(
        chunk({name: "h", "content": ""}), chunk({name: "m", "content": None}), chunk({"content": "x"}, "stop")
    )
    reasoning, message = items(events)
    assert reasoning["summary"] == [{"type": "summary_text", "text": "hm"}]
    seal = opened(reasoning["encrypted_content"], provider="acme")
    assert seal is not None
    assert (seal.made_by, seal.id) == ("openai", name)
    assert message["content"][0]["text"] == "x"


def test_reasoning_between_tags_is_reasoning() -> None:
    pieces = ["<think>", "h", "m", "</think>", "\n\n", "x"]
    events = read(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"))
    reasoning, message = items(events)
    assert (reasoning["summary"][0]["text"], message["content"][0]["text"]) == ("hm", "\n\nx")


def test_what_comes_after_a_call_is_another_item() -> None:
    events = read(chunk({"content": "a"}), called(call(0, "c", "f", "{}")), chunk({"content": "b"}, "stop"))
    added = [event for event in events if isinstance(event, port.Emit) and event.type == "response.output_item.added"]
    assert [event.data["item"]["type"] for event in added] == ["message", "function_call", "message"]
    assert [event.data["output_index"] for event in added] == [0, 1, 2]
    assert text_of(events) == "ab"


def test_a_text_that_comes_as_parts_is_read() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "reference"}, {"type": "text", "text": "b"}]
    assert text_of(read(chunk({"content": parts}, "stop"))) == "ab"


@pytest.mark.parametrize("last", [{"choices": [], "usage": {}}, {"choices": None, "usage": {}}, {"usage": {}}])
def test_usage_comes_in_a_chunk_of_its_own(last: Json) -> None:
    told_usage = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    events = read(chunk({"content": "x"}, "stop", usage=None), {**last, "usage": told_usage, "model": "real-1"})
    assert ended(events).usage == Usage.counted(given=9, answered=5, cached=4, written=2, reasoning=3)
    assert ended(events).response == {"model": "real-1"}


def test_usage_that_comes_with_every_chunk_is_not_added_up() -> None:
    some = [chunk({"content": "x"}, usage={"prompt_tokens": 9, "completion_tokens": n}) for n in (1, 2, 3)]
    events = read(
        *some, chunk({}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": 1})
    )
    assert ended(events).usage == Usage.counted(given=9, answered=4)


@pytest.mark.parametrize(
    "reason, status, why",
    [
        ("stop", "completed", None),
        ("eos", "completed", None),
        ("function_call", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("error", "failed", None),
        ("abort", "failed", None),
        ("sensitive", "incomplete", "content_filter"),
    ],
)
def test_a_reason_to_finish_says_how_the_turn_ended(reason: str, status: str, why: str | None) -> None:
    end = ended(read(chunk({"content": "x"}), chunk({}, reason)))
    assert (end.status, end.incomplete_reason) == (status, why)


def test_what_a_model_refuses_with_is_shown() -> None:
    events = read(chunk({"refusal": "I can't "}), chunk({"refusal": "do that."}), chunk({}, "stop"))
    assert (text_of(events), ended(events).incomplete_reason) == ("I can't do that.", "content_filter")
    assert [item["status"] for item in items(events)] == ["completed"]


@pytest.mark.parametrize("reason", ["length", "content_filter", "error"])
def test_of_calls_written_by_turns_the_one_being_written_is_cut(reason: str) -> None:
    begun = [called(call(0, "a", "f", '{"to": ')), called(call(1, "b", "g", "{}"))]
    events = read(*begun, called(call(0, None, None, '"al')), chunk({}, reason))
    assert {item["call_id"]: item["status"] for item in items(events)} == {"a": "incomplete", "b": "completed"}


@pytest.mark.parametrize("error", [{"message": "no"}, "no", {"code": 502, "message": "no"}])
def test_an_error_within_the_stream_is_told_apart(error: object) -> None:
    with pytest.raises(StreamedError) as raised:
        read(chunk({"content": "x"}), {"error": error})
    assert raised.value.error == error


def test_an_error_that_stands_in_no_field_is_one_too() -> None:
    with pytest.raises(StreamedError):
        read(chunk({"content": "x"}), {"object": "error", "message": "no", "code": 400})


# From here on as bytes, over HTTP.


async def answered(body: bytes, **headers: str) -> list[port.TurnEvent]:
    streamed = Refuse(200, body=body, headers={"content-type": "text/event-stream", **headers})
    with anyio.fail_after(20):
        async with ScriptedChat([streamed]) as server:
            given = ProviderSettings(
                name="acme", type="openai_chat", base_url=f"{server.base_url}/", api_key=Secret(KEY)
            )
            async with openai_chat.upstream(given, retries=QUICK) as upstream:
                return await asked(upstream, TURN)


def lines(*chunks: Json | str, end: str = "\n") -> bytes:
    said = [each if isinstance(each, str) else f"data: {json.dumps(each)}" for each in chunks]
    return "".join(f"{each}{end}{end}" for each in said).encode()


HELLO = chunk({"content": "Hello"})
STOP = chunk({}, "stop")
STREAMS = {
    "as OpenAI": lines(HELLO, STOP, "data: [DONE]"),
    "without the end's mark": lines(HELLO, STOP),
    "without a reason to finish": lines(HELLO, "data: [DONE]"),
    "other line ends": lines(HELLO, STOP, "data: [DONE]", end="\r\n"),
    "comments": lines(": OPENROUTER PROCESSING", HELLO, ": ping", STOP, "data: [DONE] "),
    "no last empty line": lines(HELLO, STOP).rstrip(b"\n"),
    "what follows the mark": lines(HELLO, STOP, "data: [DONE]", "data: what"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("body", STREAMS.values(), ids=STREAMS)
async def test_the_same_answer_in_other_bytes(body: bytes) -> None:
    events = await answered(body)
    assert (text_of(events), ended(events).status) == ("Hello", "completed")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "body",
    [lines(HELLO), lines(HELLO, {"choices": "none"}), lines(HELLO, {"choices": [7]}, STOP), lines(HELLO, "data: [1]")],
)
async def test_what_is_no_whole_answer_has_broken_off(body: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        await answered(body)


@pytest.mark.anyio
async def test_an_error_before_anything_was_said_is_a_refusal_with_its_status() -> None:
    error = {"error": {"message": f"Slow down, {KEY}.", "code": 429}}
    with pytest.raises(UpstreamRefused) as refused:
        await answered(lines(error))
    assert (refused.value.status, refused.value.detail) == (429, "Slow down, [REDACTED].")
    with pytest.raises(UpstreamBroken, match="Slow down"):
        await answered(lines(HELLO, error))

"""What Anthropic's Messages API says in events, and what a request to each of its models must say."""

import json
from typing import Any

import anyio
import pytest

from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams import anthropic
from limpet.upstreams import upstream as port
from limpet.upstreams.answer_reader import StreamedError
from limpet.upstreams.function_names import FunctionNames
from limpet.upstreams.item_writer import MOST_PARTS, ItemWriter
from limpet.upstreams.key_filter import KeyFilter
from limpet.upstreams.messages_events import MessagesEventReader
from limpet.upstreams.messages_request import messages_body
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.sealing import Seal, opened, sealed
from limpet.upstreams.turn_request import names_of
from limpet.upstreams.usage import Usage
from tests.support.providers.anthropic import ScriptedAnthropic
from tests.support.providers.turns import Refuse, Turn, reply
from tests.upstreams.questions import KEY, QUESTION, QUICK, asked, text_of

Json = dict[str, Any]
END: tuple[Json, ...] = ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"})
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}


def start(index: int, **block: Any) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **delta: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def read(*events: Json) -> list[port.TurnEvent]:
    writer = ItemWriter(provider="acme", has_shell=False, names=FunctionNames([WEATHER]), keys=KeyFilter(None))
    reader = MessagesEventReader(writer)
    return [*(said for event in events for said in reader.read(event)), *reader.end()]


def items(events: list[port.TurnEvent]) -> list[Json]:
    done = [event for event in events if isinstance(event, port.Emit) and event.type == "response.output_item.done"]
    return [event.data["item"] for event in done]


def ended(events: list[port.TurnEvent]) -> port.TurnEnded:
    assert isinstance(events[-1], port.TurnEnded)
    return events[-1]


def seal_of(item: Json) -> Seal:
    seal = opened(item["encrypted_content"], provider="acme")
    assert seal is not None
    return seal


def test_a_signature_in_pieces_is_one() -> None:
    thinking = start(0, type="thinking", thinking="", signature="")
    pieces = [
        delta(0, type="thinking_delta", thinking="hm"),
        *(delta(0, type="signature_delta", signature=s) for s in "SG"),
    ]
    (item,) = items(read(thinking, *pieces, *END))
    assert (item["summary"][0]["text"], seal_of(item).signature) == ("hm", "SG")


def test_thinking_that_is_not_shown_keeps_its_proof() -> None:
    hidden = start(0, type="redacted_thinking", data="DATA")
    silent = start(1, type="thinking", thinking="", signature="SIG")
    one, other = items(read(hidden, silent, *END))
    assert (one["summary"], other["summary"]) == ([], [])
    assert [(seal_of(each).id, seal_of(each).signature) for each in (one, other)] == [
        ("redacted_thinking", "DATA"),
        (None, "SIG"),
    ]


def test_a_call_whose_input_comes_whole_is_read() -> None:
    (item,) = items(read(start(0, type="tool_use", id="c", name="weather", input={"a": "é"}), *END))
    assert (item["call_id"], json.loads(item["arguments"])) == ("c", {"a": "é"})


def test_blocks_and_events_that_are_not_known_are_passed_by() -> None:
    strange = start(0, type="server_tool_use", id="s", name="web_search", input={})
    piece = delta(0, type="input_json_delta", partial_json="{}")
    citation = delta(1, type="citations_delta", citation={})
    text = start(1, type="text", text="a")
    events = read(
        {"type": "ping"}, {"type": "new"}, strange, piece, text, citation, delta(1, type="text_delta", text="b"), *END
    )
    assert (text_of(events), len(items(events))) == ("ab", 1)


def test_what_the_cache_gave_and_took_is_input_and_sums_are_not_added_up() -> None:
    first = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 10, "output_tokens": 1}
    last = {"output_tokens": 9, "input_tokens": None, "output_tokens_details": {"thinking_tokens": 4}}
    message = {"type": "message_start", "message": {"model": "claude-real", "usage": first}}
    end = ended(read(message, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}))
    assert end.usage == Usage.counted(given=33, answered=9, cached=20, written=10, reasoning=4)
    assert end.response == {"model": "claude-real"}


@pytest.mark.parametrize(
    "reason, status, why",
    [
        ("end_turn", "completed", None),
        ("tool_use", "completed", None),
        ("stop_sequence", "completed", None),
        ("max_tokens", "incomplete", "max_output_tokens"),
        ("model_context_window_exceeded", "incomplete", "max_output_tokens"),
        ("refusal", "incomplete", "content_filter"),
    ],
)
def test_a_reason_to_stop_says_how_the_turn_ended(reason: str, status: str, why: str | None) -> None:
    end = ended(read({"type": "message_delta", "delta": {"stop_reason": reason}}))
    assert (end.status, end.incomplete_reason) == (status, why)


@pytest.mark.parametrize("reason", ["refusal", "max_tokens"])
def test_a_call_that_was_cut_is_incomplete_and_the_one_before_is_not(reason: str) -> None:
    calls = [start(index, type="tool_use", id=f"c{index}", name="weather", input={}) for index in range(2)]
    pieces = [
        delta(index, type="input_json_delta", partial_json=text) for index, text in enumerate(["{}", '{"to": "al'])
    ]
    end = {"type": "message_delta", "delta": {"stop_reason": reason}}
    whole, cut = items(read(calls[0], pieces[0], calls[1], pieces[1], end))
    assert [(call["status"], call["arguments"]) for call in (whole, cut)] == [
        ("completed", "{}"),
        ("incomplete", '{"to": "al'),
    ]


def test_a_message_has_no_more_than_so_many_blocks() -> None:
    with pytest.raises(UpstreamBroken, match="more than 2000"):
        read(*(start(index, type="not_known") for index in range(MOST_PARTS + 1)))


def test_a_shell_call_of_a_refused_answer_broke_off() -> None:
    writer = ItemWriter(provider="acme", has_shell=True, names=FunctionNames([]), keys=KeyFilter(None))
    reader = MessagesEventReader(writer)
    call = start(0, type="tool_use", id="c", name="shell", input={"commands": ["rm -r /mnt/data"]})
    refused = {"type": "message_delta", "delta": {"stop_reason": "refusal"}}
    said = [*(event for each in (call, refused) for event in reader.read(each)), *reader.end()]
    (made,) = [event for event in said if isinstance(event, port.CallMade)]
    assert isinstance(made.arguments, port.BadArguments)
    assert "broke off" in made.arguments.reason


def test_an_error_within_the_stream_has_the_status_of_its_kind() -> None:
    with pytest.raises(StreamedError) as raised:
        read({"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}})
    assert raised.value.status == 529


# Over HTTP.


async def turned(*turns: Turn, **given: Any) -> tuple[list[port.TurnEvent], list[Json], list[Any]]:
    """The events of one turn, and the bodies and headers of what was asked."""
    with anyio.fail_after(20):
        async with ScriptedAnthropic(turns) as server:
            settings = ProviderSettings(name="acme", type="anthropic", base_url=server.base_url, api_key=Secret(KEY))
            async with anthropic.upstream(settings, retries=QUICK) as upstream:
                events = await asked(upstream, port.Turn(**{"model": "claude-x", "input": [QUESTION]} | given))
            return events, [request.body for request in server.requests], [r.headers for r in server.requests]


def streamed(*events: Json, ends: str = "\n") -> Refuse:
    frames = [f"event: {event['type']}{ends}data: {json.dumps(event)}{ends}{ends}" for event in events]
    return Refuse(200, body="".join(frames).encode(), headers={"content-type": "text/event-stream"})


@pytest.mark.anyio
async def test_other_line_ends_and_no_last_event_are_read() -> None:
    events, _, _ = await turned(streamed(start(0, type="text", text="Hello"), END[0], ends="\r\n"))
    assert (text_of(events), ended(events).status) == ("Hello", "completed")


@pytest.mark.anyio
@pytest.mark.parametrize("last", [{"type": "content_block_delta"}, start(1, type="tool_use"), {"type": "message_stop"}])
async def test_what_is_no_whole_message_has_broken_off(last: Json) -> None:
    with pytest.raises(UpstreamBroken):
        await turned(streamed(start(0, type="text", text="Hello"), last))


@pytest.mark.anyio
async def test_an_error_before_anything_was_said_is_a_refusal() -> None:
    busy = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow."}}
    with pytest.raises(UpstreamRefused) as refused:
        await turned(streamed(busy))
    assert (refused.value.status, refused.value.detail, refused.value.code) == (429, "Slow.", "rate_limit_error")


STALE = Refuse(400, "messages.1: The block is bound to a different conversation.")


@pytest.mark.anyio
async def test_thinking_that_no_longer_fits_its_conversation_is_dropped_by_asking_once_more() -> None:
    events, bodies, headers = await turned(STALE, reply("Hello"), model="claude-opus-5-5")
    assert text_of(events) == "Hello"
    assert [body.get("thinking") for body in bodies] == [
        None,
        {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
    ]
    assert ["anthropic-beta" in each for each in headers] == [False, True]
    with pytest.raises(UpstreamRefused):
        await turned(STALE, STALE, reply("no"), model="claude-opus-5-5")
    with pytest.raises(UpstreamRefused):
        await turned(STALE, reply("no"), model="claude-opus-4-5")


# Requests.


def body(model: str = "claude-sonnet-4-5", *items: Json, **given: Any) -> Json:
    turn = port.Turn(model=model, input=items or [QUESTION], **given)
    return messages_body(turn, names_of(turn), provider="acme")


@pytest.mark.parametrize(
    "model, length, thinking, config",
    [
        ("claude-3-5-haiku", 20_480, {"type": "enabled", "budget_tokens": 16_384}, None),
        ("claude-sonnet-4-5", 64_000, {"type": "enabled", "budget_tokens": 16_384}, None),
        ("claude-opus-4-5", 64_000, {"type": "enabled", "budget_tokens": 16_384}, {"effort": "high"}),
        ("claude-opus-5", 128_000, {"type": "adaptive"}, {"effort": "high"}),
        ("claude-of-tomorrow", 20_480, {"type": "enabled", "budget_tokens": 16_384}, None),
    ],
)
def test_a_model_is_told_to_think_in_its_own_words(
    model: str, length: int, thinking: Json, config: Json | None
) -> None:
    sent = body(model, options={"reasoning": {"effort": "high"}})
    assert (sent["max_tokens"], sent["thinking"], sent.get("output_config")) == (length, thinking, config)


@pytest.mark.parametrize(
    "model, thinking", [("claude-opus-4-5", None), ("claude-opus-5", "disabled"), ("claude-opus-5-5", "adaptive")]
)
def test_thinking_is_turned_off_as_far_as_it_can_be(model: str, thinking: str | None) -> None:
    assert (body(model, options={"reasoning": {"effort": "none"}}).get("thinking") or {}).get("type") == thinking


def test_the_cache_is_asked_to_keep_what_stands_in_front_and_the_conversation() -> None:
    sent = body(instructions="be", tools=[WEATHER, {**WEATHER, "name": "other"}])
    assert (sent["cache_control"], sent["system"][0]["cache_control"]) == ({"type": "ephemeral", "ttl": "5m"},) * 2
    assert ["cache_control" in tool for tool in sent["tools"]] == [False, True]


def test_what_a_developer_says_later_stands_there_where_the_model_takes_it() -> None:
    said = (
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "developer", "content": "c"},
    )
    inline, in_front = (
        body("claude-opus-5", *said, instructions="be"),
        body("claude-sonnet-4-5", *said, instructions="be"),
    )
    assert [message["role"] for message in inline["messages"]] == ["user", "assistant", "user", "system"]
    assert [message["role"] for message in in_front["messages"]] == ["user", "assistant"]
    assert (inline["system"][0]["text"], in_front["system"][0]["text"]) == ("be", "be\n\nc")


@pytest.mark.parametrize(
    "model, effort", [("claude-opus-5-5", None), ("claude-sonnet-4-5", "high")], ids=["never", "while it thinks"]
)
def test_a_model_that_cannot_be_forced_is_not_asked(model: str, effort: str | None) -> None:
    with pytest.raises(UpstreamRefused, match="cannot be forced") as refused:
        body(model, options={"reasoning": {"effort": effort}, "tool_choice": "required"}, tools=[WEATHER])
    assert (refused.value.status, refused.value.param) == (400, "tool_choice")


def test_a_schema_binds_with_what_the_api_refuses_in_words() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}
    form = {"type": "json_schema", "name": "n", "schema": schema}
    sent = body(options={"text": {"format": form}})["output_config"]["format"]["schema"]
    assert sent == {
        "type": "object",
        "properties": {"a": {"type": "integer", "description": "{minimum: 1}"}},
        "additionalProperties": False,
    }
    for model, refused in (("claude-3-5-haiku", form), ("claude-opus-5", {"type": "yaml"})):
        with pytest.raises(UpstreamRefused) as raised:
            body(model, options={"text": {"format": refused}})
        assert raised.value.param == "text.format"


def test_reasoning_without_a_proof_goes_back_as_text() -> None:
    def reasoning(**seal: Any) -> Json:
        content = sealed(Seal(provider="acme", **seal))
        return {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": content}

    given = (
        reasoning(made_by="anthropic"),
        reasoning(made_by="openai", signature="S"),
        reasoning(made_by="anthropic", signature="S"),
    )
    (answer,) = [
        message for message in body("claude-x", QUESTION, *given)["messages"] if message["role"] == "assistant"
    ]
    assert [block["type"] for block in answer["content"]] == ["text", "text", "thinking"]

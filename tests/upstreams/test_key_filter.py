"""A provider that sends its own key back, whole, encoded, or in pieces."""

import base64
import json
import random
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from openai import BaseModel
from openai.types.responses import ResponseStreamEvent

from limpet.core.secret import HIDDEN, Secret
from limpet.upstreams.key_filter import KeyFilter, hide_key
from limpet.upstreams.key_pieces import SplitEvents, TextSequence
from limpet.upstreams.refusals import refusal

KEY = "sk-proj-aA0/+~key-of-forty-characters-0123"


@pytest.mark.parametrize("before", ["", "x", "xy", "user:", "Authorization: Bearer "])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, lambda data: data.hex().encode()])
def test_an_encoded_key_is_hidden_wherever_it_stands(before: str, encode: Any) -> None:
    encoded = encode(f"{before}{KEY} and more".encode()).decode()
    middle = encode(f"{before}{KEY[3:-3]}"[len(before) :].encode()).decode()

    for text in (encoded, encoded.replace("/", "\\/")):
        shown = refusal("p", 401, json.dumps({"error": {"message": f"bad: {text}"}}).encode(), Secret(KEY)).message
        assert HIDDEN in shown
        assert encoded[12:30] not in shown or middle not in shown
        assert HIDDEN in hide_key(text, Secret(KEY))


def test_a_short_key_is_not_looked_for_in_base64() -> None:
    assert hide_key(base64.b64encode(b"a text of words").decode(), Secret("text")) == "YSB0ZXh0IG9mIHdvcmRz"


@pytest.mark.parametrize("seed", range(40))
def test_a_text_in_pieces_is_hidden_as_its_whole_is(seed: int) -> None:
    chance = random.Random(seed)
    words = [
        KEY,
        KEY,
        KEY[:9],
        KEY[-9:],
        "s",
        "sk-",
        "plain ",
        json.dumps(KEY),
        base64.b64encode(KEY.encode()).decode(),
    ]
    whole = "".join(chance.choice(words) for _ in range(12))
    keys = KeyFilter(Secret(KEY))
    text = TextSequence(keys).text()
    shown, rest = "", whole
    while rest:
        size = chance.choice([1, 2, 3, 7, 50])
        shown, rest = shown + text.feed(rest[:size]), rest[size:]

    assert shown + text.end() == TextSequence(keys).whole(whole)


def _delta(text: str, index: int = 0, **more: Any) -> dict[str, Any]:
    kind = "response.output_text.delta"
    return {"type": kind, "item_id": f"i{index}", "output_index": index, "content_index": 0, "delta": text, **more}


def _passed(events: list[dict[str, Any]], key: str = KEY) -> list[dict[str, Any]]:
    keys = KeyFilter(Secret(key))
    split = SplitEvents(keys)
    return [shown for event in events for shown in split.feed(keys.hide(event))]


@pytest.mark.parametrize("at", range(1, len(KEY)))
def test_a_key_over_two_events_is_in_neither(at: int) -> None:
    done = {"type": "response.output_text.done", "output_index": 0, "text": f"is {KEY}!"}
    token = [{"token": KEY[:at]}]

    shown = _passed([_delta(f"is {KEY[:at]}", logprobs=token), _delta(f"{KEY[at:]}!", logprobs=token), done])

    assert "".join(event.get("delta", "") for event in shown) == f"is {HIDDEN}!" == shown[-1]["text"]
    assert KEY[:at] not in json.dumps(shown) or at < 4


def test_a_key_over_very_many_events_of_two_texts_at_once_is_in_none() -> None:
    events = [_delta(character, index) for character in f"{KEY} s" for index in (0, 1)]

    shown = _passed([*events, {"type": "response.completed"}])

    for index in (0, 1):
        assert "".join(one["delta"] for one in shown[:-1] if one["output_index"] == index) == f"{HIDDEN} s"
    assert shown[-1] == {"type": "response.completed"}


def test_what_only_began_like_the_key_comes_before_the_end_of_its_text() -> None:
    done = {"type": "response.output_text.done", "output_index": 0, "text": "words"}

    shown = _passed([_delta("word"), _delta("s"), _delta("more", 1), done])

    assert [event.get("delta") for event in shown] == ["word", "more", "s", None]


def test_what_waits_is_bounded_and_may_be_of_any_kind() -> None:
    events = [{**_delta("s", index), "item_id": [index]} for index in range(1000)]
    keys = KeyFilter(Secret(KEY))
    split = SplitEvents(keys)

    shown = [one for event in events for one in split.feed(event)]

    assert 1000 - 64 <= len(shown) < 1000
    assert len([*shown, *split.feed({"type": "response.completed"})]) == 1001


def _tokens(*texts: str) -> list[dict[str, Any]]:
    return [{"token": text, "bytes": list(text.encode()), "logprob": -1.0, "top_logprobs": []} for text in texts]


LEAKING = {
    "whole": _tokens(KEY),
    "split": _tokens("is ", *(KEY[at : at + 5] for at in range(0, len(KEY), 5)), "!"),
    "bytes alone": [{**one, "token": "?"} for one in _tokens(*KEY)],
}


@pytest.mark.parametrize("tokens", LEAKING.values(), ids=LEAKING)
def test_the_tokens_of_a_text_do_not_repeat_the_key(tokens: list[dict[str, Any]]) -> None:
    part = {"type": "output_text", "text": f"is {KEY}!", "annotations": [], "logprobs": tokens}
    item = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}

    shown = _passed([
        {"type": "response.output_text.delta", **place, "delta": f"is {KEY}!", "logprobs": tokens},
        {"type": "response.output_text.done", **place, "text": f"is {KEY}!", "logprobs": tokens},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"output": [item]}},
    ])  # fmt: skip

    for event in shown:
        for text in (json.dumps(event), *_joined_tokens(event)):
            assert KEY[:9] not in text
    assert json.dumps(shown).count('"logprobs": []') == 5


def _joined_tokens(value: Any) -> list[str]:
    """What the tokens of every text in it say together, as text and as bytes."""
    if isinstance(value, list):
        return [text for each in value for text in _joined_tokens(each)]
    if not isinstance(value, dict):
        return []
    tokens = value.get("logprobs") or []
    found = ["".join(one["token"] for one in tokens), bytes(byte for one in tokens for byte in one["bytes"]).decode()]
    return found + [text for each in value.values() for text in _joined_tokens(each)]


def _filled(kind: Any, text: str, depth: int = 0) -> Any:
    """A value of an annotation of the official client's, with `text` wherever a text may stand. Of alternatives, one of each."""
    given = get_args(kind)
    match get_origin(kind):
        case None if isinstance(kind, type) and issubclass(kind, BaseModel):
            return {name: _filled(field.annotation, text, depth + 1) for name, field in kind.model_fields.items()}
        case None:
            return {str: text, int: 1, float: 1.0, bool: True}.get(kind, text)
        case origin if origin is Literal:
            return given[0]
        case origin if origin is Annotated:
            return _filled(given[0], text, depth)
        case origin if origin is list:
            return [_filled(given[0], text, depth + 1)]
        case origin if origin is dict:
            return {text: _filled(given[1], text, depth + 1)}
        case _:
            some = [each for each in given if each is not type(None)]
            return [_filled(each, text, depth + 1) for each in (some if depth < 5 else some[:1])]


def test_no_text_of_any_event_of_the_api_keeps_the_key() -> None:
    kinds = get_args(get_args(ResponseStreamEvent)[0])
    keys = KeyFilter(Secret(KEY))

    for kind in kinds:
        data = json.dumps(_filled(kind, f"is {KEY}!"))
        assert keys.may_hold_key(data.encode()) is (KEY in data)
        assert KEY not in json.dumps(keys.hide(json.loads(data))), kind
    assert len(kinds) > 50


def test_tokens_of_other_texts_stay() -> None:
    tokens = _tokens("some", " words")
    event = {"type": "x", "content": [{"text": "some words", "logprobs": tokens}, {"text": KEY, "logprobs": tokens}]}

    shown = KeyFilter(Secret(KEY)).hide(event)

    assert shown["content"] == [{"text": "some words", "logprobs": tokens}, {"text": HIDDEN, "logprobs": []}]


@pytest.mark.parametrize("escaped", ["+", "+/~", KEY])
def test_a_key_whose_characters_json_escapes_is_looked_for(escaped: str) -> None:
    keys = KeyFilter(Secret(KEY))
    text = KEY.replace(escaped, "".join(f"\\u{ord(one):04X}" for one in escaped))
    data = b'{"type":"x","text":"%s"}' % text.encode()

    assert keys.may_hold_key(data)
    assert keys.hide(json.loads(data)) == {"type": "x", "text": HIDDEN}


@pytest.mark.parametrize("name", ["type", "status", "role", "object"])
def test_what_names_a_kind_is_a_word_or_searched(name: str) -> None:
    event = {name: f"a {KEY}", "item": {name: KEY, KEY: 1}}

    assert KeyFilter(Secret(KEY)).hide(event) == {name: f"a {HIDDEN}", "item": {name: HIDDEN, HIDDEN: 1}}


def test_without_a_key_every_event_is_what_it_was() -> None:
    split = SplitEvents(KeyFilter(None))
    events = [_delta("s"), _delta(""), {"type": "x", "delta": {"kind": "none"}}, {"type": "response.completed"}]

    assert [shown for event in events for shown in split.feed(event)] == events

"""A provider that sends its own key back, whole, encoded, or in pieces."""

import base64
import json
import random
from typing import Any

import pytest

from limpet.core.secret import HIDDEN, Secret
from limpet.upstreams.key_filter import KeyFilter, hide_key
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
    text = KeyFilter(Secret(KEY)).text()
    shown, rest = "", whole
    while rest:
        size = chance.choice([1, 2, 3, 7, 50])
        shown, rest = shown + text.feed(rest[:size]), rest[size:]

    assert shown + text.end() == hide_key(whole, Secret(KEY))


def _delta(text: str, index: int = 0, **more: Any) -> dict[str, Any]:
    kind = "response.output_text.delta"
    return {"type": kind, "item_id": f"i{index}", "output_index": index, "content_index": 0, "delta": text, **more}


def _passed(events: list[dict[str, Any]], key: str = KEY) -> list[dict[str, Any]]:
    keys = KeyFilter(Secret(key))
    split = keys.events()
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
    split = keys.events()

    shown = [one for event in events for one in split.feed(event)]

    assert 1000 - 64 <= len(shown) < 1000
    assert len([*shown, *split.feed({"type": "response.completed"})]) == 1001


def test_without_a_key_every_event_is_what_it_was() -> None:
    split = KeyFilter(None).events()
    events = [_delta("s"), _delta(""), {"type": "x", "delta": {"kind": "none"}}, {"type": "response.completed"}]

    assert [shown for event in events for shown in split.feed(event)] == events

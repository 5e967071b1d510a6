"""A provider that sends its own key back in pieces: over parts, items and kinds of text, which a client may join."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from limpet.core.secret import HIDDEN, Secret
from limpet.upstreams.key_filter import LONGEST_FRAGMENT, KeyFilter
from limpet.upstreams.key_pieces import SplitEvents, TextSequence, without_split_key

Json = dict[str, Any]
KEYS = ["k7#p", "k7#pQ", "sk-12-ab", "sk-proj-aA0/+~key-of-forty-characters-0123"]


def _part(place: Json, text: str) -> Iterator[Json]:
    for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": {"type": "output_text", "text": text}}


def _message(index: int, *texts: str) -> tuple[list[Json], Json]:
    item_id = f"msg_{index}"
    parts = [{"type": "output_text", "annotations": [], "logprobs": [], "text": text} for text in texts]
    item = {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": parts}
    events = [
        event
        for at, text in enumerate(texts)
        for event in _part({"item_id": item_id, "output_index": index, "content_index": at}, text)
    ]
    return [*events, {"type": "response.output_item.done", "output_index": index, "item": item}], item


def _reasoning(index: int, text: str) -> tuple[list[Json], Json]:
    place = {"item_id": f"rs_{index}", "output_index": index, "summary_index": 0}
    item = {"id": f"rs_{index}", "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
    return [
        {"type": "response.reasoning_summary_text.delta", **place, "delta": text},
        {"type": "response.reasoning_summary_text.done", **place, "text": text},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ], item


def _call(index: int, text: str) -> tuple[list[Json], Json]:
    place = {"item_id": f"fc_{index}", "output_index": index}
    item = {"id": f"fc_{index}", "type": "function_call", "name": "f", "call_id": "c", "arguments": text}
    return [
        {"type": "response.function_call_arguments.delta", **place, "delta": text},
        {"type": "response.function_call_arguments.done", **place, "arguments": text},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ], item


def _alternating(index: int, text: str) -> tuple[list[Json], Json]:
    return [_reasoning, _message, _call][index % 3](index, text)


FORMS: dict[str, Any] = {
    "parts of a message": lambda texts: [_message(0, *texts)],
    "messages": lambda texts: [_message(at, text) for at, text in enumerate(texts)],
    "reasoning, text and arguments": lambda texts: [_alternating(at, text) for at, text in enumerate(texts)],
    "arguments and text": lambda texts: [_alternating(at + 2, text) for at, text in enumerate(texts)],
}


def _answer(form: str, texts: list[str]) -> list[Json]:
    made = FORMS[form](texts)
    ended = {"type": "response.completed", "response": {"output": [item for _, item in made], "text": {}}}
    return [*(event for events, _ in made for event in events), ended]


def _passed(events: list[Json], keys: KeyFilter) -> list[Json]:
    split = SplitEvents(keys)
    given = [json.dumps(event).encode() for event in events]
    read = [(keys.hide(json.loads(data)) if keys.may_hold_key(data) else json.loads(data)) for data in given]
    return [shown for event in read for shown in split.feed(event)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, str) and name in {"text", "arguments", "delta"}:
                yield each
            else:
                yield from _texts(each)


def _joined(shown: list[Json]) -> dict[str, str]:
    """What a client may make of an answer: its pieces, its texts, its items, its end."""
    found: dict[str, str] = {}
    for event in shown:
        name = next((form for form in ("item", "part") if form in event), event["type"].rpartition(".")[2])
        found[name] = found.get(name, "") + "".join(_texts(event))
    return found


def _splits(key: str) -> Iterator[list[str]]:
    for at in range(1, len(key)):
        yield [key[:at], key[at:]]
    for size in (1, 2, 3, 7, 9):
        yield [key[at : at + size] for at in range(0, len(key), size)]
    third = max(1, len(key) // 3)
    yield [key[:third], key[third : 2 * third], key[2 * third :]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", KEYS, ids=[len(key) for key in KEYS])
@pytest.mark.parametrize("has_deltas", [True, False], ids=["pieces", "whole"])
def test_a_key_over_several_texts_is_in_nothing_that_they_make_together(form: str, key: str, has_deltas: bool) -> None:
    keys = KeyFilter(Secret(key))
    for split in _splits(key):
        texts = [f"It is {split[0]}", *split[1:-1], f"{split[-1]}, you see."]
        events = [event for event in _answer(form, texts) if has_deltas or "delta" not in event]
        shown = _passed(events, keys)

        found = _joined(shown)
        assert key not in found.pop("part", "")  # only messages have such events
        for name, text in found.items():
            assert key not in text, (split, name, shown)
            assert text.startswith("It is "), (split, name)
            assert text.endswith(", you see."), (split, name)
            assert HIDDEN in text, (split, name)
            longest = max((len(at) for at in _parts_of(key) if at in text), default=0)
            assert longest < max(LONGEST_FRAGMENT, 4), (split, name, text)


def _parts_of(key: str) -> Iterator[str]:
    return (key[at:to] for at in range(len(key)) for to in range(at + 4, len(key) + 1))


@pytest.mark.parametrize("form", ["parts of a message", "messages"])
def test_what_is_told_at_the_end_is_what_was_told_in_pieces(form: str) -> None:
    keys = KeyFilter(Secret(KEYS[-1]))
    for split in _splits(KEYS[-1]):
        texts = [f"It is {split[0]}", *split[1:-1], f"{split[-1]}, you see."]
        found = _joined(_passed(_answer(form, texts), keys))

        assert len(set(found.values())) == 1, (split, found)


def test_texts_that_come_in_another_order_than_they_stand_in() -> None:
    key = KEYS[-1]
    keys = KeyFilter(Secret(key))
    for at in range(1, len(key)):
        first, second = _message(0, f"It is {key[:at]}")[0], _message(1, f"{key[at:]}, you see.")[0]
        shown = _passed([*second, *first], keys)
        later = [TextSequence(keys).whole(text) for text in (f"It is {key[:at]}", f"{key[at:]}, you see.")]

        joined = _joined(sorted(shown, key=lambda event: int(event["output_index"])))
        assert all(key not in text for text in [*joined.values(), "".join(later)])


def test_a_key_by_turns_in_two_texts_at_once_is_not_in_the_stream() -> None:
    key = KEYS[-1]
    events = [
        {
            "type": "response.function_call_arguments.delta",
            "item_id": f"i{at % 2}",
            "output_index": at % 2,
            "delta": one,
        }
        for at, one in enumerate(key)
    ]

    shown = _passed([*events, {"type": "response.completed", "response": {}}], KeyFilter(Secret(key)))

    assert key not in "".join(event.get("delta", "") for event in shown)


@pytest.mark.parametrize(
    "texts",
    [
        ["It ends in s", "k, and so on", "s", "", "k"],
        ["sk-proj", "ect", "the key-of", "-fort"],
        ["0123", "3", "12", "[REDACTED]"],
    ],
)
def test_ordinary_texts_stay_as_they_are(texts: list[str]) -> None:
    events = _answer("messages", texts)
    found = _joined(_passed(events, KeyFilter(Secret(KEYS[-1]))))

    assert set(found.values()) == {"".join(texts)}


def test_tokens_of_a_text_that_ends_with_the_key_are_left_out() -> None:
    key = KEYS[-1]
    tokens = [{"token": one, "bytes": list(one.encode())} for one in ("is ", key[:20])]
    parts = [{"text": f"is {key[:20]}", "logprobs": tokens}, {"text": key[20:], "logprobs": []}]

    shown = without_split_key({"content": parts}, TextSequence(KeyFilter(Secret(key))))

    assert [part["text"] for part in shown["content"]] == [f"is {HIDDEN}", HIDDEN]
    assert shown["content"][0]["logprobs"] == []


def test_pieces_are_shown_in_the_order_of_their_texts() -> None:
    keys = KeyFilter(Secret(KEYS[-1]))
    events = _answer("messages", ["s", "sk", "sk-", "k-", "-"])
    shown = _passed(events, keys)

    places = [event["output_index"] for event in shown if "output_index" in event]
    assert all(before <= after for before, after in pairwise(places))

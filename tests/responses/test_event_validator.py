"""Which events of a provider are passed on, and what is said of the others."""

from typing import Any

import pytest

from limpet.core import events as ev
from limpet.responses.event_validator import EventValidator

MESSAGE = {"type": "message", "id": "m", "content": []}
TEXT = {"type": "output_text", "text": ""}
ADDED = (ev.ITEM_ADDED, {"output_index": 0, "item": MESSAGE})
OPENED = (ev.PART_ADDED, {"output_index": 0, "content_index": 0, "part": TEXT})


def problem_of(*told: tuple[str, dict[str, Any]]) -> str | None:
    """What is wrong with the last one; those before it are right."""
    validator = EventValidator()
    *before, last = told
    assert [validator.problem(*each) for each in before] == [None] * len(before)
    return validator.problem(*last)


def delta(**fields: Any) -> tuple[str, dict[str, Any]]:
    return ev.TEXT_DELTA, {"output_index": 0, "content_index": 0, "delta": "x", **fields}


def item(**fields: Any) -> tuple[str, dict[str, Any]]:
    return ev.ITEM_ADDED, {"output_index": 0, "item": {"type": "message", "id": "m", **fields}}


RIGHT = {
    "a kind that says nothing of items": [("response.queued", {"response": 5})],
    "an unknown kind about an open item": [ADDED, ("response.new.delta", {"output_index": 0, "content_index": "x"})],
    "text with keys that nobody knows": [ADDED, OPENED, delta(logprobs=[], obfuscation="ab", new={})],
    "text that begins its part itself": [ADDED, delta(), delta(content_index=1), delta()],
    "an item that came with its parts": [item(content=[TEXT, TEXT]), delta(content_index=1)],
    "lists that are null or empty texts": [item(content=None, summary="")],
    "a summary beside the text": [ADDED, (ev.SUMMARY_DELTA, {"output_index": 0, "summary_index": 0, "delta": ""})],
    "arguments of another item, of any kind": [item(arguments={})],
    "an annotation of a part": [
        ADDED, OPENED,
        (ev.ANNOTATION_ADDED, {"output_index": 0, "content_index": 0, "annotation_index": 0, "annotation": {}}),
    ],
}  # fmt: skip
WRONG = {
    "no index": [ADDED, (ev.TEXT_DELTA, {"delta": "x"}), "cannot be read: Object missing required field `output_index`"],
    "an index that is true": [ADDED, delta(content_index=True), "Expected `int`, got `bool` - at `$.content_index`"],
    "a negative index": [("response.new", {"output_index": -1}), "Expected `int` >= 0 - at `$.output_index`"],
    "an index beyond every number": [ADDED, OPENED, delta(content_index=1 << 80), "a part that was not added"],
    "a delta that is null": [ADDED, delta(delta=None), "Expected `str`, got `null` - at `$.delta`"],
    "an item without an id": [(ev.ITEM_ADDED, {"output_index": 0, "item": {"type": "x"}}), "required field `id` - at `$.item`"],
    "content that is a text": [item(content="x"), "at `$.item.content`"],
    "content of texts": [item(content=["x"]), "Expected `object`, got `str` - at `$.item.content[0]`"],
    "arguments of a function that are none": [
        item(type="function_call", arguments={}), "the `arguments` of a function call must be a text - at `$.item`",
    ],
    "an item twice": [ADDED, ADDED, "the item 0 was added twice"],
    "an item that was closed": [ADDED, (ev.ITEM_DONE, ADDED[1]), delta(), "about an item that is not open"],
    "a part far away": [ADDED, OPENED, delta(content_index=2), "about a part that was not added"],
    "an annotation of a part to come": [
        ADDED,
        (ev.ANNOTATION_ADDED, {"output_index": 0, "content_index": 0, "annotation_index": 0, "annotation": {}}),
        "about a part that was not added",
    ],
    "annotations that are a number": [
        ADDED, (ev.PART_DONE, {**OPENED[1], "part": {**TEXT, "annotations": 5}}), "at `$.part.annotations`",
    ],
}  # fmt: skip


@pytest.mark.parametrize("told", RIGHT.values(), ids=RIGHT)
def test_what_can_be_told_passes(told: list[tuple[str, dict[str, Any]]]) -> None:
    assert problem_of(*told) is None


@pytest.mark.parametrize("told", WRONG.values(), ids=WRONG)
def test_what_cannot_be_told_is_named(told: list[Any]) -> None:
    *events, sentence = told
    assert sentence in str(problem_of(*events))

"""The tokens of a turn: what providers send is read, several turns are one sum."""

import pytest
from msgspec import to_builtins

from limpet.upstreams.usage import Usage


@pytest.mark.parametrize(
    "given, read",
    [
        (None, None),
        ({}, None),
        ("many", None),
        ({"input_tokens": 3, "output_tokens": 2}, Usage.counted(given=3, answered=2)),
        ({"input_tokens": 3.0, "output_tokens": None}, Usage.counted(given=3, answered=0)),
        ({"input_tokens": "3", "output_tokens": -1, "total_tokens": True}, Usage.counted(given=0, answered=0)),
        ({"input_tokens": float("nan"), "output_tokens": 1e300}, Usage.counted(given=0, answered=0)),
        (
            {"input_tokens": 3, "input_tokens_details": {"cached_tokens": 2, "other": 1}, "output_tokens_details": 5},
            Usage.counted(given=3, answered=0, cached=2),
        ),
    ],
)
def test_what_a_provider_sends_is_read_whatever_it_is(given: object, read: Usage | None) -> None:
    assert Usage.read(given) == read


def test_turns_are_added_and_every_key_is_there() -> None:
    first = Usage.counted(given=1, answered=2, cached=3, written=4, reasoning=5)
    second = Usage.counted(given=10, answered=20, cached=30, written=40, reasoning=50)

    assert list(to_builtins(first + second).items()) == [
        ("input_tokens", 11),
        ("output_tokens", 22),
        ("total_tokens", 33),
        ("input_tokens_details", {"cached_tokens": 33, "cache_write_tokens": 44}),
        ("output_tokens_details", {"reasoning_tokens": 55}),
    ]

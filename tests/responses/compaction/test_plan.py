"""Which items of a conversation go, by table: never a call without its output, never what must stay."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.responses.compaction.marker import ShellFacts, marker
from limpet.responses.compaction.plan import groups, planned

Json = dict[str, Any]


def of(letters: str) -> list[Json]:
    """u user, a assistant, s system, r reasoning, m marker; c and o are a call and its output, d and p another one's."""
    calls = {"c": ("function_call", "1"), "o": ("function_call_output", "1")}
    calls |= {"d": ("shell_call", "2"), "p": ("shell_call_output", "2")}
    roles = {"u": "user", "a": "assistant", "s": "system"}
    items: list[Json] = []
    for letter in letters:
        if letter in calls:
            items.append({"type": calls[letter][0], "call_id": calls[letter][1]})
        elif letter == "r":
            items.append({"type": "reasoning"})
        elif letter == "m":
            items.append(marker([], summary=None, facts=ShellFacts(), since_user=0, room=9))
        else:
            items.append({"type": "message", "role": roles[letter], "content": letter * 400})
    return items


@pytest.mark.parametrize(
    "letters, recent, stay",
    [
        ("uauau", 2, "au"),
        ("suauau", 0, "su"),
        ("uaucoa", 1, "ua"),
        ("uacoau", 3, "coau"),  # the output is among the newest, so its call stays too
        ("uacdopau", 3, "cdopau"),
        ("uarcoau", 3, "rcoau"),
        ("uauac", 0, "uc"),  # a call that waits for its output
        ("muaua", 1, "ua"),
        ("ucoucou", 0, "u"),
    ],
)
def test_what_stays(letters: str, recent: int, stay: str) -> None:
    plan = planned(of(letters), recent=recent, excess=None)
    assert plan is not None
    assert "".join(letter for index, letter in enumerate(letters) if index not in plan.dropped) == stay


@pytest.mark.parametrize("letters", ["", "u", "su", "m", "msu", "ua"])
def test_where_nothing_may_go_there_is_no_plan(letters: str) -> None:
    assert planned(of(letters), recent=2, excess=None) is None


def test_no_more_goes_than_must() -> None:
    plan = planned(of("uauau"), recent=1, excess=150)
    assert plan is not None
    assert plan.dropped == (0, 1)


@given(st.text("uasrcodpm", max_size=24), st.integers(0, 8), st.none() | st.integers(0, 900))
def test_calls_and_outputs_go_together(letters: str, recent: int, excess: int | None) -> None:
    items = of(letters)
    plan = planned(items, recent=recent, excess=excess)
    assert [index for group in groups(items) for index in group] == list(range(len(items)))
    if plan is None:
        return
    gone = set(plan.dropped)
    before, after = plan.around(items)
    assert before + after == [item for index, item in enumerate(items) if index not in gone]
    for call, output in ("co", "dp"):
        first, last = letters.find(call), letters.rfind(output)
        if 0 <= first < last:
            assert (first in gone) == (last in gone)
    assert not any(letters[index] == "s" for index in gone)
    assert not any(index >= len(items) - recent and letters[index] != "m" for index in gone)

"""Holds the manifest and the tests to each other, in both directions."""

import re

import pytest

from tests.wire.manifest import MANIFEST, SEED_LINES, SILENT_LINES
from tests.wire.manifest.progress import EARLY, NOT_YET_PROVED, is_held
from tests.wire.marks import Mark, marks_in, marks_under
from tests.wire.problems import demand

BY_ID = {promise.id: promise for promise in MANIFEST}
MARKS = marks_under()
PROVED = {mark.id for mark in MARKS if mark.test and mark.proves}


def test_every_id_is_readable_and_stands_once() -> None:
    ids = [promise.id for promise in MANIFEST]
    problems = [f"{name}: stands {ids.count(name)} times" for name in BY_ID if ids.count(name) > 1]
    problems += [f"{name}: is not kebab-case" for name in ids if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)]
    demand(problems, "ids")


def test_every_promise_has_one_sentence_and_a_source() -> None:
    problems = [f"{p.id}: says nothing that ends" for p in MANIFEST if not re.fullmatch(r"[A-Z`].{15,}\.", p.says)]
    problems += [f"{p.id}: has no source" for p in MANIFEST if not (p.lines or p.faults or p.decided)]
    problems += [f"{p.id}: a fault's id begins with hadrian-" for p in MANIFEST if p.faults and p.id[:8] != "hadrian-"]
    demand(problems, "promises")


def test_every_line_of_the_seed_is_promised_or_silent() -> None:
    promised = {line for promise in MANIFEST for line in promise.lines}
    assert promised | SILENT_LINES == set(range(1, SEED_LINES + 1))
    assert promised & SILENT_LINES == set()


def test_every_fault_of_the_described_server_is_a_promise() -> None:
    counts = {"1": range(21), "24": range(27), "27": range(1, 33)}
    known = {f"{chapter}.{row}" for chapter, rows in counts.items() for row in rows}
    assert {fault for promise in MANIFEST for fault in promise.faults} == known


def test_every_mark_names_a_promise_and_sits_on_a_test() -> None:
    problems = [f"{mark.place}: {mark.id!r} is not in the manifest" for mark in MARKS if mark.id not in BY_ID]
    problems += [f"{mark.place}: {mark.id!r} is on nothing that pytest runs" for mark in MARKS if not mark.test]
    demand(problems, "marks")


def test_no_mark_sits_on_a_test_that_is_given_up() -> None:
    demand([f"{mark.place}: {mark.id} on a skip or xfail" for mark in MARKS if mark.test and not mark.proves], "marks")


def test_every_held_promise_has_a_test() -> None:
    missing = [p.id for p in MANIFEST if is_held(p) and p.id not in PROVED | NOT_YET_PROVED]
    demand([f"{name}: no test carries it" for name in missing], "held promises")


def test_a_promise_that_has_a_test_is_not_listed_as_unproved() -> None:
    demand([f"{name}: proved, take it out of NOT_YET_PROVED" for name in sorted(NOT_YET_PROVED & PROVED)], "progress")


def test_no_test_carries_an_open_promise() -> None:
    early = [mark for mark in MARKS if mark.id in BY_ID and not is_held(BY_ID[mark.id])]
    demand([f"{mark.place}: {mark.id} is open, add it to EARLY" for mark in early], "open promises")


def test_progress_names_only_promises_that_it_can_speak_of() -> None:
    problems = [f"{name}: is not in the manifest" for name in sorted((NOT_YET_PROVED | EARLY) - BY_ID.keys())]
    problems += [
        f"{name}: is open anyway" for name in sorted(NOT_YET_PROVED) if name in BY_ID and not is_held(BY_ID[name])
    ]
    problems += [f"{name}: kept early, so it needs its test at once" for name in sorted(EARLY & NOT_YET_PROVED)]
    demand(problems, "progress")


SOURCE = """
import pytest
pytestmark = pytest.mark.promise("of-all")

@pytest.mark.promise("one", "two")
def test_a(): ...

@pytest.mark.anyio
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.promise("three"))])
async def test_b(x): ...

@pytest.mark.promise("four")
class TestC:
    def test_d(self): ...
    def helper(self): ...

@pytest.mark.xfail
@pytest.mark.promise("five")
def test_e(): ...

@pytest.mark.promise("six")
def not_a_test(): ...

@pytest.mark.promise(NAME)
def test_f(): ...
"""


@pytest.mark.parametrize(
    "test, ids",
    [
        ("test_a", ["of-all", "one", "two"]),
        ("test_b", ["of-all", "three"]),
        ("TestC::test_d", ["of-all", "four"]),
        ("test_e", ["of-all", "five"]),
        ("test_f", ["of-all", ""]),
    ],
)
def test_marks_are_found_wherever_pytest_takes_them(test: str, ids: list[str]) -> None:
    marks = marks_in(SOURCE, "tests/test_x.py")
    assert [mark.id for mark in marks if mark.test == f"tests/test_x.py::{test}"] == ids


def test_a_mark_on_no_test_and_a_mark_on_a_given_up_test_prove_nothing() -> None:
    marks = marks_in(SOURCE, "tests/test_x.py")
    assert [mark for mark in marks if not mark.test] == [
        Mark(id="six", test="", place="tests/test_x.py:21", proves=False)
    ]
    assert {mark.id for mark in marks if mark.test and not mark.proves} == {"of-all", "five"}
    assert not any(mark.test for mark in marks_in(SOURCE, "tests/support.py"))

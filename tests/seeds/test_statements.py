"""Holds the statements of seeds 01 to 03 and the tests to each other, in both directions."""

import re

import pytest

from tests.seeds.bash_tool import BASH_TOOL
from tests.seeds.progress import NOT_YET_PROVED
from tests.seeds.shell_cmd import SHELL_CMD
from tests.seeds.shell_module import SHELL_MODULE
from tests.seeds.statement import Seed
from tests.wire.marks import marks_under
from tests.wire.problems import demand

SEEDS = (SHELL_MODULE, BASH_TOOL, SHELL_CMD)
STATEMENTS = tuple(statement for seed in SEEDS for statement in seed.statements)
MARKS = marks_under(name="statement")
PROVED = {mark.id for mark in MARKS if mark.test and mark.proves}


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_every_line_is_stated_or_silent(seed: Seed) -> None:
    stated = {line for statement in seed.statements for line in statement.lines}
    assert stated | seed.silent == set(range(1, seed.lines + 1))
    assert stated & seed.silent == set()


def test_every_id_stands_once_and_every_statement_is_a_sentence() -> None:
    ids = [statement.id for statement in STATEMENTS]
    problems = [f"{name}: stands {ids.count(name)} times" for name in sorted(set(ids)) if ids.count(name) > 1]
    problems += [f"{s.id}: is not readable" for s in STATEMENTS if not re.fullmatch(r"s[123](-[a-z0-9]+)+", s.id)]
    problems += [f"{s.id}: says nothing that ends" for s in STATEMENTS if not re.fullmatch(r"[A-Z`].{15,}\.", s.says)]
    demand(problems, "statements")


def test_every_statement_has_a_test() -> None:
    missing = [s.id for s in STATEMENTS if s.id not in PROVED | NOT_YET_PROVED]
    demand([f"{name}: no test carries it" for name in missing], "statements")


def test_what_waits_for_its_test_is_a_statement_without_one() -> None:
    known = {statement.id for statement in STATEMENTS}
    problems = [f"{name}: is no statement" for name in sorted(NOT_YET_PROVED - known)]
    problems += [f"{name}: proved, take it out of NOT_YET_PROVED" for name in sorted(NOT_YET_PROVED & PROVED)]
    demand(problems, "progress")


def test_every_mark_names_a_statement_and_sits_on_a_test() -> None:
    known = {statement.id for statement in STATEMENTS}
    problems = [f"{mark.place}: {mark.id!r} is no statement" for mark in MARKS if mark.id not in known]
    problems += [f"{mark.place}: {mark.id!r} is on nothing that pytest runs" for mark in MARKS if not mark.test]
    problems += [f"{mark.place}: {mark.id} on a skip or xfail" for mark in MARKS if mark.test and not mark.proves]
    demand(problems, "marks")

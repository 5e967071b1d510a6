"""What the guard allows of generated commands does not run the forbidden program, and the fuzzer would notice if it did."""

import random

import pytest

from limpet.core.command import Command, Script
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.verdict import Allowed
from tests.guard.bypasses_of_parts import OF_PARTS
from tests.guard.fuzz.allowed import ALLOWED
from tests.guard.fuzz.box import opened_box, why_there_are_no_boxes
from tests.guard.fuzz.everyday import EVERYDAY, TOOLS
from tests.guard.fuzz.expand import Source
from tests.guard.fuzz.grammars.all import GRAMMARS
from tests.guard.fuzz.run import WITHOUT_DOUBTS, fuzz, guard, weakened
from tests.guard.fuzz.weak import WEAK

SEED = 20_261_121
COUNT = 100
ENOUGH = 0.05  # so many of a grammar's scripts must be allowed, or nothing is shown by it
BITES_WITHIN = 400  # scripts of each grammar

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(why_there_are_no_boxes()), reason=why_there_are_no_boxes() or "boxes are there"),
]
each_grammar = pytest.mark.parametrize("grammar", GRAMMARS.values(), ids=GRAMMARS.keys())


@each_grammar
async def test_nothing_that_the_guard_allows_runs_the_forbidden_program(parser: Parser, grammar: Source) -> None:
    report = await fuzz([grammar], seed=SEED, count=COUNT, asks=guard(parser))

    assert report.escapes == []
    assert report.generated.total() == COUNT
    assert report.allowed_share() >= ENOUGH


@each_grammar
async def test_each_grammar_finds_out_a_judge_of_first_words(grammar: Source) -> None:
    asks = weakened("first-token", WEAK["first-token"])

    report = await fuzz([grammar], seed=SEED, count=BITES_WITHIN, asks=asks, stops_at=1, batch=20)

    assert report.escapes


@each_grammar
async def test_each_grammar_finds_out_the_guard_without_its_doubts(parser: Parser, grammar: Source) -> None:
    asks = guard(parser, WITHOUT_DOUBTS)

    report = await fuzz([grammar], seed=SEED, count=BITES_WITHIN, asks=asks, stops_at=1, batch=20)

    assert report.escapes


@pytest.mark.parametrize("weak", WEAK)
async def test_a_judge_that_is_too_weak_is_found_out(weak: str) -> None:
    asks = weakened(weak, WEAK[weak])

    report = await fuzz(GRAMMARS.values(), seed=SEED, count=BITES_WITHIN, asks=asks, stops_at=1, batch=20)

    assert report.escapes


async def test_four_fifths_of_what_people_type_every_day_pass(parser: Parser) -> None:
    judge = Judge(Policy(allowed_commands=TOOLS), parser=parser)

    passed = [text for text in EVERYDAY if await judge.judge(Command(what=Script(text))) == Allowed()]

    assert len(EVERYDAY) >= 150
    assert len(passed) >= 0.8 * len(EVERYDAY)


@each_grammar
async def test_the_same_seed_gives_the_same_scripts(grammar: Source) -> None:
    first, second = [[grammar.script(chance) for _ in range(50)] for chance in (random.Random(3), random.Random(3))]

    assert first == second


@pytest.mark.parametrize(
    "script", ["rm x", "/bin/rm x", "env -i /usr/bin/rm", "(sleep 0.01; rm x) & exit", "busybox rm x"]
)
async def test_the_box_sees_the_forbidden_program_run(script: str) -> None:
    async with opened_box() as box:
        deeds = await box.run([script, "echo rm x"])

    assert [deed.ran for deed in deeds] == [True, False]


async def test_what_the_guard_refuses_for_each_of_its_parts_does_run_the_forbidden_program() -> None:
    async with opened_box() as box:
        deeds = await box.run(OF_PARTS)

    # One that was cut off on a busy machine shows nothing.
    assert [text for text, deed in zip(OF_PARTS, deeds, strict=True) if not (deed.ran or deed.late)] == []


async def test_the_forbidden_program_is_not_among_the_allowed() -> None:
    assert "rm" not in ALLOWED

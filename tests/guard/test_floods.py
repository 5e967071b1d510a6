"""The same name of a secret again and again: what is hidden is what trying each of them would hide, and few of them are tried."""

import random
from dataclasses import dataclass

import pytest

from limpet.guard.redaction.anchored_match import AnchoredMatcher, Match
from limpet.guard.redaction.floods import Flood, LabelledValues
from limpet.guard.redaction.redactor import Redaction, Redactor
from limpet.guard.redaction.token_shapes import TOKEN_SHAPES

_RULES = [AnchoredMatcher(rule) for rule in TOKEN_SHAPES if "password" in rule.heads or "secret_key" in rule.heads]
_WORDS = (
    b"password", b"password", b"password", b"=", b"=", b"=", b": ", b" = ", b"'", b'"', b"\\",
    b"&", b"&quot;", b"a1b2c3d4", b"x" * 40, b"y9" * 300,
    b"<", b">", b"\n", b" ", b"$", b"(", b"s3cr3t!", b",", b"/", b"q" * 500, b"1" * 505,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int


class Trial:
    """What each place of `password` hides in some bytes, how often it was asked, and all that came out of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.places = [(at, at + 8) for at in range(len(data)) if data[at : at + 8] == b"password"]
        self.asked = 0
        self.hidden: set[int] = set()

    def tries(self, at: int, body: int) -> list[Span]:
        self.asked += 1
        found = [rule.at(self.data, at, body, is_whole=True) for rule in _RULES]
        spans = [Span(one.start, one.end) for one in found if isinstance(one, Match)]
        for span in spans:
            self.hidden |= set(range(span.start, span.end))
        return spans


def _flooded(data: bytes) -> Trial:
    values = LabelledValues.of(_RULES)
    assert values is not None
    trial = Trial(data)
    flood = Flood(values, data, trial.tries)
    for at, body in trial.places:
        flood.meets(at, body)
    flood.catch_up()
    return trial


@pytest.mark.parametrize("seed", range(60))
def test_what_is_hidden_is_what_each_of_them_would_hide(seed: int) -> None:
    chance = random.Random(seed)
    pool = [b"password", b"=", *chance.sample(_WORDS, chance.randint(2, 8))]
    data = b"".join(chance.choice(pool) for _ in range(chance.randint(5, 300)))
    each = Trial(data)
    for at, body in each.places:
        each.tries(at, body)

    assert _flooded(data).hidden == each.hidden


@pytest.mark.parametrize("piece", [b"password=", b"password=a1", b"password=hunter2."])
def test_of_many_few_are_tried(piece: bytes) -> None:
    trial = _flooded(piece * 10_000)

    assert trial.asked < len(trial.places) / 10


def test_a_rule_that_hides_its_own_name_takes_part_in_none() -> None:
    assert LabelledValues.of([AnchoredMatcher(rule) for rule in TOKEN_SHAPES if "eyJ" in rule.heads]) is None
    assert LabelledValues.of([]) is None


def test_a_flood_is_hidden_in_one_piece() -> None:
    assert Redactor(Redaction()).bytes(b"password=" * 5_000 + b"\nopen") == b"password=[REDACTED:assignment]\nopen"

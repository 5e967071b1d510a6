"""What one statement of the seeds of the library consists of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that the library promises, in one sentence, as the design decided it.

    `lines` are lines of the seed document, counted from 1; `decided` names the decision that settled it where the project says more
    than the seed, or something else. The tests that prove a statement carry its id (`@pytest.mark.statement`).
    """

    id: str
    says: str
    lines: tuple[int, ...]
    decided: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A seed document: how many lines it has, what it states, and which lines state nothing (headings, blanks, pointers)."""

    name: str
    lines: int
    statements: tuple[Statement, ...]
    silent: frozenset[int]

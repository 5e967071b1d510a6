"""What a run may use up, and when it has: of model turns, tokens and time, for itself, its conversation and its tenant. Pure.

A limit is held twice. The model turn that may be the last is known before it is asked: the model is told, and has no tool to run any more.
And where a limit is reached all the same, in the middle of a turn or of a command, the run ends there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeVar

import msgspec

from limpet.core.resources import WireObject
from limpet.responses.settings import BudgetLimits
from limpet.upstreams.usage import Usage

Scope = Literal["response", "conversation", "tenant"]
LIMITS = tuple(field.name for field in fields(BudgetLimits))
LAST_WORDS = 30.0  # seconds at most that are kept for the last turn of a run whose time is bounded
LAST_SHARE = 0.2  # of that time
LEAST_OUTPUT = 16  # tokens: providers take no smaller bound
N = TypeVar("N", int, float)
_UNITS = {"max_tokens": "tokens", "max_turns": "model turns", "max_wall_secs": "seconds"}


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` of all turns, in and out; `wall_secs` while the run was carried."""

    tokens: int = 0
    turns: int = 0
    wall_secs: float = 0.0

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            tokens=self.tokens + other.tokens,
            turns=self.turns + other.turns,
            wall_secs=self.wall_secs + other.wall_secs,
        )

    def of(self, limit: str) -> float:
        """What counts for a limit, by its name."""
        return {"max_tokens": self.tokens, "max_turns": self.turns, "max_wall_secs": self.wall_secs}[limit]


class BudgetStop(WireObject, frozen=True, kw_only=True):
    """Why a run ends: a limit of one scope."""

    scope: Scope
    limit: str
    value: float

    @property
    def sentence(self) -> str:
        return f"The {self.scope} may use {self.value:g} {_UNITS[self.limit]} ({self.limit})."

    @property
    def note(self) -> str:
        """What the model is told before its last turn."""
        return (
            f"{self.sentence} This is used up with your answer now, and no tool runs any more. "
            "Say what is done, what you found, and what is left to do."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedBudget:
    """The limits of one scope; `before` is what it has used up beside the run itself."""

    scope: Scope
    limits: BudgetLimits
    before: Callable[[], Spending] = Spending


@dataclass(frozen=True, slots=True)
class Budget:
    """All that holds for one run. `own` is always what the run itself has used up until now."""

    scopes: Sequence[ScopedBudget] = ()

    def exhausted(self, own: Spending) -> BudgetStop | None:
        """The first limit that is reached: no turn may be asked any more."""
        for each in self.scopes:
            spent = each.before() + own
            for limit, value in _limits(each.limits):
                if spent.of(limit) >= value:
                    return BudgetStop(scope=each.scope, limit=limit, value=value)
        return None

    def last_turn(self, own: Spending, newest: Usage | None) -> BudgetStop | None:
        """The limit for which the next turn must be the last; `newest` is the usage of the turn before it. A turn costs what that one
        did at least, since its input goes on growing."""
        turn = Spending(tokens=0 if newest is None else newest.total_tokens, turns=1)
        for each in self.scopes:
            after = each.before() + own + turn
            for limit, value in _limits(each.limits):
                reserve = _last_words(value) if limit == "max_wall_secs" else turn.of(limit)
                if after.of(limit) + reserve > value:
                    return BudgetStop(scope=each.scope, limit=limit, value=value)
        return None

    def output_tokens(self, own: Spending, newest: Usage | None) -> tuple[int, BudgetStop] | None:
        """The most tokens that the next turn may answer with, and the limit that says so."""
        least: tuple[int, BudgetStop] | None = None
        for each in self.scopes:
            if each.limits.max_tokens is None:
                continue
            left = (
                each.limits.max_tokens - (each.before() + own).tokens - (0 if newest is None else newest.total_tokens)
            )
            if least is None or left < least[0]:
                stop = BudgetStop(scope=each.scope, limit="max_tokens", value=each.limits.max_tokens)
                least = max(left, LEAST_OUTPUT), stop
        return least

    def seconds(self, own: Spending) -> tuple[float, BudgetStop] | None:
        """How long the run may go on, and the limit that says so."""
        bounded = [
            (
                each.limits.max_wall_secs - (each.before() + own).wall_secs,
                BudgetStop(scope=each.scope, limit="max_wall_secs", value=each.limits.max_wall_secs),
            )
            for each in self.scopes
            if each.limits.max_wall_secs is not None
        ]
        return min(bounded, key=lambda each: each[0], default=None)

    def command_seconds(self, own: Spending) -> float | None:
        """How long a command may run, so that the model can still say a last word."""
        bounded = self.seconds(own)
        return None if bounded is None else max(0.0, bounded[0] - _last_words(bounded[1].value))


def narrowed(operators: BudgetLimits, asked: BudgetLimits | None) -> BudgetLimits:
    """The operator's limits, and where a request asks for less that."""
    if asked is None:
        return operators
    return BudgetLimits(
        max_tokens=_least(operators.max_tokens, asked.max_tokens),
        max_turns=_least(operators.max_turns, asked.max_turns),
        max_wall_secs=_least(operators.max_wall_secs, asked.max_wall_secs),
    )


def _least(one: N | None, other: N | None) -> N | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _limits(limits: BudgetLimits) -> list[tuple[str, float]]:
    return [(name, value) for name in LIMITS if (value := getattr(limits, name)) is not None]


def _last_words(seconds: float) -> float:
    return min(LAST_WORDS, LAST_SHARE * seconds)

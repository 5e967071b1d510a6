"""Which turn must be the last, and when nothing is left."""

import pytest

from limpet.responses.budgets import Budget, BudgetStop, ScopedBudget, Spending, narrowed
from limpet.responses.settings import BudgetLimits
from limpet.upstreams.usage import Usage


def budget(scope: str = "response", *, before: Spending | None = None, **limits: float) -> Budget:
    used = before or Spending()
    return Budget([ScopedBudget(scope=scope, limits=BudgetLimits(**limits), before=lambda: used)])


def turn(tokens: int) -> Usage:
    return Usage.counted(given=tokens - 1, answered=1)


@pytest.mark.parametrize(
    "limits, own, newest, last",
    [
        ({"max_turns": 3}, Spending(turns=1), None, None),
        ({"max_turns": 3}, Spending(turns=2), None, "max_turns"),
        ({"max_turns": 1}, Spending(), None, "max_turns"),
        ({"max_tokens": 100}, Spending(), None, None),  # nothing is known of what a turn costs
        ({"max_tokens": 100}, Spending(tokens=40), turn(30), None),
        ({"max_tokens": 100}, Spending(tokens=41), turn(30), "max_tokens"),
        ({"max_wall_secs": 10.0}, Spending(wall_secs=8.0), None, None),
        ({"max_wall_secs": 10.0}, Spending(wall_secs=8.1), None, "max_wall_secs"),
        ({"max_wall_secs": 3600.0}, Spending(wall_secs=3569.0), None, None),
        ({"max_wall_secs": 3600.0}, Spending(wall_secs=3571.0), None, "max_wall_secs"),
        ({}, Spending(tokens=10**9, turns=10**6, wall_secs=1e9), turn(10**6), None),
    ],
)
def test_the_last_turn_is_known_before_it_is_asked(
    limits: dict[str, float], own: Spending, newest: Usage | None, last: str | None
) -> None:
    stop = budget(**limits).last_turn(own, newest)
    assert (stop.limit if stop else None) == last
    if stop is not None:
        assert stop.limit in stop.note
        assert "no tool" in stop.note


def test_what_others_have_used_up_counts_for_the_scope() -> None:
    held = budget("conversation", before=Spending(tokens=90, turns=4, wall_secs=5.0), max_tokens=100)
    assert held.exhausted(Spending(tokens=9)) is None
    assert held.exhausted(Spending(tokens=10)) == BudgetStop(scope="conversation", limit="max_tokens", value=100)
    assert held.output_tokens(Spending(), turn(5)) == (
        16,
        BudgetStop(scope="conversation", limit="max_tokens", value=100),
    )


def test_commands_leave_time_for_a_last_word() -> None:
    held = budget(max_wall_secs=100.0)
    assert held.command_seconds(Spending(wall_secs=50.0)) == 30.0
    assert held.command_seconds(Spending(wall_secs=90.0)) == 0.0
    assert budget().command_seconds(Spending(wall_secs=90.0)) is None


def test_a_request_can_only_narrow_what_the_operator_gives() -> None:
    operators = BudgetLimits(max_tokens=100, max_turns=5)
    asked = BudgetLimits(max_tokens=1000, max_turns=2, max_wall_secs=60.0)
    assert narrowed(operators, asked) == BudgetLimits(max_tokens=100, max_turns=2, max_wall_secs=60.0)
    assert narrowed(operators, None) == operators

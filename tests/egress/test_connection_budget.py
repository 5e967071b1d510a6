"""The connections of all boxes are bounded together, and no tenant's boxes get them all."""

from limpet.egress.connection_budget import ALWAYS, ConnectionBudget


def taken_by(budget: ConnectionBudget, holder: str) -> int:
    count = 0
    while budget.take(holder):
        count += 1
    return count


def test_a_tenant_leaves_the_others_their_share_and_all_together_are_bounded() -> None:
    budget = ConnectionBudget(most=1000)
    assert [taken_by(budget, holder) for holder in "abcd"] == [500, 250, ALWAYS, 1000 - 750 - ALWAYS]
    assert taken_by(budget, "e") == 0


def test_what_is_given_back_can_be_had_again() -> None:
    budget = ConnectionBudget(most=300)
    count = taken_by(budget, "a")
    for _ in range(count):
        budget.give_back("a")
    assert taken_by(budget, "b") == count == 150

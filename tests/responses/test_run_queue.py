"""Who gets the next place: foreground before background, tenants in turn, each within its bound."""

import pytest

from limpet.responses.run_queue import QueueFull, QueueTicket, Rank, RunQueue
from limpet.responses.settings import ResponseSettings


def queue(**settings: int) -> RunQueue:
    return RunQueue(ResponseSettings(**settings))


def order_of(queue: RunQueue, tickets: dict[str, QueueTicket]) -> list[str]:
    """The names in which they are admitted, one place after the other."""
    order: list[str] = []
    while len(order) < len(tickets):
        new = [name for name, ticket in tickets.items() if ticket.is_admitted and name not in order]
        order += new
        for name in new:
            queue.leave(tickets[name])
    return order


def test_without_bounds_nobody_waits() -> None:
    free = queue()
    assert all(free.enter("a", Rank.PATIENT).is_admitted for _ in range(100))
    assert free.waiting == 0


def test_ranks_go_before_ages() -> None:
    one = queue(max_running=1)
    ranks = {"first": Rank.BACKGROUND, "patient": Rank.PATIENT, "back": Rank.BACKGROUND, "front": Rank.FOREGROUND}
    tickets = {name: one.enter("a", rank) for name, rank in ranks.items()}
    assert order_of(one, tickets) == ["first", "front", "back", "patient"]


def test_tenants_take_turns_however_many_of_one_wait() -> None:
    one = queue(max_running=1)
    tickets = {f"{tenant}{number}": one.enter(tenant, Rank.BACKGROUND) for tenant, number in _many("a", 4)}
    tickets |= {f"{tenant}{number}": one.enter(tenant, Rank.BACKGROUND) for tenant, number in _many("b", 2)}
    tickets |= {"c0": one.enter("c", Rank.BACKGROUND)}
    assert order_of(one, tickets) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def _many(tenant: str, count: int) -> list[tuple[str, int]]:
    return [(tenant, number) for number in range(count)]


def test_who_has_fewest_runs_goes_first() -> None:
    three = queue(max_running=3)
    a, other_a, b = (three.enter(tenant, Rank.FOREGROUND) for tenant in "aab")
    third_of_a, second_of_b = (three.enter(tenant, Rank.FOREGROUND) for tenant in "ab")
    three.leave(b)
    assert (third_of_a.is_admitted, second_of_b.is_admitted) == (False, True)
    three.leave(a)
    three.leave(other_a)
    assert third_of_a.is_admitted


def test_a_tenant_at_its_bound_keeps_nobody_else_waiting() -> None:
    bounded = queue(max_running=10, max_running_per_tenant=1)
    first, second = (bounded.enter("a", Rank.FOREGROUND) for _ in range(2))
    other = bounded.enter("b", Rank.PATIENT)
    assert (first.is_admitted, second.is_admitted, other.is_admitted) == (True, False, True)
    bounded.leave(first)
    assert second.is_admitted


def test_the_line_of_a_tenant_is_bounded_and_who_was_refused_leaves_nothing() -> None:
    bounded = queue(max_running=1, max_queued_per_tenant=1)
    running, waits = (bounded.enter("a", Rank.BACKGROUND) for _ in range(2))
    with pytest.raises(QueueFull):
        bounded.enter("a", Rank.FOREGROUND)
    resumed = bounded.enter("a", Rank.FOREGROUND, is_bounded=False)  # a run that had begun is never refused
    bounded.leave(resumed)
    bounded.leave(running)
    assert waits.is_admitted
    assert bounded.waiting == 0


def test_one_that_stops_waiting_makes_no_room_and_takes_none() -> None:
    one = queue(max_running=1)
    running, gone, waits = (one.enter("a", Rank.BACKGROUND) for _ in range(3))
    one.leave(gone)
    assert not waits.is_admitted
    one.leave(running)
    assert (gone.is_admitted, waits.is_admitted) == (False, True)

"""A box opens connections at once until it has opened many, and then evenly."""

from limpet.egress.pace import BURST, EVERY, ConnectionPace


def test_a_burst_is_not_held_up_and_a_flood_is() -> None:
    now = 100.0
    pace = ConnectionPace(clock=lambda: now)
    assert {pace.delay() for _ in range(BURST)} == {0.0}
    for _ in range(1000):
        now += pace.delay()
    assert abs(now - 100.0 - 1000 * EVERY) < 2 * EVERY


def test_what_is_not_used_is_saved_up_to_the_burst() -> None:
    now = 100.0
    pace = ConnectionPace(clock=lambda: now)
    for _ in range(2 * BURST):
        now += pace.delay()
    now += 3600
    assert {pace.delay() for _ in range(BURST)} == {0.0}
    assert pace.delay() > 0

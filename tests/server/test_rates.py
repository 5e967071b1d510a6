"""How often a key may ask, and how long a guesser waits, under a clock that the test turns."""

from limpet.server.rates import FORGIVEN_SECONDS, MOST_DELAY, Failures, RateExceeded, Rates


class Turned:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> int:
        return int(self.seconds * 1_000_000)

    def monotonic(self) -> float:
        return self.seconds


def test_a_minutes_worth_may_come_at_once_and_fills_evenly() -> None:
    clock = Turned()
    rates = Rates(clock)
    assert [rates.begin("key", per_minute=3, concurrent=None) for _ in range(3)] == [None] * 3
    assert rates.begin("key", per_minute=3, concurrent=None) == RateExceeded(limit=3, seconds=20.0)
    clock.seconds += 20
    assert rates.begin("key", per_minute=3, concurrent=None) is None
    assert rates.begin("key", per_minute=3, concurrent=None) is not None
    clock.seconds += 3600
    assert [rates.begin("key", per_minute=3, concurrent=None) for _ in range(4)][3] is not None


def test_open_requests_are_counted_until_they_end() -> None:
    rates = Rates(Turned())
    assert [rates.begin("key", per_minute=None, concurrent=2) for _ in range(3)] == [
        None,
        None,
        RateExceeded(limit=2, seconds=None),
    ]
    rates.end("key")
    assert rates.begin("key", per_minute=None, concurrent=2) is None


def test_keys_do_not_share_their_limits() -> None:
    rates = Rates(Turned())
    assert rates.begin("one", per_minute=1, concurrent=1) is None
    assert rates.begin("other", per_minute=1, concurrent=1) is None


def test_a_refused_request_takes_nothing() -> None:
    clock = Turned()
    rates = Rates(clock)
    rates.begin("key", per_minute=2, concurrent=1)
    assert rates.begin("key", per_minute=2, concurrent=1) == RateExceeded(limit=1, seconds=None)
    rates.end("key")
    assert rates.begin("key", per_minute=2, concurrent=1) is None


def test_each_wrong_key_in_a_row_is_answered_later_up_to_a_bound() -> None:
    failures = Failures(Turned())
    delays = [failures.count("192.0.2.1") for _ in range(40)]
    assert delays[:4] == [0.05, 0.1, 0.2, 0.4]
    assert set(delays[7:]) == {MOST_DELAY}
    assert failures.count("192.0.2.2") == 0.05


def test_wrong_keys_are_forgiven_after_a_while() -> None:
    clock = Turned()
    failures = Failures(clock)
    for _ in range(10):
        failures.count("192.0.2.1")
    clock.seconds += FORGIVEN_SECONDS + 1
    assert failures.count("192.0.2.1") == 0.05


def test_only_so_many_addresses_are_remembered() -> None:
    failures = Failures(Turned())
    failures.count("first")
    for number in range(10_000):
        failures.count(str(number))
    assert failures.count("first") == 0.05

from email.utils import formatdate

import pytest

from limpet.upstreams.retries import RetryBudget

NOW = 1_800_000_000.0
RETRIES = RetryBudget()


@pytest.mark.parametrize(
    "status, headers, wait",
    [
        (400, {}, None),
        (404, {"retry-after": "1"}, None),
        (429, {"retry-after": "7"}, 7.0),
        (503, {"retry-after": "0"}, 0.0),
        (429, {"retry-after": "30"}, 30.0),
        (429, {"retry-after": "31"}, None),
        (429, {"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        (529, {"retry-after": formatdate(NOW + 12, usegmt=True)}, 12.0),
        (429, {"retry-after": formatdate(NOW - 12, usegmt=True)}, 0.0),
    ],
)
def test_a_provider_that_says_when_is_believed(status: int, headers: dict[str, str], wait: float | None) -> None:
    assert RETRIES.wait_after_status(0, status, headers, now=NOW) == wait


@pytest.mark.parametrize("headers", [{}, {"retry-after": "soon"}])
def test_otherwise_the_wait_doubles_with_half_of_it_left_to_chance(headers: dict[str, str]) -> None:
    for attempt, longest in enumerate((0.5, 1.0, 2.0)):
        waits = [RETRIES.wait_after_status(attempt, 500, headers, now=NOW) for _ in range(50)]
        assert all(wait is not None and longest / 2 <= wait <= longest for wait in waits)
        assert len(set(waits)) > 1


def test_after_three_more_attempts_it_is_given_up() -> None:
    assert RETRIES.wait_after_failure(2) is not None
    assert RETRIES.wait_after_failure(3) is None
    assert RETRIES.wait_after_status(3, 429, {"retry-after": "0"}, now=NOW) is None

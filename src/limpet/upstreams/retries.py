"""Whether and when to ask a provider again. Decides; `client` waits and asks."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500
MOST_SECONDS = 365 * 24 * 3600.0  # that a provider can ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """How often and how patiently. `first_wait` is in seconds and doubles; half of it is left to chance. No attempt begins later than
    `budget` seconds after the first one failed: a provider that wants more time is not asked again."""

    most: int = 3
    first_wait: float = 0.5
    budget: float = 30.0

    def wait_after_status(
        self, attempt: int, status: int, headers: Mapping[str, str], *, now: float, spent: float = 0.0
    ) -> float | None:
        """Seconds to wait before the next attempt, None to give up. `attempt` counts from 0; `now` is seconds since 1970, `spent`
        seconds since the first failure."""
        if status != TOO_MANY_REQUESTS and status < SERVER_ERROR:
            return None
        told = told_wait(headers, now=now)
        if told is None:
            return self.wait_after_failure(attempt, spent=spent)
        if attempt >= self.most or told > self.budget - spent:
            return None
        return told

    def wait_after_failure(self, attempt: int, *, spent: float = 0.0) -> float | None:
        """The same after a connection that failed before the first byte."""
        if attempt >= self.most:
            return None
        # Half of the wait is chance, so that many clients don't come back at once.
        wait = float(self.first_wait * 2**attempt * random.uniform(0.5, 1.0))
        return wait if wait <= self.budget - spent else None


def told_wait(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds of `retry-after-ms` or `Retry-After` (a number or a date), None where they say nothing readable."""
    for name, unit in (("retry-after-ms", 1_000.0), ("retry-after", 1.0)):
        try:
            wait = float(headers[name]) / unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(wait):
            return min(max(0.0, wait), MOST_SECONDS)
    try:
        date = parsedate_to_datetime(headers["retry-after"])
        return min(max(0.0, date.timestamp() - now), MOST_SECONDS)
    except (KeyError, ValueError, OverflowError):
        return None

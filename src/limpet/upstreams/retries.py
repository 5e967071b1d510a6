"""Whether and when to ask a provider again. Decides; who waits is elsewhere."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often and how patiently. `first_wait` is in seconds and doubles; half of it is left to chance. A provider that says when to
    come again is believed up to `longest_wait` seconds; beyond that it is not asked again."""

    most: int = 3
    first_wait: float = 0.5
    longest_wait: float = 30.0

    def wait_after_status(self, attempt: int, status: int, headers: Mapping[str, str], *, now: float) -> float | None:
        """Seconds to wait before the next attempt, None to give up. `attempt` counts from 0; `now` is seconds since 1970."""
        if status != TOO_MANY_REQUESTS and status < SERVER_ERROR:
            return None
        told = _told_wait(headers, now=now)
        if told is None:
            return self.wait_after_failure(attempt)
        if attempt >= self.most or told > self.longest_wait:
            return None
        return told

    def wait_after_failure(self, attempt: int) -> float | None:
        """The same after a connection that failed before the first byte."""
        if attempt >= self.most:
            return None
        # Half of the wait is chance, so that many clients don't come back at once.
        return float(self.first_wait * 2**attempt * random.uniform(0.5, 1.0))


def _told_wait(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds of `retry-after-ms` or `Retry-After` (a number or a date), None where they say nothing readable."""
    for name, unit in (("retry-after-ms", 1_000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - now)
    except (KeyError, ValueError):
        return None

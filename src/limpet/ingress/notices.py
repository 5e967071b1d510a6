"""Log lines that strangers can cause: at most one a second, which counts those that were left out."""

from collections.abc import Callable
from time import monotonic
from typing import Any

INTERVAL = 1.0  # seconds


class RateLimitedLog:
    """`write` is called with an event and its facts at most once a second; `suppressed` is how many came in between."""

    def __init__(self, write: Callable[..., Any], *, clock: Callable[[], float] = monotonic) -> None:
        self._write = write
        self._clock = clock
        self._last = float("-inf")
        self._suppressed = 0

    def __call__(self, event: str, **facts: Any) -> None:
        now = self._clock()
        if now - self._last < INTERVAL:
            self._suppressed += 1
            return
        if self._suppressed:
            facts["suppressed"] = self._suppressed
        self._last, self._suppressed = now, 0
        self._write(event, **facts)

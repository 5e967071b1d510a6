"""How fast a box may open connections, so that one that floods its door leaves the others their share of the process. Pure."""

from collections.abc import Callable
from time import monotonic

BURST = 500
EVERY = 0.004  # seconds: 250 a second


class ConnectionPace:
    """BURST connections at once, and then one EVERY seconds; what is not used is saved up to the burst again."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._due = 0.0  # when the newest would have come, had all come evenly

    def delay(self) -> float:
        """Count one connection; how many seconds to wait before the next is accepted."""
        now = self._clock()
        self._due = max(self._due, now - BURST * EVERY) + EVERY
        ahead = self._due - now
        return ahead if ahead > EVERY / 2 else 0.0  # sums of fractions are not exact

"""A clock that the test turns."""

from limpet.core.clock import MICROSECONDS


class TurnedClock:
    """Stands still until `turn`."""

    def __init__(self) -> None:
        self._now = 1_700_000_000 * MICROSECONDS

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._now / MICROSECONDS

    def turn(self, seconds: float) -> None:
        self._now += int(seconds * MICROSECONDS)

"""Time, as everything here asks for it. Nothing else may read the system's clock for a decision."""

import time
from typing import Protocol

MICROSECONDS = 1_000_000


class Clock(Protocol):
    """Where the time comes from; tests turn one by hand."""

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an unknown moment; never goes back."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        return time.monotonic()


def seconds(microseconds: int) -> int:
    """Whole seconds, as the wire shows times."""
    return microseconds // MICROSECONDS

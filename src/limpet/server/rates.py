"""Rate limits: requests per minute and concurrent work of a key, and the delay for callers that guess keys. No I/O."""

from collections import OrderedDict
from dataclasses import dataclass

from limpet.core.clock import Clock

FORGIVEN_SECONDS = 60.0
MOST_DELAY = 2.0
_FIRST_DELAY = 0.05
_MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float
    open: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateExceeded:
    """It may not ask now. `seconds` until it may, None where another of its requests has to end first."""

    limit: int
    seconds: float | None


class Rates:
    """Requests of each key: a bucket of a minute's worth that fills evenly, and a count of those that are open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def begin(self, key_id: str, *, per_minute: int | None, concurrent: int | None) -> RateExceeded | None:
        """Count a request in, or say why not. What was counted in is counted out by `end`."""
        now = self._clock.monotonic()
        bucket = self._buckets.setdefault(key_id, _Bucket(tokens=float(per_minute or 0), at=now))
        if concurrent is not None and bucket.open >= concurrent:
            return RateExceeded(limit=concurrent, seconds=None)
        if per_minute is not None:
            filled = min(float(per_minute), bucket.tokens + (now - bucket.at) * per_minute / 60)
            bucket.tokens, bucket.at = filled, now
            if filled < 1:
                return RateExceeded(limit=per_minute, seconds=(1 - filled) * 60 / per_minute)
            bucket.tokens -= 1
        bucket.open += 1
        return None

    def end(self, key_id: str) -> None:
        self._buckets[key_id].open -= 1


class Failures:
    """Wrong keys by the address that they came from: each one in a row is answered later, up to MOST_DELAY seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def count(self, address: str) -> float:
        """One more from there; the seconds that its answer should wait."""
        now = self._clock.monotonic()
        times, at = self._seen.pop(address, (0, now))
        times = 1 if now - at > FORGIVEN_SECONDS else times + 1
        self._seen[address] = (times, now)
        if len(self._seen) > _MOST_REMEMBERED:
            self._seen.popitem(last=False)
        return float(min(MOST_DELAY, _FIRST_DELAY * 2 ** min(times - 1, 16)))

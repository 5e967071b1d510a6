"""Bounds how many records of one box are written: those that come too fast are added up, and none is left out of the sums."""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from limpet.egress.records import EgressRecord, OnRecord, Verdict

BURST = 100  # records that are written as they are, at once
REFILL = 1.0  # and then a second
SUMMED_SECONDS = 10.0
MOST_SUMS = 32
OTHERS = "(others)"

_Key = tuple[str, int, Verdict, str, tuple[str, ...]]


class RecordThrottle:
    """`write` gets each record, or the sum of those of one host, port, rule and verdict: about 300 a minute at most, whatever the box
    does. Sums are written at least SUMMED_SECONDS apart, with the next record or by `flush`."""

    def __init__(self, write: OnRecord, *, clock: Callable[[], float] = monotonic) -> None:
        self._write = write
        self._clock = clock
        self._left, self._at = float(BURST), clock()
        self._sums: dict[_Key, EgressRecord] = {}
        self._summed_at = 0.0

    def __call__(self, record: EgressRecord) -> None:
        """Write it, or add it up."""
        now = self._clock()
        self._left, self._at = min(float(BURST), self._left + (now - self._at) * REFILL), now
        if self._sums and now - self._summed_at >= SUMMED_SECONDS:
            self.flush()
        if self._left >= 1:
            self._left -= 1
            self._write(record)
            return
        if not self._sums:
            self._summed_at = now
        key = _key(record)
        if key not in self._sums and len(self._sums) >= MOST_SUMS:
            rule = record.rule if record.verdict == "refused" else OTHERS
            record = replace(record, host=OTHERS, port=0, rule=rule, secrets=())
            key = _key(record)
        self._sums[key] = _sum(self._sums.get(key), record)

    def flush(self) -> None:
        """Write what was added up."""
        sums, self._sums = self._sums, {}
        for record in sums.values():
            self._write(record)


def _key(record: EgressRecord) -> _Key:
    return record.host, record.port, record.verdict, record.rule, record.secrets


def _sum(before: EgressRecord | None, record: EgressRecord) -> EgressRecord:
    if before is None:
        return record
    return replace(
        before,
        count=before.count + record.count,
        sent=before.sent + record.sent,
        received=before.received + record.received,
        duration=before.duration + record.duration,
    )

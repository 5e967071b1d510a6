"""Redacts one stream of output piece by piece. However it is cut into pieces, the result is that of the whole.

Hidden stretches that overlap become one marker, so that no end of one shows behind another. The bytes before redaction are kept only
as long as they are undecided.
"""

import re
from collections.abc import Callable, Sequence

from limpet.guard.redaction.matcher import CONTEXT, MatchResult, SecretMatcher, Span
from limpet.guard.redaction.user_patterns import LineSearch, UserPattern

# Larger chunks are taken in slices, so that memory does not follow them.
SLICE = 128 * 1024
# After one of these a stream may begin anew: no rule looks further back.
_RESTS_AFTER = re.compile(rb"[\s.,;)(>]\Z")
_UNNAMED = re.compile(r"[^A-Za-z0-9_.-]")


class RedactingStream:
    """What one stream gives out. Not shared between streams."""

    def __init__(
        self, heads: SecretMatcher, patterns: Sequence[UserPattern], *, marks_names: bool, counted: Callable[[], None]
    ) -> None:
        self._matcher = heads
        self._lines = LineSearch(patterns)
        self._has_patterns = bool(patterns)
        self._marks_names = marks_names
        self._counted = counted
        self._data = b""
        self._base = 0  # the place in the stream of the first byte of `_data`; all other places are of the stream too
        self._decided = 0
        self._given = 0
        self._hidden = (0, "")  # up to where the last marker reaches, and its name
        self.count = 0

    @property
    def holds(self) -> int:
        """How many bytes are held back, at most about 16 KiB: they may be part of a secret whose end has not come."""
        return self._base + len(self._data) - self._given

    @property
    def empty(self) -> bool:
        """Whether a new screen that gets only what comes next gives out the same."""
        end = self._base + len(self._data)
        reached, name = self._hidden
        # A stretch that ends here would go on in another one of its name: a new screen would set a second marker.
        is_done = self._decided == end and (reached < end or not name)
        if self._has_patterns:
            return is_done and (not self._data or self._data.endswith(b"\n"))
        return is_done and (not self._data or _RESTS_AFTER.search(self._data) is not None)

    def feed(self, data: bytes) -> bytes:
        """What may be given out now that these bytes have come."""
        return b"".join(self._take(data[start : start + SLICE]) for start in range(0, len(data), SLICE))

    def flush(self) -> bytes:
        """What may be given out of a stream that rests, so that a prompt shows: all but the beginning of a known secret, of the
        hidden part of a token, or of what a pattern may still match. What is completed later is hidden from there on."""
        found = self._find(is_whole=False)
        public = min(self._base + found.public, self._lines.public(self._data, self._base))
        return self._give(found, max(self._given, public))

    def end(self) -> bytes:
        """The rest: nothing more will come."""
        found = self._find(is_whole=True)
        given = self._give(found, self._base + len(self._data))
        self._move_to(self._base + len(self._data))
        return given

    def _take(self, data: bytes) -> bytes:
        self._data += data
        found = self._find(is_whole=False)
        decided = self._base + found.undecided
        given = self._give(found, max(self._given, decided))
        self._move_to(decided)
        return given

    def _find(self, *, is_whole: bool) -> MatchResult:
        found = self._matcher.find(self._data, self._decided - self._base, is_whole=is_whole)
        found.wait(self._lines.advance(self._data, self._base, is_whole=is_whole) - self._base, found.public)
        return found

    def _give(self, found: MatchResult, until: int) -> bytes:
        """The bytes from `_given` up to `until`, each hidden stretch replaced."""
        base = self._base
        spans = [Span(base + span.start, span.rank, base + span.end, span.name) for span in found.spans]
        out: list[bytes] = []
        place = self._given
        hidden, name = self._hidden
        for span in sorted(spans + self._lines.spans, key=_order):
            start = max(span.start, self._given)
            if start >= until or span.end <= start or span.start < self._decided:
                continue
            if start < hidden or (start == hidden and span.name == name):
                hidden = max(hidden, span.end)
                continue
            out += [self._data[max(place, hidden) - base : start - base], self._mark(span.name)]
            place, hidden, name = start, span.end, span.name
        out.append(self._data[max(place, hidden) - base : until - base])
        self._given, self._hidden = until, (hidden, name)
        return b"".join(out)

    def _move_to(self, decided: int) -> None:
        """Drop what is done with."""
        keep = max(self._base, decided - CONTEXT)
        self._data = self._data[keep - self._base :]
        self._base, self._decided = keep, decided
        self._lines.forget(decided)

    def _mark(self, name: str) -> bytes:
        self.count += 1
        self._counted()
        return f"[REDACTED:{_UNNAMED.sub('_', name)}]".encode() if self._marks_names else b"[REDACTED]"


def _order(span: Span) -> tuple[int, int, int, str]:
    """By where they begin; then known ones, shapes, patterns; then the longest."""
    return span.start, span.rank, -span.end, span.name

"""The user's redaction patterns, matched by RE2 alone: time is linear in the output, whatever the pattern.

They are matched line by line. A line of more than WINDOW bytes is looked at in windows of that size which overlap by half, so that a
match of up to half a window is found anywhere, and always the same ones however the output arrives.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import re2  # type: ignore[import-untyped]  # it has no types

from limpet.core.errors import ConfigInvalid
from limpet.guard.redaction.matcher import PATTERN, Span

WINDOW = 8192
# If a pattern has a group of this name, only the group is hidden.
GROUP = "secret"
_UNNAMED = "pattern"
_HINTS = {
    "invalid perl operator": "RE2 looks neither ahead nor behind: match what stands around the secret too, and put the secret in"
    f" a group (?P<{GROUP}>…)",
    "invalid escape sequence": "RE2 knows neither back references nor \\Z: write the alternatives out, and $ for a line's end",
    "invalid repetition size": "RE2 repeats at most 1,000 times: write {20,1000}, or {20,}",
    "bad repetition operator": "RE2 has no possessive quantifiers and needs none: write one quantifier",
}


@dataclass(frozen=True, slots=True)
class UserPattern:
    """One pattern, compiled. `begins` finds where a match may begin, or its beginning be cut off; None if that cannot be said."""

    name: str
    expression: re2._Regexp
    group: int
    begins: re.Pattern[bytes] | None


def compiled(patterns: Mapping[str, str] | Sequence[str]) -> tuple[UserPattern, ...]:
    """The patterns ready for use. Raises ConfigInvalid that says why RE2 refuses one, and what to write instead."""
    named = patterns.items() if isinstance(patterns, Mapping) else [(_UNNAMED, pattern) for pattern in patterns]
    return tuple(_compiled(name, pattern) for name, pattern in named)


def _compiled(name: str, pattern: str) -> UserPattern:
    where = f"patterns.{name}"
    options = re2.Options()
    options.never_nl = True
    options.log_errors = False
    try:
        expression = re2.compile(f"(?m){pattern}", options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise ConfigInvalid("redaction", where, _refusal(pattern, said)) from error
    if any(escape.group(1) in "AzC" for escape in re.finditer(r"\\(.)", pattern)):
        problem = (
            f"{pattern!r} holds \\A, \\z or \\C. Patterns are matched line by line: write ^ and $ for a line's ends."
        )
        raise ConfigInvalid("redaction", where, problem)
    if expression.fullmatch(b""):
        problem = f"{pattern!r} matches the empty text, and so everywhere. Say what has to be there: a+ where a* stood."
        raise ConfigInvalid("redaction", where, problem)
    group = expression.groupindex.get(GROUP, 0)
    return UserPattern(name, expression, group, _beginnings(expression))


def _refusal(pattern: str, said: str) -> str:
    hint = next((hint for sign, hint in _HINTS.items() if said.startswith(sign)), "see RE2's syntax for what it knows")
    return f"RE2 refuses {pattern!r} ({said}); {hint}."


def _beginnings(expression: re2._Regexp) -> re.Pattern[bytes] | None:
    """From the least and the greatest text that can match: what they share at the start, or the range of their first byte."""
    try:
        least, most = expression.possiblematchrange(8)
    except re2.error:
        return None
    if not least or not most:
        return None
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(least, most, strict=False))
    shared = bytes(byte for byte, _ in pairs)
    if not shared:
        return re.compile(b"[%b-%b]" % (re.escape(least[:1]), re.escape(most[:1])))
    begins = b""
    for at in range(len(shared) - 1, -1, -1):
        begins = re.escape(shared[at : at + 1]) + (b"(?:%b|\\Z)" % begins if begins else b"")
    return re.compile(begins)


class LineSearch:
    """Looks through one stream for the patterns. Places are counted from the stream's first byte."""

    def __init__(self, patterns: Sequence[UserPattern]) -> None:
        self._patterns = patterns
        self._from = 0
        self.spans: list[Span] = []

    def advance(self, data: bytes, base: int, *, is_whole: bool) -> int:
        """Search what is complete of `data`, whose first byte is the stream's at `base`. Returns up to where that is."""
        if not self._patterns:
            return base + len(data)
        place = self._from - base
        while True:
            long = _long_line(data, place)
            end = long if long is not None else len(data) if is_whole else data.rfind(b"\n", place) + 1
            if end > place:
                self._search(data, base, place, end)
                place = end
            if long is None:
                break
            self._search(data, base, place, place + WINDOW)
            place += WINDOW // 2
        self._from = base + place
        return self._from

    def forget(self, before: int) -> None:
        """Spans that begin before are done with."""
        self.spans = [span for span in self.spans if span.start >= before]

    def public(self, data: bytes, base: int) -> int:
        """Up to where no match can begin, also not in the line that has not ended."""
        place = self._from - base
        for pattern in self._patterns:
            if pattern.begins is None:
                return self._from
            first = pattern.begins.search(data, place)
            data = data[: first.start()] if first else data
        return base + len(data)

    def _search(self, data: bytes, base: int, start: int, end: int) -> None:
        for pattern in self._patterns:
            for found in pattern.expression.finditer(data, start, end):
                begin, stop = found.span(pattern.group)
                if begin < stop:
                    self.spans.append(Span(base + begin, PATTERN, base + stop, pattern.name))


def _long_line(data: bytes, place: int) -> int | None:
    """Where the first line from `place` on begins that has more than WINDOW bytes, its rest at `place` counted as a line."""
    while len(data) - place > WINDOW:
        newline = data.rfind(b"\n", place, place + WINDOW + 1)
        if newline < 0:
            return place
        place = newline + 1
    return None

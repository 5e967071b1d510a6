"""One rule matched at one position: it matches, it may match once more bytes arrive, or it cannot match. Linear time."""

import re
from functools import cache, cached_property
from typing import NamedTuple

from limpet.guard.redaction.token_shapes import Run, TokenShape

_DIGIT = re.compile(rb"[0-9]")
_LETTER = re.compile(rb"[A-Za-z]")


class Match(NamedTuple):
    """Bytes `start` to `end` are to be hidden."""

    start: int
    end: int


class PartialMatch(NamedTuple):
    """More bytes decide. Those before `public` are no secret, whatever comes."""

    public: int


class NextDigit:
    """Where the digits of some bytes are. Places that are asked for in order cost one pass over the bytes."""

    __slots__ = ("_data", "_from", "_next")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._from, self._next = 0, -1  # there is none from `_from` up to `_next`

    def after(self, place: int) -> int:
        """The first at `place` or later; where there is none, the data's end."""
        if not self._from <= place <= self._next:
            found = _DIGIT.search(self._data, place)
            self._from, self._next = place, len(self._data) if found is None else found.start()
        return self._next


class AnchoredMatcher:
    """A rule in the form in which it is tried. Its expressions are compiled when they are first needed, many of them never."""

    def __init__(self, rule: TokenShape) -> None:
        self.name = rule.name
        self.is_general = rule.is_general
        self._followers = _followers(rule.runs)
        self._rule = rule
        self._hides = rule.hides
        self._mixed = rule.mixed
        # Without a digit behind its head it fits nowhere; heads have none.
        self.needs_digit = rule.mixed and not any(_DIGIT.search(head.encode()) for head in rule.heads)
        self.longest = sum(run.high for run in rule.runs)

    @property
    def value(self) -> tuple[frozenset[int], int] | None:
        """The bytes of which the hidden part is made, and how many there may be; None where its head is hidden too."""
        if self._hides is None:
            return None
        run = self._rule.runs[self._hides]
        return _members(run.of), run.high

    @cached_property
    def _fits(self) -> re.Pattern[bytes]:
        after = f"(?![{self._rule.after}])" if self._rule.after else ""
        return re.compile(("".join(f"({_taken(run)})" for run in self._rule.runs) + after).encode())

    @cached_property
    def _open(self) -> re.Pattern[bytes]:
        return re.compile(_unfinished(self._rule.runs).encode())

    @cached_property
    def _lead(self) -> re.Pattern[bytes]:
        return re.compile("".join(_taken(run) for run in self._rule.runs[: self._hides or 0]).encode())

    @cached_property
    def _before(self) -> re.Pattern[bytes] | None:
        return re.compile(self._rule.before) if self._rule.before else None

    @cached_property
    def _unless(self) -> re.Pattern[bytes] | None:
        return re.compile(self._rule.unless) if self._rule.unless else None

    def may_begin(self, follows: bytes) -> bool:
        """Whether it can go on behind its head with these bytes, of which the first two are looked at; there may be fewer."""
        if not follows:
            return True
        seconds = self._followers.get(follows[0])
        return seconds is not None and (len(follows) == 1 or follows[1] in seconds)

    def at(
        self, data: bytes, head: int, body: int, *, is_whole: bool, looks_back: bool = True
    ) -> Match | PartialMatch | None:
        """Whether it fits where its head stands, from `head` to `body`. `is_whole`: no more bytes will come. A rule needs to be
        tried only where it `may_begin`."""
        # Open also where what stands before forbids it: a colour that is still to come may let it begin anew.
        if not is_whole and len(data) - body <= self.longest and self._open.match(data, body):
            return PartialMatch(self._public(data, body))
        found = self._fits.match(data, body)
        if found is None or (looks_back and self._before is not None and not self._before.match(data, head)):
            return None
        start, end = (head, found.end()) if self._hides is None else found.span(self._hides + 1)
        if self._mixed and not (_DIGIT.search(data, start, end) and _LETTER.search(data, start, end)):
            return None
        if self._unless is not None and self._unless.fullmatch(data, start, end):
            return None
        return Match(start, end)

    def _public(self, data: bytes, body: int) -> int:
        """Where its hidden part begins, as far as that can be said."""
        if self._hides is None:
            return body
        lead = self._lead.match(data, body)
        return lead.end() if lead else len(data)


def _followers(runs: tuple[Run, ...]) -> dict[int, frozenset[int]]:
    """The bytes with which it can go on behind its head, and those that may follow each of them."""
    found: dict[int, frozenset[int]] = {}
    for index, run in enumerate(runs):
        seconds = _seconds(runs, index)
        for byte in _members(run.of):
            found[byte] = found.get(byte, frozenset()) | seconds
        if run.low:
            break
    return found


def _seconds(runs: tuple[Run, ...], index: int) -> frozenset[int]:
    """What may follow the first byte of that run."""
    run = runs[index]
    found = _members(run.of) if run.high > 1 else frozenset[int]()
    if run.low > 1:
        return found
    for following in runs[index + 1 :]:
        found |= _members(following.of)
        if following.low:
            return found
    return frozenset(range(256))  # it is whole, and anything may stand behind it


@cache
def _members(of: str) -> frozenset[int]:
    return frozenset(found.start() for found in re.finditer(f"[{of}]".encode(), bytes(range(256))))


def _taken(run: Run) -> str:
    return f"[{run.of}]{{{run.low},{run.high}}}+"


def _unfinished(runs: tuple[Run, ...]) -> str:
    """What the data's end may have cut off: some runs whole, then one that reaches the end."""
    first, *rest = runs
    reaches = f"[{first.of}]{{0,{first.high}}}+\\Z"
    return f"(?:{reaches}|{_taken(first)}{_unfinished(tuple(rest))})" if rest else f"(?:{reaches})"

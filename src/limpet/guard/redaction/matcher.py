"""Finds secrets in output: one pass finds possible beginnings (Aho-Corasick), and each is then matched in its place.

What is found at a place depends on the bytes from there on, a bounded number of them, and on at most CONTEXT bytes before. So
`find` can say from which place on more bytes are needed, and a stream is screened exactly as its whole would be.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation

from limpet.guard.redaction import escapes
from limpet.guard.redaction.anchored_match import AnchoredMatcher, Match, NextDigit, PartialMatch
from limpet.guard.redaction.floods import Flood, LabelledValues
from limpet.guard.redaction.token_shapes import TokenShape

# How many bytes before a place may matter for it.
CONTEXT = 32
# A hidden stretch is no longer than this once its escape sequences are counted in.
REACH = 4096
# A token of known shape is found among colours if it is no longer.
COLOURED = 512
# So often what is escaped is undone that was escaped before: a page in a JSON string in a log of JSON.
NESTED = 4
_HEAD = 12
# Up to so many heads the fastest automaton is taken: twice as fast as the next, a few KiB for each head.
_MANY = 8192
# So many pairs of bytes behind a head are remembered with the rules that they leave.
_MOST_PAIRS = 1024
# Which of two stretches that begin together gives the name.
KNOWN, FAMILY, GENERAL, PATTERN = range(4)


class Span(NamedTuple):
    """Bytes to hide, from `start` up to `end`, and as what. A tuple: a flood of secrets makes very many."""

    start: int
    rank: int
    end: int
    name: str


@dataclass(slots=True)
class MatchResult:
    """What is known of some bytes. All spans that begin before `undecided` are there; up to `public` nothing can become part of a
    known secret or of the hidden part of a token, so that these bytes may be shown without waiting for more."""

    undecided: int
    public: int
    spans: list[Span] = field(default_factory=list)

    def wait(self, start: int, public: int) -> None:
        """More bytes decide what begins at `start`; those before `public` are no secret."""
        self.undecided = min(self.undecided, start)
        self.public = min(self.public, public)


class _Literals:
    """Known forms that begin with the same bytes."""

    def __init__(self) -> None:
        self._names: dict[int, dict[bytes, str]] = {}
        self._ordered: list[bytes] = []
        self._lengths: list[int] = []

    def add(self, form: bytes, name: str) -> None:
        self._names.setdefault(len(form), {}).setdefault(form, name)

    def close(self) -> None:
        self._lengths = sorted(self._names, reverse=True)
        self._ordered = sorted(form for names in self._names.values() for form in names)

    def at(self, data: bytes, at: int) -> tuple[int, str] | None:
        """The end and the name of the longest that stands there."""
        for length in self._lengths:
            name = self._names[length].get(data[at : at + length])
            if name is not None:
                return at + length, name
        return None

    def may_follow(self, data: bytes, at: int) -> bool:
        """Whether the data's end cuts one off."""
        return len(data) - at < self._lengths[0] and _begins(self._ordered, data[at:])


class _RuleTable(dict[bytes, tuple[AnchoredMatcher, ...]]):
    """Of some rules those worth a try, by the two bytes that follow their head; by fewer where the data ends."""

    def __init__(self, rules: tuple[AnchoredMatcher, ...]) -> None:
        self.all = rules

    def __missing__(self, follows: bytes) -> tuple[AnchoredMatcher, ...]:
        if len(self) >= _MOST_PAIRS:
            self.clear()
        found = self[follows] = tuple(rule for rule in self.all if rule.may_begin(follows))
        return found


@dataclass(slots=True)
class _Beginning:
    """What may begin with one text."""

    literals: _Literals | None = None
    rules: _RuleTable | None = None
    values: LabelledValues | None = None
    is_trigger: bool = False
    is_only_trigger: bool = False


class SecretMatcher:
    """Finds known forms and shapes. Built once, then only read."""

    def __init__(self, forms: Iterable[tuple[bytes, str]], rules: Sequence[TokenShape]) -> None:
        heads: dict[bytes, _Beginning] = {}
        known = list(forms)
        for form, name in known:
            head = heads.setdefault(form[:_HEAD], _Beginning())
            head.literals = head.literals or _Literals()
            head.literals.add(form, name)
        secret = set(heads)
        for text, followed in _tables(tuple(rules)).items():
            beginning = heads.setdefault(text, _Beginning())
            beginning.rules, beginning.values = followed, _values(followed.all)
        public = set(heads) - secret
        self._reach = max([len(form) for form, _ in known] + [COLOURED if rules else 0])
        self._apart = self._reach + escapes.LONGEST
        for trigger in escapes.triggers(bytes({byte for form, _ in known for byte in form})) if heads else ():
            heads.setdefault(trigger, _Beginning()).is_trigger = True
        for each in heads.values():
            each.is_only_trigger = each.is_trigger and each.literals is None and each.rules is None
            if each.literals is not None:
                each.literals.close()
        self._texts = sorted(heads)
        self._matcher = [heads[text] for text in self._texts]
        # What the end of some bytes may be of a head, how long heads are, and whether they are those of secrets.
        self._beginnings = [
            (_beginnings(texts), max(map(len, texts)), texts is secret) for texts in (secret, public) if texts
        ]
        implementation = Implementation.DFA if len(heads) <= _MANY else None
        self._finder = BytesAhoCorasick(self._texts, implementation=implementation) if heads else None

    def find(self, data: bytes, start: int, *, is_whole: bool) -> MatchResult:
        """What begins at `start` or later. `is_whole`: no more bytes will come. `start` is where an earlier call was undecided."""
        found = MatchResult(undecided=len(data), public=len(data))
        triggers = self._try(data, start, found, is_whole=is_whole)
        if self._reach:
            self._look_behind_escapes(data, start, triggers, found, is_whole=is_whole, levels=NESTED)
            found.undecided = escapes.between(data, start, found.undecided)
        return found

    def _try(self, data: bytes, start: int, found: MatchResult, *, is_whole: bool) -> list[int]:
        """Try what begins plainly; returns where escape sequences that may matter begin."""
        triggers: list[int] = []
        if self._finder is None:
            return triggers
        floods: dict[int, Flood] = {}
        digits = NextDigit(data)
        for index, at, body in self._finder.find_matches_as_indexes(data, overlapping=True):
            if at < start:
                continue
            head = self._matcher[index]
            if head.is_trigger:
                triggers.append(at)
                if head.is_only_trigger:
                    continue
            if at >= found.undecided and at >= found.public:
                continue  # it is looked at again once more bytes have come
            if head.literals is not None:
                self._try_literals(head.literals, data, at, found, is_whole=is_whole)
            if head.rules is None:
                continue
            if head.values is not None and (is_whole or body + head.values.longest < len(data)):
                flood = floods.get(id(head.rules))
                if flood is None:
                    flood = floods[id(head.rules)] = Flood(
                        head.values, data, partial(_try_rules, head.rules, data, found, digits)
                    )
                flood.meets(at, body)
            else:
                _try_rules(head.rules, data, found, digits, at, body, is_whole=is_whole)
        for flood in floods.values():
            flood.catch_up()
        if not is_whole:
            self._wait_for_heads(data, start, found)
        return triggers

    @staticmethod
    def _try_literals(literals: _Literals, data: bytes, at: int, found: MatchResult, *, is_whole: bool) -> None:
        if not is_whole and literals.may_follow(data, at):
            found.wait(at, at)
        if (known := literals.at(data, at)) is not None:
            found.spans.append(Span(at, KNOWN, known[0], known[1]))

    def _wait_for_heads(self, data: bytes, start: int, found: MatchResult) -> None:
        """The end of the data may be the beginning of a head."""
        for beginnings, longest, is_secret in self._beginnings:
            for at in range(max(start, len(data) - longest + 1), len(data)):
                if data[at:] in beginnings:
                    found.wait(at, at if is_secret else len(data))
                    break

    def _look_behind_escapes(
        self, data: bytes, start: int, triggers: list[int], found: MatchResult, *, is_whole: bool, levels: int
    ) -> None:
        """Find the known forms that are there only once the sequences are undone, so many `levels` of them."""
        end = len(data)
        if not is_whole and (cut := escapes.unfinished(data, start)) is not None:
            found.wait(cut, cut)
            triggers.append(cut)
            end = cut
        for first, last in _stretches(triggers, self._apart):
            begin = escapes.run_start(data, start, max(start, first - self._reach))
            stop = min(end, last + self._apart)
            plain = escapes.UnescapedText(data, begin, stop)
            self._try_plain(data, plain, found, is_whole=is_whole or stop < end, levels=levels - 1)

    def _try_plain(
        self, data: bytes, plain: escapes.UnescapedText, found: MatchResult, *, is_whole: bool, levels: int
    ) -> None:
        if self._finder is None:
            return
        inside = MatchResult(undecided=len(plain.data), public=len(plain.data))
        triggers: list[int] = []
        for index, at, body in self._finder.find_matches_as_indexes(plain.data, overlapping=True):
            head = self._matcher[index]
            if head.literals is not None:
                self._try_literals(head.literals, plain.data, at, inside, is_whole=is_whole)
            if head.is_trigger:
                triggers.append(at)
            # A colour may still come into what is open.
            if head.rules is None or not (plain.has_colours or (not is_whole and len(plain.data) - at <= COLOURED)):
                continue
            for rule in head.rules[plain.data[body : body + 2]]:
                match rule.at(plain.data, at, body, is_whole=is_whole, looks_back=False):
                    case Match(begin, end) if end - at <= COLOURED and plain.is_coloured(at, end):
                        inside.spans.append(Span(begin, GENERAL if rule.is_general else FAMILY, end, rule.name))
                    case PartialMatch() if len(plain.data) - at <= COLOURED:
                        inside.wait(at, at)
        if not is_whole:
            self._wait_for_heads(plain.data, 0, inside)
        if levels:
            self._look_behind_escapes(plain.data, 0, triggers, inside, is_whole=is_whole, levels=levels)
        for span in inside.spans:
            begin, end = plain.start_of(span.start), plain.end_of(span.end)
            if end - begin <= REACH:
                found.spans.append(Span(begin, span.rank, end, span.name))
        if inside.undecided < len(plain.data):
            begin = plain.start_of(inside.undecided)
            if len(data) - begin <= REACH:
                found.wait(begin, begin)


def _try_rules(
    rules: _RuleTable, data: bytes, found: MatchResult, digits: NextDigit, at: int, body: int, *, is_whole: bool = True
) -> list[Span]:
    """Try what begins at that head; returns what was found."""
    spans = []
    for rule in rules[data[body : body + 2]]:
        if rule.needs_digit and digits.after(body) > body + rule.longest:
            continue
        match rule.at(data, at, body, is_whole=is_whole):
            case Match(begin, end):
                spans.append(Span(begin, GENERAL if rule.is_general else FAMILY, end, rule.name))
            case PartialMatch(public):
                found.wait(at, public)
    found.spans += spans
    return spans


@cache
def _tables(rules: tuple[TokenShape, ...]) -> dict[bytes, _RuleTable]:
    """For each head the rules that have it. Heads of the same rules share one table."""
    of_heads: dict[bytes, list[AnchoredMatcher]] = {}
    for rule in rules:
        anchored = AnchoredMatcher(rule)
        for text in rule.heads:
            of_heads.setdefault(text.encode(), []).append(anchored)
    return {text: _table(tuple(those)) for text, those in of_heads.items()}


_table = cache(_RuleTable)
_values = cache(LabelledValues.of)


def _begins(ordered: Sequence[bytes], text: bytes) -> bool:
    """Whether one of them begins with `text` and is longer."""
    index = bisect_right(ordered, text)
    return index < len(ordered) and ordered[index].startswith(text)


def _beginnings(texts: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(text[:length] for text in texts for length in range(1, len(text)))


def _stretches(places: list[int], apart: int) -> Iterator[tuple[int, int]]:
    """Places that are near to each other, as first and last of each group."""
    if not places:
        return
    places = sorted(places)
    first = places[0]
    for before, after in pairwise(places):
        if after - before > apart:
            yield first, before
            first = after
    yield first, places[-1]

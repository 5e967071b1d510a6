"""The same name again and again (password=password=…): each begins a value of up to some hundred bytes, and each would be looked through.

Names that stand within what is hidden already wait. Once that has ended they are tried from the last one back, until one is found that
hides as far as any of them could: what comes out is as if all had been tried.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from limpet.guard.redaction.anchored_match import AnchoredMatcher


class HiddenSpan(Protocol):
    """Bytes that are hidden, from `start` up to `end`."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledValues:
    """What the rules of a name hide: at most `most` bytes of this class. `longest` bytes behind the name decide all of them."""

    members: frozenset[int]
    most: int
    longest: int

    @classmethod
    def of(cls, rules: Iterable[AnchoredMatcher]) -> "LabelledValues | None":
        """None where a rule hides its name too, so that a later one may hide less than an earlier one."""
        rules = list(rules)
        values = [rule.value for rule in rules if rule.value is not None]
        if not values or len(values) < len(rules):
            return None
        return cls(
            members=frozenset[int]().union(*(members for members, _ in values)),
            most=max(most for _, most in values),
            longest=max(rule.longest for rule in rules),
        )


@dataclass(slots=True)
class Flood:
    """The places of one name in some bytes, in order. `tries` a place, from its begin to its end, and returns what is hidden for it.

    Values begin behind names and hold names whole, so one that begins later ends later, or where the bytes of its class end.
    """

    values: LabelledValues
    data: bytes
    tries: Callable[[int, int], Iterable[HiddenSpan]]
    _covered: int = 0
    _waiting: list[tuple[int, int]] = field(default_factory=list)

    def meets(self, at: int, body: int) -> None:
        """The name stands from `at` to `body`."""
        if at >= self._covered:
            self.catch_up()
        if at < self._covered:
            self._waiting.append((at, body))
            return
        for span in self.tries(at, body):
            self._covered = max(self._covered, span.end)

    def catch_up(self) -> None:
        """Try what waits, as far as that may hide more."""
        while self._waiting:
            covered = self._covered
            for span in self.tries(*self._waiting.pop()):
                self._covered = max(self._covered, span.end)
                if span.start < covered and self._is_farthest(span):
                    self._waiting.clear()

    def _is_farthest(self, span: HiddenSpan) -> bool:
        is_longest = span.end - span.start >= self.values.most
        return is_longest or span.end == len(self.data) or self.data[span.end] not in self.values.members

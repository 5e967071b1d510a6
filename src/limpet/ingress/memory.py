"""A bound over the bytes that many clients make the gateway hold: where it is passed, the oldest holding of the client with most goes.

A client that sends half a body and waits, or never reads an answer, holds memory for as long as that lasts. Refusing new requests at the
bound would let such clients lock out all others, so the bound is kept by closing the connection that has held memory for longest.
"""

from collections import OrderedDict
from collections.abc import Callable
from itertools import count


class MemoryBudget:
    """Counts bytes by holding. `limit` is in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._numbers = count()
        self._holdings: OrderedDict[int, MemoryLease] = OrderedDict()
        self._owners: dict[str, int] = {}

    def hold(self, owner: str, drop: Callable[[], None]) -> "MemoryLease":
        """A holding of `owner`, empty at first. `drop` is called, at most once, when it has to go; it must not raise. Release it when
        its bytes are given up."""
        number = next(self._numbers)
        holding = self._holdings[number] = MemoryLease(self, number, owner, drop)
        return holding

    def _add(self, holding: "MemoryLease", size: int) -> None:
        self.used += size
        self._owners[holding.owner] = self._owners.get(holding.owner, 0) + size
        while self.used > self.limit:
            owner = max(self._owners, key=self._owners.__getitem__)
            oldest = next(each for each in self._holdings.values() if each.owner == owner and each.size)
            self._remove(oldest)
            oldest.drop()

    def _remove(self, holding: "MemoryLease") -> None:
        if self._holdings.pop(holding.number, None) is None:
            return
        self.used -= holding.size
        left = self._owners.get(holding.owner, 0) - holding.size
        if left > 0:
            self._owners[holding.owner] = left
        else:
            self._owners.pop(holding.owner, None)


class MemoryLease:
    """Bytes that one request or connection holds."""

    __slots__ = ("_budget", "drop", "is_held", "number", "owner", "size")

    def __init__(self, budget: MemoryBudget, number: int, owner: str, drop: Callable[[], None]) -> None:
        self._budget = budget
        self.number = number
        self.owner = owner
        self.drop = drop
        self.size = 0

    def add(self, size: int) -> None:
        """So many bytes more. This or another holding may be dropped for it."""
        if self.number in self._budget._holdings:
            self.size += size
            self._budget._add(self, size)

    def release(self) -> None:
        """Its bytes are given up. Twice is quiet."""
        self._budget._remove(self)

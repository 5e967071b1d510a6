"""The connections of all doors of this process together, so that boxes cannot take all its descriptors."""

import resource
from collections import Counter

from limpet.core.shares import may_take

ALWAYS = 128  # of one holder, while there are any: what a box may have


class ConnectionBudget:
    """A fifth of the descriptors that this process may have, or `most`; no holder gets them all (`core.shares`)."""

    def __init__(self, most: int | None = None) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = most if most is not None else max(64, files // 5)
        self._held: Counter[str] = Counter()
        self._taken = 0

    def take(self, holder: str) -> bool:
        """Count one more, if the holder may have it."""
        if not may_take(held=self._held[holder], taken=self._taken, most=self._most, always=ALWAYS):
            return False
        self._held[holder] += 1
        self._taken += 1
        return True

    def give_back(self, holder: str) -> None:
        """One that was taken has ended."""
        self._taken -= 1
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]

"""How large a conversation is for its model, in tokens: what the provider counted last and an estimate of what came since, or an estimate
of all of it where that is more (providers count what they have cached in different ways, or count nothing). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from limpet.upstreams.token_estimate import estimated_tokens
from limpet.upstreams.usage import Usage


class ContextSize(msgspec.Struct, kw_only=True):
    """`measured` tokens were the first `counted` items with instructions and tools. `floor` is what was left by the last compaction, which
    `is_floor_measured` once a turn has been asked behind it."""

    measured: int | None = None
    counted: int = 0
    floor: int = 0
    is_floor_measured: bool = True

    def tokens(self, items: Sequence[Mapping[str, Any]], *, fixed: int) -> int:
        """Of these items and `fixed` tokens of instructions and tools."""
        estimate = fixed + estimated_tokens(items)
        if self.measured is None:
            return estimate
        return max(estimate, self.measured + estimated_tokens(items[self.counted :]))

    def measure(self, usage: Usage | None, count: int) -> None:
        """A turn was asked with so many items."""
        self.measured, self.counted = (usage.input_tokens or None) if usage is not None else None, count
        if not self.is_floor_measured and self.measured is not None:
            self.floor, self.is_floor_measured = max(self.floor, self.measured), True

    def compact(self, left: int) -> None:
        """A compaction has left so many tokens, by estimate."""
        self.measured, self.counted, self.floor, self.is_floor_measured = None, 0, left, False

    def crosses(self, tokens: int, threshold: int) -> bool:
        """Whether so many tokens call for a compaction. Where the last one could not get under the threshold, the next comes when as much
        again has been added: doing it at every turn would help nothing."""
        return tokens > (threshold if self.floor <= threshold else self.floor + threshold)

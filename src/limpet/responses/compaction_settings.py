"""What an operator may choose about compaction. Values only."""

from dataclasses import dataclass
from typing import Annotated, Literal

from limpet.core.settings import Between

Strategy = Literal["truncate", "llm"]
LEAST_THRESHOLD = 1000  # tokens, OpenAI's own bound


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """`[features.responses.compaction]`. `enabled` lets the gateway follow `context_management` for providers that do not do it
    themselves; the `default_…` are for requests that do not say."""

    enabled: bool = False
    default_strategy: Strategy = "truncate"
    default_threshold_tokens: Annotated[int, Between(LEAST_THRESHOLD)] = 12_000
    keep_recent_items: Annotated[int, Between(0)] = 6
    default_prompt: str | None = None

"""The tokens of a turn, as the Responses API counts them."""

from collections.abc import Mapping
from typing import Any, Self

from msgspec import UNSET, UnsetType

from limpet.core.resources import Count, WireObject

_MOST = 1 << 53  # a number beyond it is no count of tokens


class CacheWriteTokens(WireObject, frozen=True, kw_only=True):
    """By how long the provider keeps what was written to its cache."""

    ttl_30m_tokens: Count = 0
    ttl_12h_tokens: Count = 0


class InputTokensDetails(WireObject, frozen=True, kw_only=True):
    """`cache_write_tokens_details` is there where a provider says it."""

    cached_tokens: Count = 0
    cache_write_tokens: Count = 0
    cache_write_tokens_details: CacheWriteTokens | UnsetType = UNSET


class OutputTokensDetails(WireObject, frozen=True, kw_only=True):
    reasoning_tokens: Count = 0


class Usage(WireObject, frozen=True, kw_only=True):
    """Every key is there: strict clients require them all."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    input_tokens_details: InputTokensDetails
    output_tokens_details: OutputTokensDetails

    @classmethod
    def counted(cls, *, given: int, answered: int, cached: int = 0, written: int = 0, reasoning: int = 0) -> Self:
        """`given` went to the model, with what was `cached` of it and `written` to the cache; `answered` came back, `reasoning` of it."""
        return cls(
            input_tokens=given,
            output_tokens=answered,
            total_tokens=given + answered,
            input_tokens_details=InputTokensDetails(cached_tokens=cached, cache_write_tokens=written),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=reasoning),
        )

    @classmethod
    def read(cls, given: object) -> Self | None:
        """The usage that a provider sent, None where it sent none. What is absent, or is no number of tokens, counts as 0."""
        if not isinstance(given, Mapping) or not given:
            return None
        inward, outward = _object(given, "input_tokens_details"), _object(given, "output_tokens_details")
        sent, answered = count_in(given, "input_tokens"), count_in(given, "output_tokens")
        return cls(
            input_tokens=sent,
            output_tokens=answered,
            total_tokens=count_in(given, "total_tokens") or sent + answered,
            input_tokens_details=InputTokensDetails(
                cached_tokens=count_in(inward, "cached_tokens"),
                cache_write_tokens=count_in(inward, "cache_write_tokens"),
                cache_write_tokens_details=_written(inward),
            ),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=count_in(outward, "reasoning_tokens")),
        )

    def __add__(self, other: "Usage") -> "Usage":
        """Of two turns together."""
        inward, outward = other.input_tokens_details, other.output_tokens_details
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            input_tokens_details=InputTokensDetails(
                cached_tokens=self.input_tokens_details.cached_tokens + inward.cached_tokens,
                cache_write_tokens=self.input_tokens_details.cache_write_tokens + inward.cache_write_tokens,
                cache_write_tokens_details=_together(
                    self.input_tokens_details.cache_write_tokens_details, inward.cache_write_tokens_details
                ),
            ),
            output_tokens_details=OutputTokensDetails(
                reasoning_tokens=self.output_tokens_details.reasoning_tokens + outward.reasoning_tokens
            ),
        )


def _written(details: Mapping[str, Any]) -> CacheWriteTokens | UnsetType:
    told = _object(details, "cache_write_tokens_details")
    if not told:
        return UNSET
    return CacheWriteTokens(
        ttl_30m_tokens=count_in(told, "ttl_30m_tokens"), ttl_12h_tokens=count_in(told, "ttl_12h_tokens")
    )


def _together(one: CacheWriteTokens | UnsetType, other: CacheWriteTokens | UnsetType) -> CacheWriteTokens | UnsetType:
    if one is UNSET or other is UNSET:
        return one if other is UNSET else other
    return CacheWriteTokens(
        ttl_30m_tokens=one.ttl_30m_tokens + other.ttl_30m_tokens,
        ttl_12h_tokens=one.ttl_12h_tokens + other.ttl_12h_tokens,
    )


def _object(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = given.get(key)
    return value if isinstance(value, Mapping) else {}


def count_in(given: Mapping[str, Any], key: str) -> int:
    """A number of tokens that a provider sent; 0 for anything else."""
    value = given.get(key)
    is_count = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _MOST
    return int(value or 0) if is_count else 0

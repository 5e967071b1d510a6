"""`POST /v1/responses/input_tokens`: how many tokens a request would have. Nothing is made, kept or run."""

from dataclasses import dataclass
from typing import Literal

from limpet.core.errors import RequestInvalid
from limpet.core.resources import Count, WireObject
from limpet.responses.prepare import Preparer
from limpet.responses.request import parse
from limpet.upstreams.token_counts import TokenCounter, estimated_tokens


class InputTokenCount(WireObject, frozen=True, kw_only=True):
    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedInput:
    """`is_estimate`: the provider does not count."""

    count: InputTokenCount
    is_estimate: bool


async def count_input(preparer: Preparer, tenant: str, body: object) -> CountedInput:
    """The tokens of what the provider would be asked first. Raises RequestError, UpstreamRefused."""
    if not isinstance(body, dict):
        raise RequestInvalid('The body must be a JSON object such as {"model": "limpet/script", "input": "…"}.')
    asked = parse({**body, "input": body.get("input") or []})
    upstream, turn = await preparer.first_turn(tenant, asked)
    counted = await upstream.input_tokens(turn) if isinstance(upstream, TokenCounter) else None
    tokens = estimated_tokens(turn) if counted is None else counted
    return CountedInput(count=InputTokenCount(input_tokens=tokens), is_estimate=counted is None)

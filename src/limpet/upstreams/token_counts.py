"""How many tokens a turn's input has: by the provider, where it says, else by an estimate."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit, urlunsplit

import httpx2
import msgspec

from limpet.core.errors import UpstreamRefused
from limpet.upstreams.client import ProviderClient, reason_of
from limpet.upstreams.endpoints import Access
from limpet.upstreams.key_filter import hide_key
from limpet.upstreams.refusals import refusal
from limpet.upstreams.token_estimate import estimated_tokens as estimated_tokens_of
from limpet.upstreams.token_estimate import tokens_of
from limpet.upstreams.upstream import Turn

# What a server answers with that does not know the address.
UNKNOWN = frozenset({404, 405, 501})
_COUNTED = frozenset(
    "model input instructions tools text reasoning tool_choice parallel_tool_calls truncation personality".split()
)


@runtime_checkable
class TokenCounter(Protocol):
    """An upstream that counts tokens itself."""

    async def input_tokens(self, turn: Turn) -> int | None:
        """The tokens of the turn's input; None where the provider has no such count. Raises UpstreamRefused."""
        ...


def estimated_tokens(turn: Turn) -> int:
    """Of all that the model is given, as `token_estimate` has it."""
    shell = "" if turn.shell is None else turn.shell.description
    beside = [turn.instructions or "", shell, *turn.tools, turn.options.get("text")]
    return sum(map(tokens_of, beside)) + estimated_tokens_of(turn.input)


async def asked_of_provider(
    client: ProviderClient, responses_url: str, body: Mapping[str, object], *, access: Access, provider: str
) -> int | None:
    """What a server that speaks the Responses API counts for the body of a turn. Raises UpstreamRefused."""
    parts = urlsplit(responses_url)
    url = urlunsplit(parts._replace(path=f"{parts.path}/input_tokens"))
    counted = {key: value for key, value in body.items() if key in _COUNTED}
    return await counted_at(client, url, counted, access=access, provider=provider)


async def counted_at(
    client: ProviderClient, url: str, body: Mapping[str, object], *, access: Access, provider: str
) -> int | None:
    """The `input_tokens` that an address answers with; None where it has no such count. Raises UpstreamRefused."""
    content = msgspec.json.encode(body)
    headers = {"accept": "application/json", "content-type": "application/json", **access.headers}
    try:
        response = await client.post(url, content=content, headers=headers)
    except httpx2.TransportError as error:
        said = hide_key(reason_of(error), access.secret)
        raise UpstreamRefused(provider, None, f"it cannot be reached: {said}") from error
    if response.status_code in UNKNOWN:
        return None
    if not response.is_success:
        raise refusal(provider, response.status_code, response.content, access.secret)
    return _count_in(response.content)


def _count_in(body: bytes) -> int | None:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    count = value.get("input_tokens") if isinstance(value, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None

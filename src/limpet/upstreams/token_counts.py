"""How many tokens a turn's input has: by the provider, where it says, else by an estimate."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit, urlunsplit

import httpx2
import msgspec

from limpet.core.errors import UpstreamRefused
from limpet.upstreams.client import ProviderClient, reason_of
from limpet.upstreams.endpoints import Access
from limpet.upstreams.key_filter import hide_key
from limpet.upstreams.refusals import refusal
from limpet.upstreams.upstream import Turn

BYTES_OF_A_TOKEN = 4  # of English text and of code, about, with the tokenizers of the usual models
TOKENS_OF_AN_IMAGE = 1_000
TOKENS_OF_AN_ITEM = 4
# What a server answers with that does not know the address.
_UNKNOWN = frozenset({404, 405, 501})
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
    """A quarter of the bytes of all that the model is given, and a fixed number for each image and each item."""
    shell = "" if turn.shell is None else turn.shell.description
    texts = [turn.instructions or "", shell, *turn.tools, turn.options.get("text"), *turn.input]
    return sum(map(_tokens, texts)) + TOKENS_OF_AN_ITEM * len(turn.input)


def _tokens(value: object) -> int:
    if isinstance(value, str):
        if value.startswith("data:image/"):
            return TOKENS_OF_AN_IMAGE
        return math.ceil(len(value.encode(errors="replace")) / BYTES_OF_A_TOKEN)
    if isinstance(value, Mapping):
        return sum(_tokens(key) + _tokens(each) for key, each in value.items())
    if isinstance(value, Sequence):
        return sum(map(_tokens, value))
    return 0 if value is None else 1


async def asked_of_provider(
    client: ProviderClient, responses_url: str, body: Mapping[str, object], *, access: Access, provider: str
) -> int | None:
    """What a server that speaks the Responses API counts for the body of a turn. Raises UpstreamRefused."""
    parts = urlsplit(responses_url)
    url = urlunsplit(parts._replace(path=f"{parts.path}/input_tokens"))
    content = msgspec.json.encode({key: value for key, value in body.items() if key in _COUNTED})
    headers = {"accept": "application/json", "content-type": "application/json", **access.headers}
    try:
        response = await client.post(url, content=content, headers=headers)
    except httpx2.TransportError as error:
        said = hide_key(reason_of(error), access.secret)
        raise UpstreamRefused(provider, None, f"it cannot be reached: {said}") from error
    if response.status_code in _UNKNOWN:
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

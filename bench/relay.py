"""A provider's stream through the gateway, numbered and journalled on its way, beside the same client reading the provider."""

import sys
from functools import partial
from typing import Any

import httpx2

from bench.gateway import gateway, program
from bench.table import Line, Scale, by_turns, compared

PIECES = 2000
TARGET = f"≤ {PIECES / 20:.0f} ms (20,000 events/s)"


async def rows(scale: Scale) -> list[Line]:
    async with program([sys.executable, "-m", "bench.provider", str(PIECES)]) as provider:
        settings = f'[providers.bench]\ntype = "openai"\nbase_url = "{provider}"\n'
        async with (
            gateway(scale.runtime, settings) as url,
            httpx2.AsyncClient(trust_env=False, timeout=60.0) as client,
        ):
            stored, unstored, bare = await by_turns(
                partial(_read, client, f"{url}/v1/responses", model="bench/m"),
                partial(_read, client, f"{url}/v1/responses", model="bench/m", store=False),
                partial(_read, client, f"{provider}/responses", model="m"),
                n=scale.of(30),
            )
    name = f"relay of a provider's {PIECES} pieces of text"
    return [
        compared(f"{name}, stored", stored, "bare httpx2 reading the provider", bare, target=TARGET),
        compared(f"{name}, not stored", unstored, "bare httpx2 reading the provider", bare, target=TARGET),
    ]


async def _read(client: httpx2.AsyncClient, url: str, **body: Any) -> None:
    """Read a whole stream, as bytes, and see that every piece came."""
    pieces, rest = 0, b""
    async with client.stream("POST", url, json={"input": "hi", "stream": True, **body}) as response:
        async for data in response.aiter_raw():
            rest += data
            whole, _, rest = rest.rpartition(b"\n\n")
            pieces += whole.count(b"event: response.output_text.delta")
    if pieces != PIECES:
        raise RuntimeError(f"{pieces} of {PIECES} pieces came from {url}: {response.status_code} {rest[:500]!r}")

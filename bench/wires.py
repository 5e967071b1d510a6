"""CPU of the gateway for each event of a provider's stream, from socket to socket, on each wire that it reads itself."""

import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import httpx2

from bench.gateway import RunningProgram, gateway_process, program
from bench.table import Line, Row, Scale

PIECES = 2000
WIRES = ("openai", "openai_chat", "anthropic")
MICROSECONDS = 1_000_000
TARGET = "≤ 80 µs"
FLOOR = "the client alone, reading the provider"


async def rows(scale: Scale) -> list[Line]:
    async with AsyncExitStack() as stack:
        addresses = {
            wire: await stack.enter_async_context(program([sys.executable, "-m", "bench.provider", str(PIECES), wire]))
            for wire in WIRES
        }
        settings = "".join(
            f'[providers.{wire}]\ntype = "{wire}"\nbase_url = "{url}"\napi_key = "sk-of-the-benchmark"\n'
            for wire, url in addresses.items()
        )
        process = await stack.enter_async_context(gateway_process(scale.runtime, settings))
        client = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False, timeout=60.0))
        return [
            line
            for is_stored in (True, False)
            for line in await _measured(process, client, addresses["openai"], is_stored, scale.of(20))
        ]


async def _measured(
    process: RunningProgram, client: httpx2.AsyncClient, provider: str, is_stored: bool, rounds: int
) -> Sequence[Line]:
    """By turns; the first round of each wire, which opens connections, does not count."""
    used: dict[str, float] = dict.fromkeys(WIRES, 0.0)
    bare = 0.0
    url = f"{process.said}/v1/responses"
    for number in range(rounds + 1):
        for wire in WIRES:
            begun = process.cpu_seconds()
            await read_stream(client, url, model=f"{wire}/m", store=is_stored)
            used[wire] += (process.cpu_seconds() - begun) if number else 0.0
        begun = time.process_time()
        await read_stream(client, f"{provider}/responses", model="m")
        bare += (time.process_time() - begun) if number else 0.0
    each = MICROSECONDS / (rounds * PIECES)
    kept = "stored" if is_stored else "not stored"
    return [
        Row(
            name=f"CPU of the gateway for an event of {wire}, {kept}",
            ours=used[wire] * each,
            beside=FLOOR,
            floor=bare * each,
            unit="µs",
            n=rounds * PIECES,
            target=TARGET,
        )
        for wire in WIRES
    ]


async def read_stream(client: httpx2.AsyncClient, url: str, **body: object) -> None:
    """Read a whole stream, as bytes, and see that every piece came."""
    pieces, rest = 0, b""
    async with client.stream("POST", url, json={"input": "hi", "stream": True, **body}) as response:
        async for data in response.aiter_raw():
            rest += data
            whole, _, rest = rest.rpartition(b"\n\n")
            pieces += whole.count(b"event: response.output_text.delta")
    if pieces != PIECES:
        raise RuntimeError(f"{pieces} of {PIECES} pieces came from {url}: {response.status_code} {rest[:500]!r}")

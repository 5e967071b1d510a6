"""Streams as clients see them: the first byte, the time from the provider to the reader while many run at once, and a stream read again.

What a reader gets is on disk by then, so each delay is that of an event persisted and delivered.
"""

import math
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import httpx2

from bench.gateway import RunningProgram, gateway_process, program
from bench.table import Line, Row, Scale, by_turns, compared

MILLISECOND = 1_000_000  # in nanoseconds
PIECES = 2000
READ_AGAIN = f"≤ {PIECES / 50:.0f} ms (50,000 events/s)"
BEGUN_A_SECOND = 50  # streams; more would measure how requests begin
_SENT = re.compile(rb'"(?:delta|content)": ?"([0-9]+)"')
_DIGITS = 19


async def rows(scale: Scale) -> list[Line]:
    return [
        await _first_byte(scale),
        *await _at_once(scale, streams=20, rate=100, wire="openai_chat", targets=("≤ 15 ms", "≤ 50 ms")),
        *await _at_once(scale, streams=500, rate=3, wire="openai_chat", targets=("", "≤ 100 ms")),
        await _read_again(scale),
    ]


@asynccontextmanager
async def _running(scale: Scale, wire: str, *provider: str) -> AsyncIterator[tuple[RunningProgram, str]]:
    """A gateway and the provider that it asks."""
    async with program([sys.executable, "-m", "bench.provider", *provider]) as url:
        settings = (
            f'[server]\nlog_level = "warning"\n'
            f'[providers.bench]\ntype = "{wire}"\nbase_url = "{url}"\napi_key = "sk-of-the-benchmark"\n'
        )
        async with gateway_process(scale.runtime, settings) as process:
            yield process, url


def _client() -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx2.AsyncClient(trust_env=False, timeout=120.0, limits=limits)


async def _first_byte(scale: Scale) -> Line:
    """From the request to the first byte of its stream, of a provider that answers at once."""
    async with _running(scale, "openai", "5", "openai") as (process, provider), _client() as client:
        ours, floor = await by_turns(
            partial(_until_first_byte, client, f"{process.said}/v1/responses", "bench/m"),
            partial(_until_first_byte, client, f"{provider}/responses", "m"),
            n=scale.of(200),
        )
    return compared("first SSE byte, stored", ours, "bare httpx2 reading the provider", floor, target="≤ 10 ms")


async def _until_first_byte(client: httpx2.AsyncClient, url: str, model: str) -> None:
    body = {"model": model, "input": "hi", "stream": True}
    request = client.build_request("POST", url, json=body)
    response = await client.send(request, stream=True)
    await anext(response.aiter_raw())
    await response.aclose()


async def _at_once(scale: Scale, *, streams: int, rate: int, wire: str, targets: tuple[str, str]) -> list[Line]:
    """Streams side by side, of `rate` events a second each: the delay of each event sent while all run, and what it costs the gateway."""
    ramp, window = streams / BEGUN_A_SECOND, float(scale.of(10))
    count = math.ceil(rate * (ramp + window))
    async with _running(scale, wire, str(count), wire, str(1 / rate)) as (process, provider), _client() as client:
        floor, _ = await _delays(client, f"{provider}/responses", streams, ramp, window, model="m")
        ours, used = await _delays(
            client, f"{process.said}/v1/responses", streams, ramp, window, model="bench/m", process=process
        )
    name = f"{streams} streams of {wire} at {streams * rate} events/s"
    beside = "the provider itself"
    lines: list[Line] = [
        Row(
            name=f"{name}, from the provider to the reader, p{at}",
            ours=_percentile(ours, at),
            beside=beside,
            floor=_percentile(floor, at),
            unit="ms",
            n=len(ours),
            target=target,
        )
        for at, target in zip((50, 99), targets, strict=True)
    ]
    cost = used / len(ours) * 1_000_000
    cpu = Row(
        name=f"{name}, CPU an event", ours=cost, beside="none", floor=0.0, unit="µs", n=len(ours), target="≤ 80 µs"
    )
    return [*lines, cpu]


async def _delays(
    client: httpx2.AsyncClient,
    url: str,
    streams: int,
    ramp: float,
    window: float,
    *,
    model: str,
    process: RunningProgram | None = None,
) -> tuple[list[float], float]:
    """Of each event sent in the window, in milliseconds, and the CPU seconds of `process` in it. Streams begin one after the other during
    `ramp` seconds; then the window begins."""
    delays: list[float] = []
    first = time.monotonic_ns() + int(ramp * 1000) * MILLISECOND
    last = first + int(window * 1000) * MILLISECOND

    async def read(number: int) -> None:
        await anyio.sleep(number * ramp / streams)
        body = {"model": model, "input": "hi", "stream": True}
        rest = b""
        async with client.stream("POST", url, json=body) as response:
            if not response.is_success:
                raise RuntimeError(f"The gateway said {response.status_code}.")
            async for data in response.aiter_raw():
                now = time.monotonic_ns()
                whole, _, rest = (rest + data).rpartition(b"\n\n")
                moments = [
                    int(text[at : at + _DIGITS]) for text in _SENT.findall(whole) for at in range(0, len(text), _DIGITS)
                ]
                delays.extend((now - sent) / MILLISECOND for sent in moments if first <= sent < last)

    used = 0.0
    async with anyio.create_task_group() as tasks:
        for number in range(streams):
            tasks.start_soon(read, number)
        await anyio.sleep(ramp)
        used -= process.cpu_seconds() if process is not None else 0.0
        await anyio.sleep(window)
        used += process.cpu_seconds() if process is not None else 0.0
    return delays, used


def _percentile(values: list[float], at: int) -> float:
    return statistics.quantiles(values, n=100)[at - 1]


async def _read_again(scale: Scale) -> Line:
    """A stored stream from its beginning, beside the provider that made it."""
    async with _running(scale, "openai", str(PIECES), "openai") as (process, provider), _client() as client:
        body = {"model": "bench/m", "input": "hi", "background": True}
        created = (await client.post(f"{process.said}/v1/responses", json=body)).raise_for_status().json()
        url = f"{process.said}/v1/responses/{created['id']}?stream=true&include_obfuscation=false"
        ours, floor = await by_turns(
            partial(_pieces, client, "GET", url),
            partial(
                _pieces, client, "POST", f"{provider}/responses", json={"model": "m", "input": "hi", "stream": True}
            ),
            n=scale.of(30),
        )
    name = f"replay of a stored stream of {PIECES} pieces"
    return compared(name, ours, "bare httpx2 reading the provider", floor, target=READ_AGAIN)


async def _pieces(client: httpx2.AsyncClient, method: str, url: str, **asked: object) -> None:
    pieces, rest = 0, b""
    async with client.stream(method, url, **asked) as response:  # type: ignore[arg-type]  # it takes what requests take
        async for data in response.aiter_raw():
            whole, _, rest = (rest + data).rpartition(b"\n\n")
            pieces += whole.count(b"event: response.output_text.delta")
    if pieces != PIECES:
        raise RuntimeError(f"{pieces} of {PIECES} pieces came: {response.status_code} {rest[:500]!r}")

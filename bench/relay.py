"""How much the relay of a provider's stream costs, beside a bare reader of the same lines in the same run.

`python bench/relay.py [EVENTS]` prints a table; both sides read the same canned answer from a process of its own, over loopback.
"""

import asyncio
import json
import multiprocessing
import socket
import sys
import time
from collections.abc import Awaitable, Callable

import httpx2

from limpet.upstreams.relay import RelayUpstream
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import Turn

ROUNDS = 5


def canned(events: int) -> bytes:
    """An answer of so many text deltas, as OpenAI frames them."""
    place = {"content_index": 0, "item_id": "msg_" + "0" * 50, "output_index": 0, "logprobs": []}
    kind = "response.output_text.delta"
    frames = [
        f"event: {kind}\ndata: "
        + json.dumps(
            {"type": kind, **place, "delta": f" word{at % 100}", "obfuscation": "x" * 12, "sequence_number": at}
        )
        for at in range(events - 1)
    ]
    end = {
        "type": "response.completed",
        "response": {"model": "m", "usage": {"input_tokens": 1, "output_tokens": events}},
    }
    frames.append("event: response.completed\ndata: " + json.dumps(end))
    return ("\n\n".join(frames) + "\n\n").encode()


def serve(listener: socket.socket, body: bytes) -> None:
    """Answer every request of every connection with the canned answer; ends with its parent."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    while True:
        connection, _ = listener.accept()
        with connection:
            request = b""
            while b'"stream":true' not in request and b'"stream": true' not in request:
                request += connection.recv(65_536)
            connection.sendall(head.encode() + body)


async def bare(address: str) -> int:
    """httpx2's own lines, nothing decoded: the floor."""
    seen = 0
    async with (
        httpx2.AsyncClient() as client,
        client.stream("POST", f"{address}/responses", json={"stream": True}) as response,
    ):
        async for line in response.aiter_lines():
            seen += line.startswith("data:")
    return seen


async def relayed(address: str) -> int:
    """The relay: framed, decoded, lifted into turn events."""
    seen = 0
    async with RelayUpstream(ProviderSettings(name="bench", type="openai", base_url=address)) as upstream:
        async for _ in upstream.stream(Turn(model="m", input=[])):
            seen += 1
    return seen


def best(name: str, way: Callable[[str], Awaitable[int]], address: str, events: int) -> float:
    """Events per second, the best of the rounds."""
    fastest = 0.0
    for _ in range(ROUNDS):
        start = time.perf_counter()
        seen = asyncio.run(_run(way, address))
        fastest = max(fastest, seen / (time.perf_counter() - start))
        if seen != events:
            raise SystemExit(f"{name}: {seen} of {events} events arrived")
    return fastest


async def _run(way: Callable[[str], Awaitable[int]], address: str) -> int:
    return await way(address)


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = multiprocessing.get_context("fork").Process(target=serve, args=(listener, canned(events)), daemon=True)
        server.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            floor = best("bare", bare, address, events)
            ours = best("relay", relayed, address, events)
        finally:
            server.terminate()
            server.join()
    print(f"relay of a provider's stream, {events} events, best of {ROUNDS}")
    print(f"  bare httpx2 lines  {floor:>10,.0f} events/s")
    print(f"  relay              {ours:>10,.0f} events/s   {floor / ours:.2f} x the floor's time")


if __name__ == "__main__":
    main()

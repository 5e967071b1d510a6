"""A server in a box that never pauses holds up nobody: what else the gateway has to do goes on."""

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import pytest

from limpet.server.port_connection import BadAnswer, BoxSocket, PortExchange

pytestmark = pytest.mark.anyio
FLOOD_SECONDS = 0.5
LEAST_BEATS = 5  # of fifty: a busy machine has fewer, a frozen loop none


@contextmanager
def flooded(first: bytes, again: bytes) -> Iterator[BoxSocket]:
    """A connection whose other end sends `first` once, and `again` for as long as the block lasts."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def flood() -> None:
        try:
            theirs.sendall(first)
            while True:
                theirs.sendall(again)
        except OSError:
            pass

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    try:
        yield BoxSocket(ours)
    finally:
        theirs.shutdown(socket.SHUT_RDWR)
        ours.close()
        thread.join(5)
        theirs.close()


@asynccontextmanager
async def beating() -> AsyncIterator[list[float]]:
    beats: list[float] = []

    async def beat() -> None:
        while True:
            await anyio.sleep(0.01)
            beats.append(anyio.current_time())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        yield beats
        tasks.cancel_scope.cancel()


async def test_informational_answers_without_end_are_refused() -> None:
    with flooded(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100) as connection:
        exchange = PortExchange(connection)
        await exchange.send_head(b"GET", b"/", [(b"host", b"localhost")])
        await exchange.send_body()
        with pytest.raises(BadAnswer, match="informational"):
            await exchange.head()


async def test_a_body_of_tiny_chunks_leaves_the_others_their_turn() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with flooded(head, b"1\r\nx\r\n" * 1000) as connection:
        exchange = PortExchange(connection)
        await exchange.send_head(b"GET", b"/", [(b"host", b"localhost")])
        await exchange.send_body()
        await exchange.head()
        async with beating() as beats:
            with anyio.move_on_after(FLOOD_SECONDS) as flood:
                async for _ in exchange.body():
                    pass
            assert flood.cancelled_caught
            assert len(beats) >= LEAST_BEATS

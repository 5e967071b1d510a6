"""A connection that an intercepted host switches to another protocol (101): what comes counts as carried, in both directions."""

import socket

import anyio
import pytest

from limpet.egress.host_patterns import HostPattern
from limpet.egress.http_exchange import HttpCarrier
from limpet.egress.http_heads import RequestHead
from limpet.egress.policy import Admitted, Decision
from limpet.egress.secrets import PlacedSecret, SecretRewriter
from limpet.egress.streams import ReadAhead, SocketStream

pytestmark = pytest.mark.anyio
HOST = "api.example.com"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def pair() -> tuple[ReadAhead, ReadAhead]:
    return tuple(ReadAhead(SocketStream(end)) for end in socket.socketpair())  # type: ignore[return-value]  # two of two


class CountingExchange:
    """Every request goes to the one connection; `moves` counts what was carried."""

    def __init__(self, upstream: ReadAhead) -> None:
        self._upstream = upstream
        self.moves = 0

    def decide(self, head: RequestHead) -> Decision:
        return Admitted(host=HOST, port=443, rule=HOST)

    def rewriting(self, admitted: Admitted, head: RequestHead) -> SecretRewriter:
        return SecretRewriter(head, [PlacedSecret(name="T", value=b"the-value-of-it", hosts=(HostPattern(HOST),))])

    async def connect(self, admitted: Admitted) -> ReadAhead:
        return self._upstream

    def note(self, decision: Decision) -> None:
        assert isinstance(decision, Admitted)

    def moved(self) -> None:
        self.moves += 1


async def test_what_a_host_sends_after_101_is_carried_as_what_the_box_sends() -> None:
    (program, box), (upstream, host) = pair(), pair()
    exchange = CountingExchange(upstream)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks, program, host, box:
            tasks.start_soon(HttpCarrier(box, exchange).run)
            await program.send(
                b"GET / HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            )
            await host.head()
            await host.send(SWITCHED)
            assert await program.head() == SWITCHED
            for count in range(1, 4):
                await host.send(b"piece")
                assert await program.receive() == b"piece"
                assert exchange.moves == count
            await host.aclose()

"""An intercepted connection between a box's program and real TLS servers on loopback: what the servers saw is what left."""

import asyncio
import base64
import hashlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import anyio
import pytest
import trustme

from limpet.egress.authority import Authority
from limpet.egress.door import DoorLimits
from limpet.egress.host_patterns import HostPattern
from limpet.egress.http_heads import MOST_HEAD
from limpet.egress.interception import Interceptor
from limpet.egress.policy import EgressPolicy, read_policy
from limpet.egress.secrets import MOST_BODY, PlacedSecret
from tests.support.doors import BOUND, OpenDoor, open_door

pytestmark = pytest.mark.anyio
HOST = "api.good.example"
VALUE = b"(s3cr3t)+.*[a-z]$^\\d{2}|?&%41"
SECRET = PlacedSecret(name="TOKEN", value=VALUE, hosts=(HostPattern(HOST),), in_body=True)
KEY = b"X-Key: " + SECRET.placeholder
GET = b"GET / HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\n" + KEY + b"\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
Serve = Callable[[ssl.SSLSocket, bytearray], None]


@dataclass
class TlsHost:
    """A server that is done with a connection when its `serve` is. `seen` is what reached it."""

    port: int
    tls: ssl.SSLContext
    seen: bytearray = field(default_factory=bytearray)
    protocols: list[str | None] = field(default_factory=list)


def answering(data: bytes) -> Serve:
    """Reads a request with its body and answers with this, for as long as requests come."""

    def serve(connection: ssl.SSLSocket, seen: bytearray) -> None:
        while True:
            begun = len(seen)
            while not _is_whole(seen[begun:]):
                if not (piece := connection.recv(65_536)):
                    return
                seen += piece
            connection.sendall(data)

    return serve


def _is_whole(request: bytearray) -> bool:
    head, found, body = request.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    return bool(found)


@contextmanager
def tls_host(
    serve: Serve, *names: str, before_tls: bool = False, dates: Mapping[str, datetime] = MappingProxyType({})
) -> Iterator[TlsHost]:
    """With a certificate for these names (or HOST) of an authority that is trusted. `before_tls`: it never shakes hands."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or (HOST,)), **dates).configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    trust = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    trust.set_alpn_protocols(["http/1.1"])
    listener = socket.create_server(("127.0.0.1", 0))
    host = TlsHost(listener.getsockname()[1], trust)
    accepted_ones: list[socket.socket] = []

    def one(accepted: socket.socket) -> None:
        try:
            accepted.settimeout(BOUND)
            if before_tls:
                while accepted.recv(65_536):
                    pass
                return
            with context.wrap_socket(accepted, server_side=True) as connection:
                host.protocols.append(connection.selected_alpn_protocol())
                serve(connection, host.seen)
        except OSError:
            pass

    def run() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            accepted_ones.append(accepted)
            threading.Thread(target=one, args=(accepted,), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(BOUND)
        for each in accepted_ones:
            each.close()


@dataclass
class Opened:
    """A program's connection in a tunnel to HOST, and its door."""

    door: OpenDoor
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, data: bytes) -> bytes:
        """All that is answered, until the end."""
        self.writer.write(data)
        with anyio.fail_after(BOUND):
            return await self.reader.read()


@asynccontextmanager
async def intercepting(
    host: TlsHost, *, limits: DoorLimits | None = None
) -> AsyncIterator[tuple[OpenDoor, Interceptor]]:
    interceptor = Interceptor(lambda: (SECRET,), Authority.for_hosts(SECRET.hosts), tls=host.tls)
    async with open_door(policy(host), limits=limits, interceptor=interceptor) as door:
        yield door, interceptor


def policy(host: TlsHost) -> EgressPolicy:
    return read_policy([HOST], ports=[host.port], networks=["127.0.0.0/8"])


@asynccontextmanager
async def program(host: TlsHost, *, limits: DoorLimits | None = None) -> AsyncIterator[Opened]:
    """TLS in a tunnel, as a program of the box has it that trusts the box's authority."""
    async with intercepting(host, limits=limits) as (door, interceptor):
        reader, writer = await tunnelled(door, host)
        trust = ssl.create_default_context(cadata=interceptor.certificate.decode())
        trust.set_alpn_protocols(["h2", "http/1.1"])
        await writer.start_tls(trust, server_hostname=HOST)
        try:
            yield Opened(door, reader, writer)
        finally:
            writer.close()


async def tunnelled(door: OpenDoor, host: TlsHost) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port, limit=1 << 20)
    target = f"{HOST}:{host.port}"
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    return reader, writer


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    "names, dates",
    [
        ((), {"not_before": NOW - timedelta(days=9), "not_after": NOW - timedelta(days=1)}),
        ((), {"not_before": NOW + timedelta(days=1), "not_after": NOW + timedelta(days=9)}),
        (("other.good.example",), {}),
        (("*.api.good.example",), {}),
        (("127.0.0.1",), {}),
    ],
    ids=["expired", "not yet valid", "of another name", "of the names below it", "of its address"],
)
async def test_a_host_with_a_wrong_certificate_gets_no_byte_of_a_request(
    names: tuple[str, ...], dates: dict[str, datetime]
) -> None:
    with tls_host(answering(OK), *names, dates=dates) as host:
        async with program(host) as opened:
            answer = await opened.ask(GET + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"X-Limpet-Refused: certificate_not_trusted" in answer
    assert host.seen == b""


async def test_a_host_that_vouches_for_itself_gets_no_byte_of_a_request() -> None:
    with tls_host(answering(OK)) as host, tls_host(answering(OK)) as other:
        host.tls = other.tls  # of the same name, by an authority of its own
        async with program(host) as opened:
            answer = await opened.ask(GET + b"\r\n")
    assert b"X-Limpet-Refused: certificate_not_trusted" in answer
    assert host.seen == b""


async def test_both_sides_are_offered_http_1_1_alone() -> None:
    with tls_host(answering(OK)) as host:
        async with program(host) as opened:
            assert opened.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            assert (await opened.ask(GET + b"Connection: close\r\n\r\n")).endswith(b"hello")
        async with program(host) as opened:
            assert (await opened.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert host.protocols == ["http/1.1"]
    assert b"\r\nX-Key: " + VALUE + b"\r\n" in host.seen


async def test_a_long_body_gets_its_values_piece_by_piece_in_chunks() -> None:
    filler = b"x" * (MOST_BODY - 20)
    body = filler + SECRET.placeholder + filler + SECRET.placeholder
    head = b"POST / HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    with tls_host(answering(OK)) as host:
        async with program(host) as opened:
            answer = await opened.ask(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            records = opened.door.records
            with anyio.fail_after(BOUND):
                while not records:
                    await anyio.sleep(0.005)
    assert answer.endswith(b"hello")
    sent, _, chunks = bytes(host.seen).partition(b"\r\n\r\n")
    assert b"\r\nTransfer-Encoding: chunked" in sent
    assert b"content-length" not in sent.lower()
    assert unchunked(chunks) == filler + VALUE + filler + VALUE
    assert records[0].secrets == ("TOKEN",)


def unchunked(data: bytes) -> bytes:
    whole = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        if (count := int(size, 16)) == 0:
            return whole
        whole, data = whole + data[:count], data[count + 2 :]


async def test_a_websocket_is_opened_with_the_value_and_what_comes_back_is_searched() -> None:
    key = base64.b64encode(bytes(16))
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())

    def serve(connection: ssl.SSLSocket, seen: bytearray) -> None:
        while b"\r\n\r\n" not in seen:
            seen += connection.recv(65_536)
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        frame = connection.recv(65_536)
        seen += frame
        connection.sendall(b"\x81%c" % len(VALUE) + VALUE + frame)
        connection.recv(65_536)

    asked = GET + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key
    with tls_host(serve) as host:
        async with program(host) as opened:
            opened.writer.write(asked + b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
            with anyio.fail_after(BOUND):
                said = await opened.reader.readuntil(b"\r\n\r\n")
                opened.writer.write(b"\x81\x83\0\0\0\0abc")
                got = await opened.reader.readexactly(2 + len(VALUE) + 9)
    assert said.startswith(b"HTTP/1.1 101 ")
    assert accept in said
    assert VALUE in host.seen
    assert b"extensions" not in host.seen.lower()  # what is compressed could not be searched
    assert got == b"\x81%c" % len(VALUE) + b"*" * len(VALUE) + b"\x81\x83\0\0\0\0abc"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * (MOST_HEAD + 65_536) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    ],
    ids=["a long field", "many fields", "two lengths", "both lengths", "no end of continues"],
)
async def test_a_host_that_answers_what_could_be_read_in_two_ways_is_not_passed_on(answer: bytes) -> None:
    with tls_host(answering(answer)) as host:
        async with program(host) as opened:
            got = await opened.ask(GET + b"\r\n")
    assert b"X-Limpet-Refused: malformed" in got
    assert len(got) < 4096


Slow = Callable[[TlsHost, OpenDoor], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def _as_a_request(host: TlsHost, door: OpenDoor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", door.port)


async def _in_a_tunnel(host: TlsHost, door: OpenDoor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await tunnelled(door, host)


@pytest.mark.parametrize("opened, drop", [(_as_a_request, b"G"), (_in_a_tunnel, b"\x16"), (_in_a_tunnel, b"")])
async def test_a_program_that_dribbles_its_beginning_is_left(opened: Slow, drop: bytes) -> None:
    with tls_host(answering(OK)) as host:
        async with intercepting(host, limits=DoorLimits(beginning=1.0)) as (door, _):
            reader, writer = await opened(host, door)
            await dribbled(drop, reader, writer)
            with anyio.fail_after(BOUND):
                while door.door.connections:
                    await anyio.sleep(0.005)
    assert host.seen == b""


async def dribbled(drop: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One drop after the other, until the other side has had enough."""
    with anyio.fail_after(BOUND):
        try:
            while not reader.at_eof():
                writer.write(drop)
                with anyio.move_on_after(0.02):
                    await reader.read(65_536)
        except ConnectionError:
            pass
    writer.close()


async def test_a_program_that_dribbles_its_next_head_is_left() -> None:
    with tls_host(answering(OK)) as host:
        async with program(host, limits=DoorLimits(beginning=1.5)) as opened:
            opened.writer.write(GET + b"\r\n")
            with anyio.fail_after(BOUND):
                assert (await opened.reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
            await dribbled(b"G", opened.reader, opened.writer)
    assert host.seen.count(b"GET /") == 1


async def test_a_host_that_never_shakes_hands_is_given_up() -> None:
    with tls_host(answering(OK), before_tls=True) as host:
        async with program(host, limits=DoorLimits(beginning=1.5)) as opened:
            answer = await opened.ask(GET + b"\r\n")
    assert b"X-Limpet-Refused: unreachable" in answer


async def test_a_host_that_dribbles_and_a_program_that_does_not_read_end_when_nothing_moves() -> None:
    is_over = threading.Event()

    def serve(connection: ssl.SSLSocket, seen: bytearray) -> None:
        while b"\r\n\r\n" not in seen:
            seen += connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhell")
        is_over.wait(BOUND)

    with tls_host(serve) as host:
        async with program(host, limits=DoorLimits(idle=0.4)) as opened:
            answer = await opened.ask(GET + b"\r\n")
            is_over.set()
            assert opened.door.door.connections == 0
    assert answer.endswith(b"\r\n\r\nhell")

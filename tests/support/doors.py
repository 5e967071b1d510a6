"""A door on loopback sockets, an upstream that logs what reached it, and a client that speaks raw bytes to the door."""

import asyncio
import re
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import trustme

from limpet.core.network import DoorListeners
from limpet.egress.door import Door, DoorLimits
from limpet.egress.interception import Interceptor
from limpet.egress.policy import EgressPolicy, read_policy
from limpet.egress.records import EgressRecord, OnRecord

BOUND = 20.0


@dataclass
class Upstream:
    """A server on 127.0.0.1: `seen` are the requests that reached it, `names` the SNI of each handshake, `dials` its connections."""

    port: int
    trust: str = ""
    seen: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    dials: int = 0


@contextmanager
def upstream(*hosts: str, tls: bool = True, answer: bytes = b"hello", closes: bool = False) -> Iterator[Upstream]:
    """Answers every request with `answer`, for the time of the block; `closes` its connection after one, and does not say so."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if tls:
        authority.issue_cert(*hosts).configure_cert(context)
    context.sni_callback = lambda _socket, name, _context: up.names.append(name)
    listener = socket.create_server(("127.0.0.1", 0))
    up = Upstream(port=listener.getsockname()[1], trust=authority.cert_pem.bytes().decode())

    def serve_one(accepted: socket.socket) -> None:
        try:
            accepted.settimeout(BOUND)
            with context.wrap_socket(accepted, server_side=True) if tls else accepted as connection:
                while True:
                    data = b""
                    while b"\r\n\r\n" not in data:
                        if not (piece := connection.recv(65_536)):
                            return
                        data += piece
                    while not _is_whole(data) and (piece := connection.recv(65_536)):
                        data += piece
                    up.seen.append(data)
                    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: keep-alive\r\n\r\n" % len(answer)
                    connection.sendall(head + answer)
                    if closes:
                        return
        except OSError:
            pass

    def serve() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            up.dials += 1
            threading.Thread(target=serve_one, args=(accepted,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield up
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(BOUND)


def _is_whole(request: bytes) -> bool:
    """Whether the body of a request is there too."""
    head, _, body = request.partition(b"\r\n\r\n")
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: (\d+)", head.lower())
    return length is None or len(body) >= int(length[1])


@dataclass
class OpenDoor:
    door: Door
    port: int
    names: int
    records: list[EgressRecord]
    asked: list[str]
    scope: anyio.CancelScope

    async def say(self, data: bytes, *, until_end: bool = True) -> bytes:
        """What the door answers to these bytes, until it closes."""
        with anyio.fail_after(BOUND):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(data)
                return await reader.read() if until_end else await reader.read(65_536)
            finally:
                writer.close()


@asynccontextmanager
async def open_door(
    policy: EgressPolicy,
    answers: Mapping[str, Sequence[str]] | None = None,
    *,
    limits: DoorLimits | None = None,
    audit: OnRecord = lambda _record: None,
    interceptor: Interceptor | None = None,
) -> AsyncIterator[OpenDoor]:
    """`answers` are what names resolve to; all others to 127.0.0.1. `audit` gets what would be logged."""
    records: list[EgressRecord] = []
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return (answers or {}).get(host, ["127.0.0.1"])

    web = socket.create_server(("127.0.0.1", 0))
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 0))
    door = Door(
        "box", policy, resolve=resolve, on_record=records.append, audit=audit, limits=limits, interceptor=interceptor
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(door.serve, DoorListeners(web={80: web}, names=names))
        yield OpenDoor(door, web.getsockname()[1], names.getsockname()[1], records, asked, tasks.cancel_scope)
        tasks.cancel_scope.cancel()


def policy_for(*hosts: str, port: int = 443, networks: Sequence[str] = ("127.0.0.0/8",)) -> EgressPolicy:
    """Hosts on a port beside the web's, which may lie on loopback."""
    return read_policy(hosts, ports=[port], networks=networks)


def trusting(up: Upstream) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=up.trust)


def tls_through(
    door_port: int, up: Upstream, authority: str, sni: str, request: bytes, *, path: Path | None = None
) -> bytes:
    """A CONNECT to `authority`, TLS for `sni` in it, and the answer to a request. Blocking."""
    with socket.create_connection(("127.0.0.1", door_port), timeout=BOUND) as plain:
        plain.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        said = plain.recv(65_536)
        if not said.startswith(b"HTTP/1.1 200"):
            return said
        with trusting(up).wrap_socket(plain, server_hostname=sni) as secure:
            secure.sendall(request)
            answer = b""
            while b"\r\n\r\n" not in answer or not answer.endswith(b"hello"):
                if not (piece := secure.recv(65_536)):
                    break
                answer += piece
            return answer

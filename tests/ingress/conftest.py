"""A server of `limpet.ingress` with a small application, over real sockets, in a thread of its own."""

import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import Receive, Scope, Send

from limpet.ingress.limits import ConnectionLimits
from limpet.ingress.refusals import Refusal
from limpet.ingress.server import HttpServer, listening_socket


@dataclass
class Served:
    """Where it is, what it has logged, and how its application's requests ended."""

    port: int
    portal: BlockingPortal
    server: HttpServer
    notices: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def connect(self, *, receive_buffer: int | None = None) -> socket.socket:
        client = socket.socket()
        client.settimeout(10)
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(("127.0.0.1", self.port))
        return client

    def ask(self, data: bytes) -> tuple[int, bytes]:
        """Send this on a connection of its own: the status and body of what comes back until its end."""
        with self.connect() as client:
            try:
                client.sendall(data)
            except OSError:
                pass  # refused before all of it was sent
            return answer(client)

    def wait_until(self, is_true: Callable[[], bool], *, seconds: float = 5.0) -> None:
        """Asks in the server's thread. Fails after `seconds`."""
        until = time.monotonic() + seconds
        while not self.portal.call(is_true):
            assert time.monotonic() < until, f"not within {seconds} s"
            time.sleep(0.01)

    def is_alive(self) -> bool:
        return self.ask(b"GET /alive HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") == (200, b"0")


def answer(client: socket.socket) -> tuple[int, bytes]:
    """The status and body of the first answer; 0 where the connection ended without one."""
    data = b""
    while True:
        try:
            piece = client.recv(65536)
        except ConnectionResetError:
            break
        if not piece:
            break
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]), body) if head else (0, b"")


Serve = Callable[..., AbstractContextManager[Served]]


@pytest.fixture
def serve() -> Serve:
    """`with serve(max_headers=8) as served:` with those limits."""

    @contextmanager
    def serving(**limits: Any) -> Iterator[Served]:
        with (
            start_blocking_portal("asyncio") as portal,
            portal.wrap_async_context_manager(_served(portal, ConnectionLimits(**limits))) as served,
        ):
            yield served

    return serving


@asynccontextmanager
async def _served(portal: BlockingPortal, limits: ConnectionLimits) -> AsyncIterator[Served]:
    ended: list[str] = []
    notices: list[tuple[str, dict[str, Any]]] = []
    with listening_socket("127.0.0.1", 0) as listener:
        server = HttpServer(
            _application(ended),
            render=_rendered,
            write=lambda event, **facts: notices.append((event, facts)),
            limits=limits,
            grace=1,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: server.serve(sockets=[listener]))
            while not server.started:
                await anyio.sleep(0)
            yield Served(listener.getsockname()[1], portal, server, notices, ended)
            server.should_exit = True


def _rendered(refusal: Refusal) -> bytes:
    return json.dumps({"code": refusal.code, "message": refusal.message}).encode()


def _application(ended: list[str]) -> Callable[[Scope, Receive, Send], Any]:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        try:
            if path == "/endless":
                await _endless(receive, send)
            elif path == "/waits":
                await _until_left(receive)
            else:
                await _answer_length(receive, send, scope)
        finally:
            ended.append(path)

    return application


async def _endless(receive: Receive, send: Send) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_send_endlessly, send)
        await _until_left(receive)
        tasks.cancel_scope.cancel()


async def _send_endlessly(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": bytes(64 * 1024), "more_body": True})
        await anyio.sleep(0)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer_length(receive: Receive, send: Send, scope: Scope) -> None:
    size, is_whole = 0, False
    while not is_whole:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
    names = b",".join(name for name, _ in scope["headers"]) if scope["path"] == "/headers" else str(size).encode()
    headers = [(b"content-length", str(len(names)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": names})

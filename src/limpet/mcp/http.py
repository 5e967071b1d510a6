"""Clients over streamable HTTP: each session has a server and a box of its own, which end with it."""

import json
import logging
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.types import INTERNAL_ERROR, INVALID_REQUEST, UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from limpet.core.errors import LimpetError
from limpet.core.signals import signalled
from limpet.ingress.refusals import Refusal
from limpet.ingress.server import HttpServer
from limpet.mcp.door import Door
from limpet.mcp.session import Offering, session

PATH = "/mcp"
SESSION = "mcp-session-id"
LARGEST = 64 << 20  # bytes of one request
GRACE = 2  # seconds that open streams get when the server stops

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`sessions` at once, each with a box; one ends when no request of it was open for `idle` seconds."""

    sessions: int = 16
    idle: float = 1200.0


async def serve(
    offering: Offering,
    listener: socket.socket,
    *,
    door: Callable[[ASGIApp], Door],
    bounds: Bounds,
    ready: Callable[[], None],
) -> None:
    """Serve until a signal comes. `ready` is called when requests are answered."""
    sessions = Sessions(offering, bounds)
    server = HttpServer(door(sessions), render=_refusal_body, write=_warn, ready=ready, grace=GRACE)
    async with signalled() as stopping, anyio.create_task_group() as tasks:
        async with sessions:
            tasks.start_soon(partial(server.serve, sockets=[listener]))
            await stopping.wait()
        server.should_exit = True  # its open streams have ended with their sessions


class Sessions:
    """An ASGI application. The handshake opens a session; DELETE, idleness and the end of `async with` end it, and its box."""

    def __init__(self, offering: Offering, bounds: Bounds) -> None:
        self._offering = offering
        self._bounds = bounds
        self._transports: dict[str, StreamableHTTPServerTransport] = {}
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        return await self._stack.__aexit__(kind, error, trace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = await self._answer(scope, receive, send)
        if answer is not None:
            await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """A refusal; None where a session has answered."""
        headers = Headers(scope=scope)
        if scope["path"] != PATH:
            return _refusal(404, INVALID_REQUEST, f"There is nothing here; the server is at {PATH}.")
        spoken = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if spoken is not None and spoken not in HANDSHAKE_PROTOCOL_VERSIONS:
            return _unsupported(spoken)
        body = await _body(receive, headers)
        if body is None:
            return _refusal(413, INVALID_REQUEST, f"A request may have {LARGEST >> 20} MiB.")
        name = headers.get(SESSION)
        transport = None if name is None else self._transports.get(name)
        if name is not None and transport is None:
            return _refusal(
                404, INVALID_REQUEST, "There is no such session, or it has ended. Open one with initialize."
            )
        if transport is None:
            if not _is_initialize(body):
                return _refusal(
                    400, INVALID_REQUEST, f"Without a session (header {SESSION}) only initialize is answered."
                )
            opened = await self._open()
            if isinstance(opened, Response):
                return opened
            transport = opened
        await transport.handle_request(scope, _again(body, receive), send)
        return None

    async def _open(self) -> StreamableHTTPServerTransport | Response:
        if self._tasks is None or len(self._transports) >= self._bounds.sessions:
            return _refusal(
                503, INTERNAL_ERROR, f"{self._bounds.sessions} sessions are open, and no more may be. Try later."
            )
        name = uuid4().hex
        transport = StreamableHTTPServerTransport(name, idle_timeout=self._bounds.idle)
        self._transports[name] = transport
        try:
            await self._tasks.start(self._carry, name, transport)
        except LimpetError as error:
            return _refusal(503, INTERNAL_ERROR, error.message)
        return transport

    async def _carry(
        self, name: str, transport: StreamableHTTPServerTransport, *, task_status: TaskStatus[None]
    ) -> None:
        """One session from its box's start to its end."""
        is_open = False
        try:
            async with transport.connect() as (reading, writing), session(self._offering) as server:
                is_open = True
                task_status.started()
                with transport.idle_scope or nullcontext():
                    await server.run(reading, writing, server.create_initialization_options())
        except Exception:
            if not is_open:
                raise
            log.exception("An MCP session failed.")  # the other sessions go on; this one's client gets 404 from now on
        finally:
            self._transports.pop(name, None)
            with anyio.CancelScope(shield=True):
                await transport.terminate()


async def _body(receive: Receive, headers: Headers) -> bytes | None:
    """The request's whole body; None where it is too large."""
    if int(headers.get("content-length", "0")) > LARGEST:
        return None
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """The request once more from its beginning."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


def _is_initialize(body: bytes) -> bool:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(asked, dict) and asked.get("method") == "initialize"


def _unsupported(spoken: str) -> Response:
    """That version has no sessions, and a box belongs to one: clients go on with the handshake of an older one."""
    message = f"Protocol version {spoken} has no sessions, which a box belongs to. Over HTTP use one with a handshake."
    data = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": spoken}
    return _refusal(400, UNSUPPORTED_PROTOCOL_VERSION, message, data=data)


def _refusal(status: int, code: int, message: str, *, data: object = None) -> Response:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=status)


def _refusal_body(refusal: Refusal) -> bytes:
    """The same for a request that never became one (`limpet.ingress`)."""
    return bytes(_refusal(refusal.status, INVALID_REQUEST, refusal.message).body)


def _warn(event: str, **facts: object) -> None:
    log.warning("%s %s", event, " ".join(f"{name}={value!r}" for name, value in facts.items()))

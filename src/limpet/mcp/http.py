"""Clients over streamable HTTP: each session has a server and a box of its own, which end with it."""

import logging
import math
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
from limpet.core.loopback import is_loopback
from limpet.core.signals import signalled
from limpet.ingress.connections import source_of
from limpet.ingress.memory import MemoryBudget
from limpet.ingress.refusals import Refusal
from limpet.ingress.server import HttpServer
from limpet.mcp.handshake import LARGEST_HANDSHAKE, handshake_refusal
from limpet.mcp.http_guard import HttpGuard
from limpet.mcp.session import SessionOptions, session

PATH = "/mcp"
SESSION = "mcp-session-id"
LARGEST = 64 << 20  # bytes of one request
BODY_MEMORY = 256 << 20  # bytes of requests that are arriving, together
UNUSED = 10.0  # seconds after which an idle session of which no tool was called may have to make room
GRACE = 2  # seconds that open streams get when the server stops

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBounds:
    """`sessions` at once, each with a box, of an address beyond this machine half of them; one ends when no request of it was open for
    `idle` seconds, and `handshake` seconds after it was opened where its client sent nothing more."""

    sessions: int = 16
    idle: float = 1200.0
    handshake: float = 60.0


@dataclass(slots=True, kw_only=True)
class Session:
    """An open session. `scope` ends it, by itself where its client does not come back after the handshake; `is_used`: a tool was
    called."""

    transport: StreamableHTTPServerTransport
    source: str
    scope: anyio.CancelScope
    is_used: bool = False

    @property
    def idle_until(self) -> float:
        """When it ends unless a request comes; infinite while one is open."""
        return self.transport.idle_scope.deadline if self.transport.idle_scope is not None else math.inf


async def serve(
    offering: SessionOptions,
    listener: socket.socket,
    *,
    door: Callable[[ASGIApp], HttpGuard],
    bounds: SessionBounds,
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

    def __init__(self, offering: SessionOptions, bounds: SessionBounds) -> None:
        self._offering = offering
        self._bounds = bounds
        self._sessions: dict[str, Session] = {}
        self._bodies = MemoryBudget(BODY_MEMORY)
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
        name = headers.get(SESSION)
        found = None if name is None else self._sessions.get(name)
        if name is not None and found is None:
            return _refusal(
                404, INVALID_REQUEST, "There is no such session, or it has ended. Open one with initialize."
            )
        source = source_of((scope.get("client") or ("unknown", 0))[0])
        limit = LARGEST_HANDSHAKE if found is None else LARGEST
        body = await self._body(receive, headers, source, limit)
        if isinstance(body, Response):
            return body
        if found is not None:
            found.scope.deadline = math.inf
            found.is_used = found.is_used or b"tools/call" in body
            await found.transport.handle_request(scope, _again(body, receive), send)
            return None
        if (refusal := handshake_refusal(scope["method"], headers, body)) is not None:
            return _refusal(refusal[0], INVALID_REQUEST, refusal[1])
        opened = await self._open(source)
        if isinstance(opened, Response):
            return opened
        await self._shake_hands(opened, scope, _again(body, receive), send)
        return None

    async def _shake_hands(self, opened: Session, scope: Scope, receive: Receive, send: Send) -> None:
        """The first request of a session, which ends with it unless it is accepted."""
        status = 0

        async def watching(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await opened.transport.handle_request(scope, receive, watching)
        finally:
            if status != 200:
                opened.scope.cancel()

    async def _open(self, source: str) -> Session | Response:
        most = self._bounds.sessions
        share = most if is_loopback(source) else (most + 1) // 2
        of_source = [each for each in self._sessions.values() if each.source == source]
        if self._tasks is None or (share < most and len(of_source) >= share and not self._make_room(source)):
            return _refusal(
                503, INTERNAL_ERROR, f"{share} sessions of this address are open, and no more may be. Try later."
            )
        if len(self._sessions) >= most and not self._make_room():
            return _refusal(503, INTERNAL_ERROR, f"{most} sessions are open, and no more may be. Try later.")
        name = uuid4().hex
        transport = StreamableHTTPServerTransport(name, idle_timeout=self._bounds.idle)
        opened = self._sessions[name] = Session(transport=transport, source=source, scope=anyio.CancelScope())
        try:
            await self._tasks.start(self._carry, name, opened)
        except LimpetError as error:
            return _refusal(503, INTERNAL_ERROR, error.message)
        return opened

    def _make_room(self, source: str | None = None) -> bool:
        """End the session that was idle for longest among those of which no tool was called: their boxes hold nothing."""
        latest = anyio.current_time() + self._bounds.idle - UNUSED
        unused = {
            name: each.idle_until
            for name, each in self._sessions.items()
            if not each.is_used and each.idle_until <= latest and source in (None, each.source)
        }
        if not unused:
            return False
        self._sessions.pop(min(unused, key=unused.__getitem__)).scope.cancel()
        return True

    async def _carry(self, name: str, opened: Session, *, task_status: TaskStatus[None]) -> None:
        """One session from its box's start to its end."""
        transport = opened.transport
        is_open = False
        try:
            async with transport.connect() as (reading, writing), session(self._offering) as server:
                is_open = True
                opened.scope.deadline = anyio.current_time() + self._bounds.handshake
                task_status.started()
                with opened.scope, transport.idle_scope or nullcontext():
                    await server.run(reading, writing, server.create_initialization_options())
        except Exception:
            if not is_open:
                raise
            log.exception("An MCP session failed.")  # the other sessions go on; this one's client gets 404 from now on
        finally:
            self._sessions.pop(name, None)
            with anyio.CancelScope(shield=True):
                await transport.terminate()

    async def _body(self, receive: Receive, headers: Headers, source: str, limit: int) -> bytes | Response:
        """The request's whole body, or why it was not read. While it arrives it counts in the memory that all bodies share."""
        if int(headers.get("content-length", "0")) > limit:
            return _too_large(limit)
        parts: list[bytes] = []
        with anyio.CancelScope() as arriving:
            holding = self._bodies.hold(source, arriving.cancel)
            try:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return _refusal(400, INVALID_REQUEST, "The body broke off.")
                    parts.append(message.get("body", b""))
                    holding.add(len(parts[-1]))
                    if holding.size > limit:
                        return _too_large(limit)
                    if not message.get("more_body", False):
                        return b"".join(parts)
            finally:
                holding.release()
        return _refusal(503, INTERNAL_ERROR, "Too many large requests arrive at once. Send it again later.")


def _too_large(limit: int) -> Response:
    return _refusal(413, INVALID_REQUEST, f"A request may have {limit >> 20} MiB here.")


def _again(body: bytes, receive: Receive) -> Receive:
    """The request once more from its beginning."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


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

"""Requests for containers that lie on another gateway of the database: passed on to it, bodies and streams as they come.

A request is passed on once: what another gateway sends is answered here or refused. A gateway that is being started again is waited for;
the containers of one that is gone wake here where that can be (`containers/relocation.py`).
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import h11
import structlog
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from limpet.containers.manager import ContainerManager
from limpet.containers.messages import ContainerElsewhere
from limpet.containers.nodes import NodeDirectory
from limpet.core.errors import GatewayStopping, Overloaded
from limpet.ingress.takeover import control_of
from limpet.server.callers import caller_of
from limpet.server.errors import error_response, response_of
from limpet.server.forward_shares import ForwardShares
from limpet.server.node_door import forwarded_by, target_of
from limpet.server.node_signatures import HEADER, ForwardedCaller, NodeSigner
from limpet.server.port_connection import BadAnswer, BoxSocket, PortExchange, tunnel
from limpet.server.port_headers import Header, hop_by_hop
from limpet.server.preview_links import link_prefix
from limpet.server.proxied_exchange import exchanged, framing

CONNECT_SECONDS = 5.0
PAUSE = 0.2  # seconds between two looks for a gateway that does not answer
BEYOND = 5.0  # seconds that it is waited for beyond those after which it counts as gone
HEAD_SECONDS = 3600.0  # a response that is not streamed is answered at its end
_ROOT = "/v1/containers/{container_id}"
# The client's credentials, what proxies said of it, and what no client may say.
_KEPT_HERE = frozenset(
    b"authorization cookie x-api-key api-key forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port x-real-ip"
    b" content-length server date".split()
) | {HEADER.encode()}
log = structlog.get_logger()


class NodeUnreachable(Overloaded):
    """The gateway that has the container does not answer now."""

    def __init__(self, container_id: str) -> None:
        super().__init__(
            f"The gateway that has the container {container_id} does not answer. Try again in a moment.",
            code="node_unreachable",
        )


class NodeConnection:
    """A request to another gateway, ready to be sent with the header `signed`. Once `stopping` is set its answer is no more waited for."""

    def __init__(self, connection: socket.socket, signature: str, *, stopping: anyio.Event) -> None:
        self.socket = BoxSocket(connection)
        self.exchange = _NodeExchange(self.socket, stopping)
        self.signed: Header = (HEADER.encode(), signature.encode())


class _NodeExchange(PortExchange):
    def __init__(self, connection: BoxSocket, stopping: anyio.Event) -> None:
        super().__init__(connection, head_seconds=HEAD_SECONDS)
        self._stopping = stopping

    async def head(self) -> h11.Response | h11.InformationalResponse:
        """As of the class above; GatewayStopping."""
        found: h11.Response | h11.InformationalResponse | None = None
        failure: Exception | None = None

        async def watch() -> None:
            await self._stopping.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                found = await super().head()
            except (BadAnswer, OSError) as problem:  # kept for outside, where no exception group is put around it
                failure = problem
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if found is None:
            raise GatewayStopping
        return found


class NodeRequests:
    """Passes requests on for the gateway of `directory.home`."""

    def __init__(self, directory: NodeDirectory, containers: ContainerManager, signer: NodeSigner) -> None:
        self._directory = directory
        self._containers = containers
        self._signer = signer
        self._shares = ForwardShares()
        self._stopping = anyio.Event()

    def stop(self) -> None:
        """This gateway stops: clients that wait for another one are told to ask again."""
        self._stopping.set()

    def carried(self, routes: Sequence[Route]) -> list[Route]:
        """The same routes, those of one container answered by the gateway that has it. What its row says is told by any of them."""
        for route in routes:
            if route.path.startswith(_ROOT) and not (route.path == _ROOT and "GET" in (route.methods or ())):
                route.app = _ContainerRoute(self, route.app)
        return list(routes)

    async def elsewhere(self, request: Request, container_id: str) -> ContainerElsewhere | None:
        """Why the container of a request cannot be used here, if another gateway is to be asked."""
        if forwarded_by(request.scope) is not None:
            return None
        return await self._containers.elsewhere(caller_of(request).tenant, container_id)

    @asynccontextmanager
    async def connected(
        self, request: Request, problem: ContainerElsewhere, *, holds: bool = False
    ) -> AsyncIterator[NodeConnection | None]:
        """A connection to the gateway that has the container; None where it came here meanwhile. Raises ContainerElsewhere where no gateway
        can be asked, NodeUnreachable, ForwardsExhausted, GatewayStopping."""
        if forwarded_by(request.scope) is not None:
            raise problem
        with self._shares.held(tenant := caller_of(request).tenant):
            found = await self._found(tenant, problem)
            if found is None:
                yield None
                return
            connection, home = found
            with connection:
                caller = _caller(request, holds=holds)
                signature = self._signer.sign(caller, to=home, method=request.method, target=target_of(request.scope))
                yield NodeConnection(connection, signature, stopping=self._stopping)

    async def _found(self, tenant: str, problem: ContainerElsewhere) -> tuple[socket.socket, str] | None:
        until = anyio.current_time() + self._directory.silence + BEYOND
        wanted: ContainerElsewhere | None = problem
        while wanted is not None:
            node = await self._directory.find(wanted.home)
            if node is None or node.address is None:
                raise wanted
            with contextlib.suppress(OSError, TimeoutError):
                return await _connect(node.address), node.home
            if self._stopping.is_set():
                raise GatewayStopping
            if anyio.current_time() >= until:
                raise NodeUnreachable(problem.container_id)
            await anyio.sleep(PAUSE)
            wanted = await self._containers.elsewhere(tenant, problem.container_id)
        return None


class _ContainerRoute:
    """The route of a container: an ASGI application, which answers or asks the gateway that does."""

    def __init__(self, nodes: NodeRequests, app: ASGIApp) -> None:
        self._nodes = nodes
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        problem = await self._nodes.elsewhere(request, scope["path_params"]["container_id"])
        if problem is not None:
            async with self._nodes.connected(request, problem) as node:
                if node is not None:
                    await pass_on(request, send, node)
                    return
        await self._app(scope, receive, send)


class ForwardedRequest:
    """A request whose body was read here, answered by another gateway alone: an ASGI application."""

    def __init__(self, nodes: NodeRequests, problem: ContainerElsewhere, body: bytes) -> None:
        self._nodes = nodes
        self._problem = problem
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        async with self._nodes.connected(request, self._problem) as node:
            if node is None:
                raise NodeUnreachable(self._problem.container_id)
            await pass_on(request, send, node, body=self._body)


async def pass_on(request: Request, send: Send, node: NodeConnection, *, body: bytes | None = None) -> None:
    """Let the other gateway answer."""
    if body is None and "upgrade" in request.headers:
        await _upgrade(request, send, node)
        return
    started = False

    async def answer(head: h11.Response) -> None:
        nonlocal started
        started = True
        await _answer(send, node.exchange, head)

    headers = headers_for(request, node, body=body)
    failure = await exchanged(
        request, node.exchange, target=target_of(request.scope), headers=headers, pass_on=answer, body=body
    )
    if failure is not None:
        await _fail(request, send, failure, started=started)


def headers_for(request: Request, node: NodeConnection, *, body: bytes | None = None) -> list[Header]:
    """The client's, without what is for this hop or for this gateway."""
    given = request.headers.raw
    dropped = hop_by_hop(given) | _KEPT_HERE
    length = framing(request) if body is None else [(b"content-length", b"%d" % len(body))]
    return [
        *((name, value) for name, value in given if name not in dropped),
        *length,
        node.signed,
        (b"connection", b"close"),
    ]


async def _answer(send: Send, exchange: PortExchange, head: h11.Response) -> None:
    given = [(name.lower(), value) for name, value in head.headers]
    dropped = hop_by_hop(given) | {b"server", b"date"}
    headers = [(name, value) for name, value in given if name not in dropped]
    await send({"type": "http.response.start", "status": head.status_code, "headers": headers})
    async for piece in exchange.body():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _upgrade(request: Request, send: Send, node: NodeConnection) -> None:
    exchange, upgrade = node.exchange, request.headers["upgrade"].encode("latin-1")
    plain = [each for each in headers_for(request, node) if each[0] != b"connection"]
    try:
        await exchange.send_head(
            request.method.encode(),
            target_of(request.scope),
            [*plain, (b"connection", b"Upgrade"), (b"upgrade", upgrade)],
        )
        await exchange.send_body()
        head = await exchange.head()
        if isinstance(head, h11.Response):
            await _answer(send, exchange, head)
            return
    except (BadAnswer, OSError, ValueError, GatewayStopping) as problem:
        await _fail(request, send, problem, started=False)
        return
    control = control_of(request.scope)
    client = None if control is None else control.take()
    if client is None:
        await _fail(request, send, BadAnswer("agreed to a protocol that this request cannot speak"), started=False)
        return
    lines = b"".join(b"%s: %s\r\n" % (name, value) for name, value in head.headers if name not in (b"server", b"date"))
    with contextlib.suppress(ConnectionResetError):
        await client.write(b"HTTP/1.1 101 Switching Protocols\r\n" + lines + b"\r\n" + exchange.beyond())
        await tunnel(client, node.socket)


async def _fail(request: Request, send: Send, problem: Exception, *, started: bool) -> None:
    log.warning("node_failed", path=request.url.path[:256], reason=str(problem)[:256])
    control = control_of(request.scope)
    if started:
        if control is not None:
            control.abort()  # a whole answer must not be what broke off
        return
    if isinstance(problem, GatewayStopping):
        await response_of(problem)(request.scope, _nothing, send)
        return
    message = "The gateway that has this container broke off before it answered. Try again."
    answer = error_response(502, message, type="server_error", code="node_failed")
    await answer(request.scope, _nothing, send)


async def _nothing() -> dict[str, str]:
    return {"type": "http.disconnect"}


def _caller(request: Request, *, holds: bool) -> ForwardedCaller:
    caller, prefix = caller_of(request), link_prefix(request.scope)
    return ForwardedCaller(
        tenant=caller.tenant,
        scopes=tuple(sorted(caller.scopes)),
        key_id=caller.key_id,
        prefix=None if prefix is None else prefix.decode("latin-1"),
        scheme=str(request.scope.get("scheme", "http")),
        holds=holds,
    )


async def _connect(address: str) -> socket.socket:
    """OSError, TimeoutError."""
    place, loop = urlsplit(address), asyncio.get_running_loop()
    failure: OSError = OSError(f"{address} has no address")
    with anyio.fail_after(CONNECT_SECONDS):
        found = await loop.getaddrinfo(place.hostname or "", place.port or 80, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, where in found:
            connection = socket.socket(family, kind, protocol)
            try:
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.sock_connect(connection, where)
            except OSError as error:
                connection.close()
                failure = error
            except BaseException:
                connection.close()
                raise
            else:
                return connection
    raise failure

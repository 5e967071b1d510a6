"""`/v1/containers/{id}/ports`: what listens in a container, and the way to it: HTTP and WebSocket under its path, any TCP by an upgrade.

Whose container it is decides as everywhere; a link (`preview_links`) admits to one port. What comes out of the box is a stranger's page:
`port_headers` keeps it from acting as the user. `tests/wire/test_ports.py` attacks it.
"""

import contextlib
import http
import re

import h11
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from limpet.containers.port_access import PortAccess
from limpet.containers.wire_objects import ContainerPort, PortLink
from limpet.core.clock import Clock, seconds
from limpet.core.errors import NotFound, RequestInvalid
from limpet.ingress.takeover import ConnectionControl, RawConnection, control_of
from limpet.server.answers import json_answer, list_answer
from limpet.server.bodies import json_body
from limpet.server.callers import tenant_of
from limpet.server.errors import error_response
from limpet.server.port_connection import BadAnswer, BoxSocket, PortExchange, tunnel
from limpet.server.port_headers import cross_origin_headers, request_headers, response_headers
from limpet.server.preview_links import DEFAULT_SECONDS, LEAST_SECONDS, MOST_SECONDS, PreviewLinks, link_prefix
from limpet.server.proxied_exchange import exchanged, framing

TCP = "limpet-tcp"  # the upgrade that carries any protocol
_ROOT = "/v1/containers/{container_id}/ports"
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_TARGET = re.compile(rb"[\x21-\x7e]*")
_KNOWN_STATUSES = frozenset(http.HTTPStatus)
_SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n"


def port_routes(ports: PortAccess, links: PreviewLinks, clock: Clock) -> list[Route]:
    """List ports, connect to one, make a link to one, and what the server there answers."""

    async def index(request: Request) -> Response:
        container_id = request.path_params["container_id"]
        found = await ports.listening(tenant_of(request), container_id)
        return list_answer([ContainerPort(id=str(port), container_id=container_id, port=port) for port in found], False)

    async def read(request: Request) -> Response:
        container_id, port = request.path_params["container_id"], _port(request.path_params["port"])
        if request.headers.get("upgrade", "").lower() == TCP:
            return _Tunnel(ports, port)
        if port not in await ports.listening(tenant_of(request), container_id):
            raise NotFound(
                f"Nothing in the container {container_id} listens on port {port}. Start a server there first.",
                code="port_not_open",
            )
        return json_answer(ContainerPort(id=str(port), container_id=container_id, port=port))

    async def create_link(request: Request) -> Response:
        container_id, port = request.path_params["container_id"], _port(request.path_params["port"])
        wanted = _seconds(await json_body(request))
        await ports.listening(tenant_of(request), container_id)  # whose it is
        expires_at = seconds(clock.now()) + wanted
        path = links.path(tenant_of(request), container_id, port, expires_at=expires_at)
        url = f"{str(request.base_url).rstrip('/')}{path}"
        return json_answer(PortLink(id=str(port), container_id=container_id, port=port, url=url, expires_at=expires_at))

    return [
        Route(_ROOT, index, methods=["GET"]),
        Route(_ROOT + "/{port}", read, methods=["GET"]),
        Route(_ROOT + "/{port}", create_link, methods=["POST"]),
        Route(_ROOT + "/{port}/{path:path}", PortProxy(ports)),
    ]


def _taken_over(request: Request) -> RawConnection:
    control = control_of(request.scope)
    if control is None or (client := control.take()) is None:
        raise RequestInvalid(
            "For another protocol send `Connection: Upgrade` beside `Upgrade`, in a request without a body that waits for no other.",
            code="upgrade_unsupported",
        )
    return client


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise RequestInvalid("A port is a whole number from 1 to 65535.", param="port", code="invalid_port")
    return int(text)


def _seconds(body: object) -> int:
    match body:
        case {} if not body:
            return DEFAULT_SECONDS
        case {"expires_in_secs": int(wanted), **rest} if not rest and not isinstance(wanted, bool):
            if LEAST_SECONDS <= wanted <= MOST_SECONDS:
                return wanted
    raise RequestInvalid(
        f'Send {{}} or {{"expires_in_secs": {DEFAULT_SECONDS}}}: a whole number from {LEAST_SECONDS} to {MOST_SECONDS}.',
        param="expires_in_secs",
    )


class _Tunnel(Response):
    """The connection itself, carried to a port as it is."""

    def __init__(self, ports: PortAccess, port: int) -> None:
        self._ports = ports
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        container_id = request.path_params["container_id"]
        async with self._ports.connected(tenant_of(request), container_id, self._port) as connection:
            client = _taken_over(request)
            with contextlib.suppress(ConnectionResetError):
                await client.write(_SWITCHED + b"upgrade: %s\r\n\r\n" % TCP.encode())
                await tunnel(client, BoxSocket(connection))


class PortProxy:
    """Answers with what the server on the port answers. An ASGI application, for every method."""

    def __init__(self, ports: PortAccess) -> None:
        self._ports = ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        container_id, port = request.path_params["container_id"], _port(request.path_params["port"])
        target = _target(scope, container_id, port)
        if link_prefix(scope) is not None and _is_preflight(request):
            await send({"type": "http.response.start", "status": 204, "headers": cross_origin_headers()})
            await send({"type": "http.response.body", "body": b""})
            return
        async with self._ports.connected(tenant_of(request), container_id, port) as connection:
            box = BoxSocket(connection)
            if "websocket" in request.headers.get("upgrade", "").lower() and request.method == "GET":
                await _websocket(request, send, box, port, target)
            else:
                await _exchange(request, send, PortExchange(box), port, target)


def _target(scope: Scope, container_id: str, port: int) -> bytes:
    """What the server is asked for: the bytes that the client sent, behind the part that is the gateway's. NotFound where that part was
    written in another way, so that no two readers take them differently."""
    raw, query = scope.get("raw_path", b""), scope["query_string"]
    root = f"/v1/containers/{container_id}/ports/{port}/".encode()
    if not raw.startswith(root):
        raise NotFound("Write the part of the path that is the gateway's without escapes.", code="unknown_url")
    target = b"/" + raw[len(root) :] + (b"?" + query if query else b"")
    if not _TARGET.fullmatch(target):
        raise RequestInvalid("The path and the query must be of printable ASCII; escape all else.", code="invalid_url")
    return bytes(target)


def _is_preflight(request: Request) -> bool:
    return request.method == "OPTIONS" and "access-control-request-method" in request.headers


def _prefix(scope: Scope, port: int) -> bytes:
    own = f"/v1/containers/{scope['path_params']['container_id']}/ports/{port}/".encode()
    return link_prefix(scope) or own


async def _exchange(request: Request, send: Send, exchange: PortExchange, port: int, target: bytes) -> None:
    headers = [*request_headers(request.headers.raw, port), *framing(request), (b"connection", b"close")]
    started = False

    async def pass_on(head: h11.Response) -> None:
        nonlocal started
        _status(head.status_code)
        started = True
        await _pass_on(request, send, exchange, head, port)

    failure = await exchanged(request, exchange, target=target, headers=headers, pass_on=pass_on)
    if failure is not None:
        await _fail(request, send, failure, started=started)


async def _pass_on(request: Request, send: Send, exchange: PortExchange, head: h11.Response, port: int) -> None:
    is_link = link_prefix(request.scope) is not None
    headers = response_headers(
        head.headers.raw_items(), port=port, prefix=_prefix(request.scope, port), is_link=is_link
    )
    lengths = [value for name, value in head.headers if name == b"content-length"]
    if lengths and head.status_code not in (204, 304):
        headers.append((b"content-length", lengths[0]))
    await send({"type": "http.response.start", "status": _status(head.status_code), "headers": headers})
    async for piece in exchange.body():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _status(code: int) -> int:
    """As clients know it: a code that has no name stands for its class (RFC 9110, 15). BadAnswer where it has none."""
    if not 200 <= code <= 599:
        raise BadAnswer(f"answered with the status {code}, which no class of answers has")
    return code if code in _KNOWN_STATUSES else code // 100 * 100


async def _fail(request: Request, send: Send, problem: Exception, *, started: bool) -> None:
    if started:
        control: ConnectionControl | None = control_of(request.scope)
        if control is not None:
            control.abort()  # a whole answer must not be what broke off
        return
    message = f"The server on this port {problem}." if isinstance(problem, BadAnswer) else "The connection broke off."
    await error_response(502, message, type="server_error", code="port_failed")(request.scope, _nothing, send)


async def _nothing() -> dict[str, str]:
    return {"type": "http.disconnect"}


async def _websocket(request: Request, send: Send, box: BoxSocket, port: int, target: bytes) -> None:
    """Carry the handshake as HTTP, and what follows as bytes: frames are between the two ends."""
    exchange = PortExchange(box)
    headers = [*request_headers(request.headers.raw, port), (b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    try:
        await exchange.send_head(b"GET", target, headers)
        await exchange.send_body()
        head = await exchange.head()
    except (BadAnswer, OSError, ValueError) as problem:
        await _fail(request, send, problem, started=False)
        return
    if isinstance(head, h11.Response):
        try:
            _status(head.status_code)
        except BadAnswer as problem:
            await _fail(request, send, problem, started=False)
            return
        try:
            await _pass_on(request, send, exchange, head, port)
        except (BadAnswer, OSError) as problem:
            await _fail(request, send, problem, started=True)
        return
    kept = [(name, value) for name, value in head.headers if name.startswith(b"sec-websocket-")]
    client = _taken_over(request)
    with contextlib.suppress(ConnectionResetError):
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in [(b"upgrade", b"websocket"), *kept])
        await client.write(_SWITCHED + lines + b"\r\n" + exchange.beyond())
        await tunnel(client, box)

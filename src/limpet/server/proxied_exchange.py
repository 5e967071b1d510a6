"""A client's request passed on to another server over a connection of its own, while its body still comes: what ports of containers and
requests to other gateways have in common."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import anyio
import h11
from starlette.requests import ClientDisconnect, Request

from limpet.core.errors import GatewayStopping
from limpet.server.port_connection import BadAnswer, PortExchange
from limpet.server.port_headers import Header


async def exchanged(
    request: Request,
    exchange: PortExchange,
    *,
    target: bytes,
    headers: Sequence[Header],
    pass_on: Callable[[h11.Response], Awaitable[None]],
    body: bytes | None = None,
) -> Exception | None:
    """Send the request while the answer may come already, and have that passed on; ends at once when the client leaves. `headers` say how
    the body's end is known; `body` is there where it was read before. Gives what went wrong."""
    failed: list[Exception] = []
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            try:
                with contextlib.suppress(
                    OSError
                ):  # it may answer and close before it has read everything: its answer counts
                    await exchange.send_body(pieces_of(request) if body is None else _whole(body))
                while (await request.receive())["type"] != "http.disconnect":
                    continue
            except ClientDisconnect:
                pass
            except ValueError as error:
                failed.append(error)
            tasks.cancel_scope.cancel()

        try:
            await exchange.send_head(request.method.encode(), target, headers)
            tasks.start_soon(ask)
            head = await exchange.head()
            if not isinstance(head, h11.Response):
                raise BadAnswer("changed the protocol without being asked")
            await pass_on(head)
        except (BadAnswer, OSError, ValueError, GatewayStopping) as error:
            failed.append(error)
        tasks.cancel_scope.cancel()
    return failed[0] if failed else None


async def pieces_of(request: Request) -> AsyncIterator[bytes]:
    """Its body, as it comes. ClientDisconnect."""
    async for piece in request.stream():
        if piece:
            yield piece


def framing(request: Request) -> list[Header]:
    """How the body's end is known; nothing for a request without one."""
    lengths = request.headers.getlist("content-length")
    if "transfer-encoding" in request.headers:
        return [(b"transfer-encoding", b"chunked")]
    return [(b"content-length", lengths[0].encode())] if lengths else []


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body

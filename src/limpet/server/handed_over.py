"""Responses whose container lies on another gateway: that one makes and runs them, this one reads their events where all gateways can.

So a client of this one keeps its stream when the other one ends: it goes on as soon as a gateway has taken the run up. What is not stored
has its events at the other gateway alone, and is passed on as it comes.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

import h11
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from limpet.containers.messages import ContainerElsewhere
from limpet.core.errors import LimpetError
from limpet.responses.idempotency import Submission
from limpet.responses.replay import StreamEvent
from limpet.server.node_door import target_of
from limpet.server.node_requests import NodeRequests, NodeUnreachable, headers_for
from limpet.server.port_connection import BadAnswer, PortExchange

MOST_ANSWER = 1 << 20  # bytes of another gateway's refusal


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A response that another gateway has made; it lives as a client's of that one until `connection` closes."""

    made: Submission
    connection: AsyncExitStack


async def hand_over(
    nodes: NodeRequests, request: Request, problem: ContainerElsewhere, body: bytes
) -> HandedOver | Response | None:
    """Have the gateway that has the container make a stored response. Its refusal, where it refuses; None where the container came here
    meanwhile. Raises ContainerElsewhere, NodeUnreachable."""
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(nodes.connected(request, problem, holds=True))
        if node is None:
            return None
        exchange = node.exchange
        try:
            await exchange.send_head(b"POST", target_of(request.scope), headers_for(request, node, body=body))
            await exchange.send_body(_whole(body))
            head = await exchange.head()
            if not isinstance(head, h11.Response):
                raise BadAnswer("changed the protocol without being asked")
            if head.status_code != 200:
                return await _refusal(exchange, head)
            made = await _first_line(exchange)
        except (BadAnswer, OSError, ValueError, msgspec.MsgspecError) as failure:
            raise NodeUnreachable(problem.container_id) from failure
        return HandedOver(made, stack.pop_all())


async def held(made: Submission, events: AsyncGenerator[Sequence[StreamEvent], None]) -> AsyncGenerator[bytes, None]:
    """What the gateway that made a response answers: which one, and then nothing until it has ended."""
    yield msgspec.json.encode(made) + b"\n"
    try:
        async with aclosing(events):
            async for _ in events:
                pass
    except LimpetError:
        pass  # the other gateway reads it from the journal


async def _first_line(exchange: PortExchange) -> Submission:
    line = b""
    async for piece in exchange.body():
        line += piece
        if b"\n" in line or len(line) > MOST_ANSWER:
            break
    return msgspec.json.decode(line.partition(b"\n")[0], type=Submission)


async def _refusal(exchange: PortExchange, head: h11.Response) -> Response:
    body = b""
    async for piece in exchange.body():
        body += piece
        if len(body) > MOST_ANSWER:
            raise BadAnswer("refused at too great length")
    kept = {b"content-type", b"retry-after"}
    headers = {name.decode(): value.decode("latin-1") for name, value in head.headers if name in kept}
    return Response(body, status_code=head.status_code, headers=headers)


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body

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
from limpet.core.errors import GatewayStopping, LimpetError
from limpet.responses.idempotency import Submission
from limpet.responses.replay import StreamEvent
from limpet.server.errors import error_response, response_of
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
    meanwhile. Raises ContainerElsewhere, NodeUnreachable, GatewayStopping.

    Once the body was on its way the response may have been made: a break is then answered so that clients do not ask a second time by
    themselves, unless the request's `Idempotency-Key` finds that response."""
    is_found_again = "idempotency-key" in request.headers
    is_sent = False
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(nodes.connected(request, problem, holds=True))
        if node is None:
            return None
        exchange = node.exchange
        try:
            await exchange.send_head(b"POST", target_of(request.scope), headers_for(request, node, body=body))
            is_sent = True
            await exchange.send_body(_whole(body))
            head = await exchange.head()
            if not isinstance(head, h11.Response):
                raise BadAnswer("changed the protocol without being asked")
            if head.status_code != 200:
                return await _refusal(exchange, head)
            made = await _first_line(exchange)
        except (BadAnswer, OSError, ValueError, msgspec.MsgspecError) as failure:
            if is_sent and not is_found_again:
                return _broken_off(problem.container_id)
            raise NodeUnreachable(problem.container_id) from failure
        except GatewayStopping as stopping:
            if is_found_again:
                raise
            return _not_again(response_of(stopping))
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


def _broken_off(container_id: str) -> Response:
    message = (
        f"The gateway that has the container {container_id} broke off. It may have made the response and run its commands: look before you "
        "ask again. With an Idempotency-Key a request can be sent again safely."
    )
    return _not_again(error_response(503, message, type="server_error", code="node_unreachable"))


def _not_again(answer: Response) -> Response:
    """OpenAI's clients send a request again after a 503, unless told otherwise."""
    answer.headers["x-should-retry"] = "false"
    return answer


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body

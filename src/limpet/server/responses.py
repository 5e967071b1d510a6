"""`/v1/responses`: create, read, follow, cancel, delete."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from limpet.containers.messages import ContainerElsewhere
from limpet.core.errors import LimpetError, UpstreamError
from limpet.core.resources import DeletedResource
from limpet.responses.idempotency import Submission, Submissions
from limpet.responses.request import ParsedRequest, parse
from limpet.responses.service import ResponseService
from limpet.server.access import note_response
from limpet.server.answers import json_answer
from limpet.server.betas import refuse_betas
from limpet.server.bodies import json_body, truth, whole_number
from limpet.server.callers import tenant_of
from limpet.server.errors import response_of
from limpet.server.handed_over import HandedOver, hand_over, held
from limpet.server.item_lists import included
from limpet.server.node_door import forwarded_by
from limpet.server.node_requests import ForwardedRequest, NodeRequests, NodeUnreachable
from limpet.server.sse import EventStream, FrameStream

# So long a stream waits for the model's first sign before its 200: a provider's refusal can then still be a status.
REFUSAL_SECONDS = 5.0
# Names the types of tools that the provider was not given, where there are any.
LEFT_OUT = "limpet-tools-left-out"
# Stands with an answer that was made for an earlier request with the same Idempotency-Key.
REPEATED = "idempotent-replayed"
T = TypeVar("T")


class DeletedResponse(DeletedResource, frozen=True, kw_only=True):
    object: Literal["response"] = "response"


def routes(
    service: ResponseService, submissions: Submissions, *, keep_alive: float, nodes: NodeRequests | None = None
) -> list[Route]:
    """The resource's routes. `keep_alive` is in seconds; `nodes` reaches the other gateways, where there can be any."""

    async def create(request: Request) -> ASGIApp:
        return await _created(service, submissions, request, keep_alive, nodes)

    async def read(request: Request) -> ASGIApp:
        response_id, is_streamed = request.path_params["response_id"], truth(request, "stream")
        after = whole_number(request, "starting_after", default=-1, least=-1, most=2**63 - 1)
        is_obfuscated = truth(request, "include_obfuscation")
        included(request)  # what it names is there in any case, as far as it was kept
        whole = await service.get(tenant_of(request), response_id)
        if not is_streamed:
            return json_answer(whole)
        events = service.follow(tenant_of(request), response_id, after=after)
        return EventStream(events, release=_nothing, keep_alive=keep_alive, obfuscated=is_obfuscated)

    async def cancel(request: Request) -> Response:
        return json_answer(await service.cancel(tenant_of(request), request.path_params["response_id"]))

    async def delete(request: Request) -> Response:
        response_id = request.path_params["response_id"]
        await service.delete(tenant_of(request), response_id)
        return json_answer(DeletedResponse(id=response_id))

    return [
        Route("/v1/responses", create, methods=["POST"]),
        Route("/v1/responses/{response_id}", read, methods=["GET"]),
        Route("/v1/responses/{response_id}", delete, methods=["DELETE"]),
        Route("/v1/responses/{response_id}/cancel", cancel, methods=["POST"]),
    ]


async def _created(
    service: ResponseService, submissions: Submissions, request: Request, keep_alive: float, nodes: NodeRequests | None
) -> ASGIApp:
    """The answer to a request: at once in the background, else with its events, or whole at its end."""
    refuse_betas(request)
    body = await json_body(request)
    asked, key = parse(body), submissions.key_of(request.headers.get("idempotency-key"), body)
    try:
        made = await submissions.submit(tenant_of(request), asked, key)
    except ContainerElsewhere as problem:
        if nodes is None or forwarded_by(request.scope) is not None:
            raise
        handed = await _handed_over(nodes, request, asked, problem, msgspec.json.encode(body))
        if not isinstance(handed, HandedOver):
            return handed
        return await _answered(service, request, asked, handed.made, keep_alive, release=handed.connection.aclose)

    async def release() -> None:
        if not made.is_repeated:
            await service.release(made.response_id)

    return await _answered(service, request, asked, made, keep_alive, release=release)


async def _answered(
    service: ResponseService,
    request: Request,
    asked: ParsedRequest,
    made: Submission,
    keep_alive: float,
    *,
    release: Callable[[], Awaitable[None]],
) -> ASGIApp:
    """`release` is awaited once the client needs the response no more, whatever happens."""
    note_response(request.scope, made.response_id)

    async def left() -> None:
        with anyio.CancelScope(shield=True):
            await release()

    tenant, headers, forwarded = tenant_of(request), _headers(made), forwarded_by(request.scope)
    holds = forwarded is not None and forwarded.holds
    if asked.is_streamed or holds:
        try:
            waits = not (asked.is_background or made.is_repeated)
            refusal = await provider_refusal(service, request, made.response_id) if waits else None
        except BaseException:
            await left()
            raise
        if refusal is not None:
            await left()
            return response_of(refusal)
        events = service.follow(tenant, made.response_id)
        if holds:
            return FrameStream(held(made, events), release=left, keep_alive=keep_alive)
        return EventStream(events, release=left, keep_alive=keep_alive, headers=headers, obfuscated=asked.is_obfuscated)
    try:
        if asked.is_background:
            return json_answer(await service.get(tenant, made.response_id), headers=headers)
        whole = await while_there(request, lambda: service.whole(tenant, made.response_id))
        return json_answer(whole, headers=headers)
    finally:
        await left()


async def _handed_over(
    nodes: NodeRequests, request: Request, asked: ParsedRequest, problem: ContainerElsewhere, body: bytes
) -> HandedOver | ASGIApp:
    """The response as the gateway that has its container made it, or the client's answer. Raises ContainerElsewhere, NodeUnreachable."""
    if not asked.is_stored:
        return ForwardedRequest(nodes, problem, body)
    made = await while_there(request, lambda: hand_over(nodes, request, problem, body))
    if made is None:  # the container came here meanwhile, or the client left
        raise NodeUnreachable(problem.container_id)
    return made


async def provider_refusal(service: ResponseService, request: Request, response_id: str) -> UpstreamError | None:
    """The provider's, if it comes soon enough; None also once the client has disconnected."""
    return await while_there(request, lambda: service.refusal(response_id, within=REFUSAL_SECONDS))


def _headers(made: Submission) -> dict[str, str]:
    headers = {LEFT_OUT: ", ".join(made.left_out)} if made.left_out else {}
    return {**headers, REPEATED: "true"} if made.is_repeated else headers


async def _nothing() -> None:
    """A reader of a stored response has nothing to release."""


async def while_there(request: Request, wanted: Callable[[], Awaitable[T]]) -> T | None:
    """The value, or None once the client has disconnected and the answer is no longer needed."""
    value: T | None = None
    failure: LimpetError | None = None

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            value = await wanted()
        except LimpetError as problem:  # kept for outside, where no exception group is put around it
            failure = problem
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return value

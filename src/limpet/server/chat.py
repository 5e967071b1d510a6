"""`POST /v1/chat/completions`: each is a response that is not stored, with what that brings: limits, budgets, usage, the same errors."""

import secrets
from collections.abc import AsyncGenerator

import anyio
import msgspec
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from limpet.core.errors import LimpetError, UpstreamBroken
from limpet.responses import request as responses_request
from limpet.responses.chat.completion import Chunks, completion_of
from limpet.responses.chat.request import ChatRequest, parse
from limpet.responses.service import ResponseService
from limpet.server.access import note_response
from limpet.server.answers import json_answer
from limpet.server.bodies import json_body
from limpet.server.callers import tenant_of
from limpet.server.errors import response_of
from limpet.server.responses import provider_refusal, while_there
from limpet.server.sse import FrameStream

LEFT_OUT = "limpet-parameters-left-out"
_encode = msgspec.json.Encoder().encode


def routes(service: ResponseService, *, keep_alive: float) -> list[Route]:
    """`keep_alive` is in seconds."""

    async def create(request: Request) -> ASGIApp:
        return await _created(service, request, keep_alive)

    return [Route("/v1/chat/completions", create, methods=["POST"])]


async def _created(service: ResponseService, request: Request, keep_alive: float) -> ASGIApp:
    chat = parse(await json_body(request))
    created = await service.create(tenant_of(request), responses_request.parse(chat.body))
    response_id, completion_id = created.record.id, f"chatcmpl-{secrets.token_hex(16)}"
    note_response(request.scope, response_id)
    headers = {LEFT_OUT: ", ".join(chat.left_out)} if chat.left_out else {}

    async def release() -> None:
        with anyio.CancelScope(shield=True):
            await service.release(response_id)

    if not chat.is_streamed:
        try:
            whole = await while_there(request, lambda: service.whole(tenant_of(request), response_id))
        finally:
            await release()
        if whole is not None and whole["status"] == "failed":
            raise UpstreamBroken(created.record.model, whole["error"]["message"])
        return json_answer(
            None if whole is None else completion_of(whole, id=completion_id, stop=chat.stop), headers=headers
        )
    try:
        refusal = await provider_refusal(service, request, response_id)
    except BaseException:
        await release()
        raise
    if refusal is not None:
        await release()
        return response_of(refusal)
    events = _chunks(service, tenant_of(request), response_id, completion_id, chat)
    return FrameStream(events, release=release, keep_alive=keep_alive, headers=headers)


async def _chunks(
    service: ResponseService, tenant: str, response_id: str, completion_id: str, chat: ChatRequest
) -> AsyncGenerator[bytes, None]:
    """The frames, in the pieces in which the response's events come."""
    chunks = Chunks(id=completion_id, stop=chat.stop, includes_usage=chat.includes_usage)
    events = service.follow(tenant, response_id)
    try:
        async for batch in events:
            for event in batch:
                if frames := b"".join(_frame(chunk) for chunk in chunks.read(event.type, event.data)):
                    yield frames
                if chunks.has_ended:
                    return
    except LimpetError as problem:  # too late for a status
        error = {"message": problem.message, "type": "server_error", "param": None, "code": "server_error"}
        yield _frame({"error": error})
    finally:
        with anyio.CancelScope(shield=True):
            await events.aclose()


def _frame(chunk: object) -> bytes:
    return b"data: " + _encode(chunk) + b"\n\n"

"""`/v1/conversations`: OpenAI's Conversations API (its API reference, "Conversations")."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.responses.conversations import ConversationService
from limpet.server.answers import json_answer
from limpet.server.bodies import has_body, json_body
from limpet.server.callers import tenant_of
from limpet.server.item_lists import asked_page, included


def routes(service: ConversationService) -> list[Route]:
    async def create(request: Request) -> Response:
        body = await json_body(request) if has_body(request) else {}
        return json_answer(await service.create(tenant_of(request), body))

    async def read(request: Request) -> Response:
        return json_answer(await service.get(tenant_of(request), _id(request)))

    async def change(request: Request) -> Response:
        return json_answer(await service.change(tenant_of(request), _id(request), await json_body(request)))

    async def delete(request: Request) -> Response:
        return json_answer(await service.delete(tenant_of(request), _id(request)))

    async def add(request: Request) -> Response:
        include = included(request)
        body = await json_body(request)
        return json_answer(await service.add(tenant_of(request), _id(request), body, include=include))

    async def index(request: Request) -> Response:
        return json_answer(await service.items(tenant_of(request), _id(request), **asked_page(request)))

    async def read_item(request: Request) -> Response:
        item_id = request.path_params["item_id"]
        shown = await service.item(tenant_of(request), _id(request), item_id, include=included(request))
        return json_answer(shown)

    async def delete_item(request: Request) -> Response:
        item_id = request.path_params["item_id"]
        return json_answer(await service.delete_item(tenant_of(request), _id(request), item_id))

    return [
        Route("/v1/conversations", create, methods=["POST"]),
        Route("/v1/conversations/{conversation_id}", read, methods=["GET"]),
        Route("/v1/conversations/{conversation_id}", change, methods=["POST"]),
        Route("/v1/conversations/{conversation_id}", delete, methods=["DELETE"]),
        Route("/v1/conversations/{conversation_id}/items", add, methods=["POST"]),
        Route("/v1/conversations/{conversation_id}/items", index, methods=["GET"]),
        Route("/v1/conversations/{conversation_id}/items/{item_id}", read_item, methods=["GET"]),
        Route("/v1/conversations/{conversation_id}/items/{item_id}", delete_item, methods=["DELETE"]),
    ]


def _id(request: Request) -> str:
    id: str = request.path_params["conversation_id"]
    return id

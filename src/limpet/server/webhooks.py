"""`/v1/webhook_endpoints` and `/v1/webhook_event_types`: OpenAI's API of webhooks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.core.clock import Clock
from limpet.core.resources import DeletedResource
from limpet.egress.settings import WebhookSettings
from limpet.egress.webhook_sender import WebhookSender
from limpet.responses.metrics import Metrics
from limpet.responses.webhook_delivery import WebhookDelivery
from limpet.responses.webhook_endpoints import WebhookEndpoints, WebhookEventTypes
from limpet.server.answers import json_answer, list_answer
from limpet.server.bodies import has_body, json_body, whole_number
from limpet.server.callers import tenant_of
from limpet.store.sealing import Sealer
from limpet.store.webhooks import Webhooks


class DeletedWebhookEndpoint(DeletedResource, frozen=True, kw_only=True):
    object: Literal["webhook_endpoint.deleted"] = "webhook_endpoint.deleted"


@asynccontextmanager
async def opened_endpoints(
    webhooks: Webhooks,
    sender: WebhookSender,
    settings: WebhookSettings,
    sealer: Sealer,
    clock: Clock,
    metrics: Metrics,
) -> AsyncIterator[WebhookEndpoints]:
    """The resource; while it is open events are delivered."""
    delivery = WebhookDelivery(webhooks, sender, settings=settings, sealer=sealer, clock=clock, metrics=metrics)
    async with delivery:
        yield WebhookEndpoints(webhooks, delivery, sender, settings=settings, sealer=sealer, clock=clock)


def routes(endpoints: WebhookEndpoints) -> list[Route]:
    async def create(request: Request) -> Response:
        return json_answer(await endpoints.create(tenant_of(request), await json_body(request)))

    async def index(request: Request) -> Response:
        limit = whole_number(request, "limit", default=20, least=1, most=100)
        page = await endpoints.page(tenant_of(request), limit=limit, after=request.query_params.get("after"))
        return list_answer(page.records, page.has_more)

    async def read(request: Request) -> Response:
        return json_answer(await endpoints.get(tenant_of(request), _id(request)))

    async def change(request: Request) -> Response:
        return json_answer(await endpoints.change(tenant_of(request), _id(request), await json_body(request)))

    async def delete(request: Request) -> Response:
        await endpoints.delete(tenant_of(request), _id(request))
        return json_answer(DeletedWebhookEndpoint(id=_id(request)))

    async def rotate(request: Request) -> Response:
        body = await json_body(request) if has_body(request) else {}
        return json_answer(await endpoints.rotate(tenant_of(request), _id(request), body))

    async def test(request: Request) -> Response:
        return json_answer(await endpoints.test(tenant_of(request), _id(request), await json_body(request)))

    async def event_types(request: Request) -> Response:
        return json_answer(WebhookEventTypes())

    one = "/v1/webhook_endpoints/{webhook_endpoint_id}"
    return [
        Route("/v1/webhook_endpoints", create, methods=["POST"]),
        Route("/v1/webhook_endpoints", index, methods=["GET"]),
        Route(one, read, methods=["GET"]),
        Route(one, change, methods=["POST"]),
        Route(one, delete, methods=["DELETE"]),
        Route(f"{one}/rotate_secret", rotate, methods=["POST"]),
        Route(f"{one}/test", test, methods=["POST"]),
        Route("/v1/webhook_event_types", event_types, methods=["GET"]),
    ]


def _id(request: Request) -> str:
    id: str = request.path_params["webhook_endpoint_id"]
    return id

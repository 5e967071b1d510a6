"""`/v1/responses/compact`: a conversation compacted on demand."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.responses.compact_endpoint import CompactEndpoint
from limpet.server.answers import json_answer
from limpet.server.bodies import json_body
from limpet.server.callers import tenant_of


def routes(endpoint: CompactEndpoint) -> list[Route]:
    async def compact(request: Request) -> Response:
        return json_answer(await endpoint.compact(tenant_of(request), await json_body(request)))

    return [Route("/v1/responses/compact", compact, methods=["POST"])]

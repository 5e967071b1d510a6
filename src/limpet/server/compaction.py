"""`/v1/responses/compact`: a conversation compacted on demand."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.responses.compact_endpoint import CompactEndpoint
from limpet.server.answers import json_answer
from limpet.server.bodies import json_body
from limpet.server.callers import tenant_of
from limpet.server.responses import while_there


def routes(endpoint: CompactEndpoint) -> list[Route]:
    async def compact(request: Request) -> Response:
        body = await json_body(request)
        return json_answer(await while_there(request, lambda: endpoint.compact(tenant_of(request), body)))

    return [Route("/v1/responses/compact", compact, methods=["POST"])]

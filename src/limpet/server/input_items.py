"""What a stored response was made of, and how many tokens a request would have."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.responses.input_items import InputItems
from limpet.server.answers import json_answer
from limpet.server.callers import tenant_of
from limpet.server.item_lists import asked_page


def routes(items: InputItems) -> list[Route]:
    async def index(request: Request) -> Response:
        return json_answer(
            await items.page(tenant_of(request), request.path_params["response_id"], **asked_page(request))
        )

    return [Route("/v1/responses/{response_id}/input_items", index, methods=["GET"])]

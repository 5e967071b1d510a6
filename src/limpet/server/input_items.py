"""What a stored response was made of, and how many tokens a request would have."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.responses.input_items import InputItems
from limpet.responses.input_tokens import count_input
from limpet.responses.prepare import Preparer
from limpet.server.answers import json_answer
from limpet.server.bodies import json_body
from limpet.server.callers import tenant_of
from limpet.server.item_lists import asked_page

# Whether the provider counted, or the gateway estimated.
COUNTED_BY = "limpet-tokens-counted-by"


def routes(items: InputItems, preparer: Preparer) -> list[Route]:
    async def index(request: Request) -> Response:
        return json_answer(
            await items.page(tenant_of(request), request.path_params["response_id"], **asked_page(request))
        )

    async def count(request: Request) -> Response:
        counted = await count_input(preparer, tenant_of(request), await json_body(request))
        headers = {COUNTED_BY: "estimate" if counted.is_estimate else "provider"}
        return json_answer(counted.count, headers=headers)

    return [
        Route("/v1/responses/input_tokens", count, methods=["POST"]),
        Route("/v1/responses/{response_id}/input_items", index, methods=["GET"]),
    ]

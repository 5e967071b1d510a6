"""What lists of items are asked with: a page, and what `include` brings."""

from typing import TypedDict

from starlette.requests import Request

from limpet.core.errors import RequestInvalid
from limpet.responses.item_resources import INCLUDABLE
from limpet.server.answers import ORDERS
from limpet.server.bodies import one_of, whole_number
from limpet.store.records import Order


class AskedPage(TypedDict):
    limit: int
    after: str | None
    order: Order
    include: frozenset[str]


def asked_page(request: Request) -> AskedPage:
    """Raises RequestInvalid."""
    return AskedPage(
        limit=whole_number(request, "limit", default=20, least=1, most=100),
        after=request.query_params.get("after"),
        order="asc" if one_of(request, "order", default="desc", allowed=ORDERS) == "asc" else "desc",
        include=included(request),
    )


def included(request: Request) -> frozenset[str]:
    """The values of `include`, in each of the ways in which clients write a list. Raises RequestInvalid."""
    query = request.query_params
    given = [*query.getlist("include"), *query.getlist("include[]")]
    given += [value for key, value in query.multi_items() if key.startswith("include[") and key != "include[]"]
    for name in given:
        if name not in INCLUDABLE:
            raise RequestInvalid(
                f"include: must be one of {', '.join(INCLUDABLE)} (got {name[:40]!r}).", param="include"
            )
    return frozenset(given)

"""JSON answers: an object of the API, or a page of a list of them."""

from collections.abc import Mapping, Sequence

import msgspec
from starlette.responses import Response

from limpet.core.resources import R, ResourcePage

ORDERS = ("asc", "desc")


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A struct, or other values that JSON has."""
    return Response(msgspec.json.encode(value), status_code=status, headers=headers, media_type="application/json")


def list_answer(data: Sequence[R], has_more: bool) -> Response:
    """A page."""
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return json_answer(ResourcePage(data=data, first_id=first, last_id=last, has_more=has_more))

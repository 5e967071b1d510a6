"""The list envelope of OpenAI's resources."""

from typing import Any

from starlette.responses import JSONResponse, Response

ORDERS = ("asc", "desc")


def list_object(data: list[dict[str, Any]], has_more: bool) -> Response:
    """A page. `first_id` and `last_id` are null where it is empty."""
    return JSONResponse(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": has_more,
        }
    )

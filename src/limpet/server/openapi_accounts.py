"""The addresses of what a tenant has used up."""

from limpet.server.openapi_operations import answer, operation, query
from limpet.server.openapi_schemas import Json, one_of


def account_paths() -> Json:
    """By address, as OpenAPI writes them."""
    return {
        "/v1/usage": {
            "get": operation(
                "getUsage",
                "What the tenant has used up, as OpenAI's organization usage",
                answer("UsagePage"),
                (400,),
                parameters=[
                    *(query(name, {"type": "integer", "minimum": 0}) for name in ("start_time", "end_time", "page")),
                    query("bucket_width", one_of("1h", "1d")),
                    query("group_by", one_of("model")),
                    query("limit", {"type": "integer", "minimum": 1, "maximum": 168}),
                ],
            )
        },
    }

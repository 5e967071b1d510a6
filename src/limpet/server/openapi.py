"""`GET /openapi.json`: what the gateway answers, as an OpenAPI 3.1 document. `tests/wire/test_openapi.py` holds it to what is served."""

from importlib.metadata import version
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.server.openapi_operations import DESCRIPTIONS
from limpet.server.openapi_paths import paths
from limpet.server.openapi_schemas import ref, schemas

Json = dict[str, Any]
_KEYED = {
    401: "No key, or one that is not valid.",
    429: DESCRIPTIONS[429],
}


def routes(*, has_keys: bool) -> list[Route]:
    """`has_keys` where callers show keys."""
    whole = msgspec.json.encode(document(has_keys=has_keys))

    async def openapi(request: Request) -> Response:
        return Response(whole, media_type="application/json")

    return [Route("/openapi.json", openapi)]


def document(*, has_keys: bool) -> Json:
    """The whole document. Without keys it names no security scheme: then there is none."""
    written: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "Limpet",
            "version": version("limpet"),
            "summary": "A hosted shell behind OpenAI's Responses API, for any model.",
            "description": "Keys of answers that OpenAI's API does not have are marked `x-limpet-extension`.",
        },
        "servers": [{"url": "/"}],
        "paths": paths(),
        "components": {"schemas": schemas()},
    }
    return _with_keys(written) if has_keys else written


def _with_keys(written: Json) -> Json:
    error = {"application/json": {"schema": ref("ErrorAnswer")}}
    for address in written["paths"].values():
        for method, operation in address.items():
            if method != "parameters" and "security" not in operation:
                for status, description in _KEYED.items():
                    operation["responses"].setdefault(str(status), {"description": description, "content": error})
    scheme = {"type": "http", "scheme": "bearer", "description": "A key of `limpet keys create`."}
    written["components"]["securitySchemes"] = {"bearer": scheme}
    return {**written, "security": [{"bearer": []}]}

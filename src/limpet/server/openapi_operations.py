"""The words in which the addresses of the gateway are written as OpenAPI."""

from typing import Any

from limpet.server.openapi_schemas import TEXT, Json, one_of, ref

BYTES: Json = {"type": "string", "format": "binary"}
JSON, FORM, OCTETS = "application/json", "multipart/form-data", "application/octet-stream"
DESCRIPTIONS = {
    304: "The client has it: If-None-Match names its ETag.",
    400: "Something in the request is wrong; `param` names it.",
    403: "Not from here, not with this key, or the tenant has as much as it may have.",
    404: "There is no such thing, or it is another tenant's.",
    409: "It cannot be done as things are.",
    413: "The body is larger than the gateway takes.",
    415: "The body is of another type.",
    416: "No byte lies in the range.",
    422: "The provider refused the request, or the Idempotency-Key belongs to another one.",
    426: "The request must ask for an upgrade to WebSocket, version 13.",
    429: "The provider, or the gateway for this key, has had too many requests.",
    500: "The gateway failed.",
    502: "The provider failed.",
    503: "No box can be had, or the gateway is stopping.",
}


def operation(
    name: str,
    summary: str,
    content: Json,
    refusals: tuple[int, ...],
    *,
    parameters: list[Json] | None = None,
    body: Json | None = None,
    is_open: bool = False,
) -> Json:
    """What any address may also answer is added: 403 and 500."""
    answers: Json = {"200": {"description": "As asked.", "content": content}}
    for status in sorted({*refusals, 403, 500}):
        answers[str(status)] = {"description": DESCRIPTIONS[status], "content": answer("ErrorAnswer")}
    operation: Json = {"operationId": name, "summary": summary, "responses": answers}
    if parameters:
        operation["parameters"] = parameters
    if body:
        operation["requestBody"] = {"required": True, "content": body}
    return {**operation, "security": []} if is_open else operation


def upgrade(name: str, summary: str) -> Json:
    described = operation(name, summary, {}, (400, 426, 503))
    described["responses"]["101"] = {"description": "The connection speaks WebSocket from here on."}
    del described["responses"]["200"]
    return described


def download(name: str, refusals: tuple[int, ...]) -> Json:
    bytes_of = {OCTETS: {"schema": BYTES}}
    described = operation(name, "Its bytes, whole or a range of them", bytes_of, (*refusals, 416))
    described["parameters"] = [header("Range"), header("If-None-Match"), header("If-Range")]
    described["responses"]["206"] = {"description": "The range that was asked for.", "content": bytes_of}
    described["responses"]["304"] = {"description": DESCRIPTIONS[304]}
    return described


def bundle(**fields: Json) -> Json:
    whole = {"description": "The skill as one zip.", **BYTES}
    parts = {"description": "Its files; their names are paths.", "type": "array", "items": BYTES}
    form = {
        "type": "object",
        "properties": {"files": whole, "files[]": parts, **fields},
        "oneOf": [{"required": ["files"]}, {"required": ["files[]"]}],
    }
    return {FORM: {"schema": form}}


def answer(name: str) -> Json:
    return {JSON: {"schema": ref(name)}}


def page_query(*, most: int = 100) -> list[Json]:
    return [
        query("limit", {"type": "integer", "minimum": 1, "maximum": most}),
        query("after", TEXT, "The last id of the page before; it may have been deleted since."),
        query("order", one_of("asc", "desc"), "By age; desc where it is not given."),
    ]


def query(name: str, schema: Json, description: str = "") -> Json:
    said: dict[str, Any] = {"description": description} if description else {}
    return {"name": name, "in": "query", "schema": schema, **said}


def header(name: str) -> Json:
    return {"name": name, "in": "header", "schema": TEXT}


def in_path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": TEXT}

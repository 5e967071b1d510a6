"""Whether a request opens a session. A box is started for a handshake that will be accepted, and for nothing else. Pure."""

from typing import Any

import pydantic_core
from mcp.types import InitializeRequestParams, JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.datastructures import Headers

# More than any client's name and capabilities; what is larger is no handshake.
LARGEST_HANDSHAKE = 1 << 20


def handshake_refusal(method: str, headers: Headers, body: bytes) -> tuple[int, str] | None:
    """The HTTP status and the sentence for what opens no session (streamable HTTP, MCP 2025-11-25); None for a handshake."""
    if method != "POST":
        return 400, "Without a session only initialize is answered, as a POST."
    if _kind(headers.get("content-type", "")) != "application/json":
        return 415, "Send Content-Type: application/json."
    accepted = {_kind(part) for value in headers.getlist("accept") for part in value.split(",")}
    if "*/*" not in accepted and not {"application/json", "text/event-stream"} <= accepted:
        return 406, "Send Accept: application/json, text/event-stream."
    try:
        message = jsonrpc_message_adapter.validate_python(pydantic_core.from_json(body), by_name=False)
    except ValueError:
        return 400, "The body is no JSON-RPC message."
    if not isinstance(message, JSONRPCRequest) or message.method != "initialize":
        return 400, "Without a session only initialize is answered."
    if not _is_complete(message.params):
        return 400, "An initialize request has protocolVersion, capabilities and clientInfo."
    return None


def _is_complete(params: Any) -> bool:
    try:
        InitializeRequestParams.model_validate(params, by_name=False)
    except ValidationError:
        return False
    return True


def _kind(value: str) -> str:
    return value.partition(";")[0].strip().lower()

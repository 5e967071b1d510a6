"""A provider's refusals as UpstreamRefused: its error answers, with their message, code and parameter and never the key, and what
no provider of its kind takes. Pure.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from limpet.core.errors import UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams.function_names import TOOL_TYPES
from limpet.upstreams.key_filter import KeyFilter, hide_key
from limpet.upstreams.upstream import Turn

SHOWN_CHARACTERS = 500


def header_value(provider: str, key: Secret) -> str:
    """The key as a header may carry it. Raises UpstreamRefused (401) for one that no header can carry, without showing it."""
    value = key.reveal().strip()
    if not (value.isascii() and value.isprintable()):
        raise UpstreamRefused(provider, 401, "its key has characters that a header cannot carry. Check api_key.")
    return value


def refusal(
    provider: str, status: int, body: bytes, key: Secret | None, *, retry_after: float | None = None
) -> UpstreamRefused:
    """The error for an answer that is not 2xx. Read are the shapes of OpenAI, Anthropic, Google and Amazon and of
    common servers; else the text."""
    error = _error_object(body)
    message = error.get("message") or error.get("detail") or error.get("error")
    if not isinstance(message, str) or not message.strip():
        # Hidden before it is cut, since half of a key would not be found.
        text = hide_key(body.decode(errors="replace").strip(), key)
        message = text[:SHOWN_CHARACTERS] or f"HTTP status {status} without a message."
    code = error.get("code") or error.get("type")
    param = error.get("param")
    refused = UpstreamRefused(
        provider,
        status,
        hide_key(message, key),
        code=hide_key(str(code), key) if code is not None else None,
        param=hide_key(param, key) if isinstance(param, str) else None,
    )
    refused.retry_after = retry_after
    misalignment = error.get("misalignment")
    if isinstance(misalignment, dict):
        refused.misalignment = KeyFilter(key).hide(misalignment)
    return refused


def refuse_hosted_tools(turn: Turn, *, provider: str) -> None:
    """Raises UpstreamRefused (400) for the first tool that is neither the shell nor run by the client."""
    for tool in turn.tools:
        if tool.get("type") not in TOOL_TYPES:
            raise UpstreamRefused(
                provider,
                400,
                f"the tool {tool.get('type')!r} is not available with it. Available are the shell and functions.",
                code="unsupported_tool",
                param="tools",
            )


def _error_object(body: bytes) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return {}
    amazon = value.get("Error")
    if isinstance(amazon, dict):
        return {"message": amazon.get("Message"), "code": amazon.get("Code")}
    inner = value.get("error")
    if isinstance(inner, dict) and isinstance(inner.get("status"), str):
        return {**inner, "code": inner["status"]}  # Google's: `code` is the number of the HTTP status
    return inner if isinstance(inner, dict) else value

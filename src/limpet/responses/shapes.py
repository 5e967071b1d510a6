"""The response object as clients see it: every key that the Responses API's `Response` schema and Open Responses require."""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.core.clock import seconds

Json = dict[str, Any]

# Echoed as given, with what stands there when nothing was given.
_ECHOED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": "default",
    "temperature": 1.0,
    "top_p": 1.0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "tool_choice": "auto",
    "metadata": {},
}


def response_object(
    *,
    response_id: str,
    status: str,
    created_at: int,
    completed_at: int | None,
    request: Mapping[str, Any],
    container_id: str | None,
    output: Sequence[Json],
    usage: Mapping[str, Any] | None,
    error: Mapping[str, Any] | None,
    incomplete_reason: str | None,
) -> Json:
    """`request` holds the create parameters as given, with `tools` already resolved. Times come in microseconds and leave in seconds."""
    echoed = {key: default if request.get(key) is None else request[key] for key, default in _ECHOED.items()}
    shape: Json = {
        "id": response_id,
        "object": "response",
        "created_at": seconds(created_at),
        "completed_at": None if completed_at is None or status != "completed" else seconds(completed_at),
        "status": status,
        "background": False,
        "error": error,
        "incomplete_details": {"reason": incomplete_reason} if incomplete_reason else None,
        "model": request["model"],
        "output": list(output),
        "reasoning": {"effort": None, "summary": None} | dict(request.get("reasoning") or {}),
        "store": request.get("store") is not False,
        "text": {"format": {"type": "text"}} | dict(request.get("text") or {}),
        "tools": [_tool(tool) for tool in request.get("tools") or []],
        "usage": usage,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        **echoed,
    }
    if container_id is not None:
        shape["container_id"] = container_id
    if request.get("notes"):
        shape["notes"] = list(request["notes"])
    return shape


def _tool(tool: Json) -> Json:
    if tool.get("type") == "function":
        return {"description": None, "parameters": None, "strict": True} | tool
    return tool


def resolved_tools(tools: Sequence[Json], environment: Json | None) -> list[Json]:
    """The request's tools with the shell's environment as it was resolved, which hides what was asked for in it (secrets too)."""
    return [
        {**tool, "environment": environment} if tool.get("type") == "shell" and environment else tool for tool in tools
    ]


_DETAILS = {
    "input_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": ("reasoning_tokens",),
}


def add_usage(total: Json | None, turn: Mapping[str, Any] | None) -> Json | None:
    """The usage of several turns as one; None as long as no provider said anything."""
    if turn is None:
        return total
    summed: Json = dict(total or {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0})
    for key in ("input_tokens", "output_tokens", "total_tokens"):
        summed[key] = summed.get(key, 0) + (turn.get(key) or 0)
    for group, keys in _DETAILS.items():
        before, now = summed.get(group) or {}, turn.get(group) or {}
        summed[group] = {key: (before.get(key) or 0) + (now.get(key) or 0) for key in keys}
    return summed

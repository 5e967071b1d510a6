"""What of a provider's own response object is shown in ours: how the request was really served, in fields that only a provider can fill."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
# Strict clients refuse every other.
SERVICE_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"})
# They stand in the response as the provider's last turn gave them; only usage of its hosted tools is added up.
SHOWN = (
    "access_programs",
    "image",
    "input_transformations",
    "moderation",
    "prompt_cache_diagnostics",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
    "tool_usage",
)


def shown_fields(before: Json, turn: Mapping[str, Any]) -> Json:
    """Those of a response after one more turn."""
    news = {name: turn[name] for name in SHOWN if turn.get(name) is not None}
    if news.get("service_tier") not in SERVICE_TIERS:
        news.pop("service_tier", None)
    if "tool_usage" in before and "tool_usage" in news:
        news["tool_usage"] = _added(before["tool_usage"], news["tool_usage"])
    return before | news


def _added(one: Any, other: Any) -> Any:
    """Numbers of the same name, at any depth, together."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**one, **{key: _added(one.get(key), value) for key, value in other.items()}}
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return other

"""Items as their own endpoints show them: each with an id, a status and every key that strict clients require. Pure.

An item of a request often came without them. The id that it is given then is made of its owner's id and its place there, so that it is
the same each time that it is asked for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

from limpet.core.resources import WireObject

Json = dict[str, Any]

# By type, the prefix of the ids of OpenAI's items of that type.
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "compaction": "cmp",
}
# Types whose items have a status; what a client sends without one is done.
_WITH_STATUS = frozenset(_PREFIXES) - {"reasoning", "compaction"}
_NO_ACTION: Json = {"commands": [], "timeout_ms": None, "max_output_length": None}
_DEFAULTS: Mapping[str, Json] = {
    "reasoning": {"summary": []},
    "shell_call": {"environment": None},
    "shell_call_output": {"max_output_length": None},
}


class ItemPage(WireObject, frozen=True, kw_only=True):
    """A page of items. `first_id` and `last_id` are null where it is empty."""

    object: Literal["list"] = "list"
    data: list[Json]
    first_id: str | None
    last_id: str | None
    has_more: bool


def item_page(items: Sequence[Json], *, has_more: bool) -> ItemPage:
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    return ItemPage(data=list(items), first_id=first, last_id=last, has_more=has_more)


def item_id(item: Json, *, owner: str, position: int) -> str:
    """Its own id, or the one that it has at that place of its owner's list."""
    own = item.get("id")
    if isinstance(own, str) and own:
        return own
    digest = sha256(f"{owner}.{position}".encode()).hexdigest()[:32]
    return f"{_PREFIXES.get(item['type'], 'item')}_{digest}"


def identified(items: Sequence[Json], *, owner: str) -> list[tuple[str, Json]]:
    """Each item with its id."""
    return [(item_id(item, owner=owner, position=at), item) for at, item in enumerate(items)]


def shown_item(item: Json, id: str, *, include: Collection[str] = ()) -> Json:
    """The item on the wire, without what is only shown where `include` names it."""
    kind = item["type"]
    whole = {**_DEFAULTS.get(kind, {}), **item, "id": id}
    if kind in _WITH_STATUS and whole.get("status") is None:
        whole["status"] = "completed"
    if kind == "shell_call":
        whole["action"] = _NO_ACTION | whole["action"]
    for field in ("content", "output"):
        if isinstance(whole.get(field), str) and kind == "message":
            whole[field] = [{"type": _text_type(whole), "text": whole[field]}]
        if isinstance(whole.get(field), list) and kind != "shell_call_output":
            whole[field] = [_part(part) for part in whole[field]]
    for name, leave_out in _OPTIONAL.items():
        if name not in include:
            whole = leave_out(whole)
    return whole


def _text_type(message: Json) -> str:
    return "output_text" if message.get("role") == "assistant" else "input_text"


def _part(part: Any) -> Any:
    """Of a kind of item that the gateway does not read, a part may be anything."""
    match part:
        case {"type": "output_text"}:
            return {"annotations": [], "logprobs": [], **part}
        case {"type": "input_image"}:
            return {"detail": "auto", **part}
        case _:
            return part


def _without(kind: str, key: str) -> Callable[[Json], Json]:
    def leave_out(item: Json) -> Json:
        if item["type"] != kind or key not in item:
            return item
        return {name: value for name, value in item.items() if name != key}

    return leave_out


def _without_image_urls(item: Json) -> Json:
    parts = item.get("content")
    if item["type"] != "message" or not isinstance(parts, list):
        return item
    kept = [
        {name: value for name, value in part.items() if name != "image_url"}
        if isinstance(part, dict) and part.get("type") == "input_image"
        else part
        for part in parts
    ]
    return {**item, "content": kept}


def _without_logprobs(item: Json) -> Json:
    """The key is there, as strict clients require it, and holds nothing."""
    parts = item.get("content")
    if item["type"] != "message" or not isinstance(parts, list):
        return item
    kept = [{**part, "logprobs": []} if isinstance(part, dict) and "logprobs" in part else part for part in parts]
    return {**item, "content": kept}


def _without_sources(item: Json) -> Json:
    action = item.get("action")
    if item["type"] != "web_search_call" or not isinstance(action, dict) or "sources" not in action:
        return item
    return {**item, "action": {name: value for name, value in action.items() if name != "sources"}}


def _without_screenshot(item: Json) -> Json:
    output = item.get("output")
    if item["type"] != "computer_call_output" or not isinstance(output, dict) or "image_url" not in output:
        return item
    return {**item, "output": {name: value for name, value in output.items() if name != "image_url"}}


# What `include` brings, and how an item looks without it.
_OPTIONAL: Mapping[str, Callable[[Json], Json]] = {
    "code_interpreter_call.outputs": _without("code_interpreter_call", "outputs"),
    "computer_call_output.output.image_url": _without_screenshot,
    "file_search_call.results": _without("file_search_call", "results"),
    "message.input_image.image_url": _without_image_urls,
    "message.output_text.logprobs": _without_logprobs,
    "reasoning.encrypted_content": _without("reasoning", "encrypted_content"),
    "web_search_call.action.sources": _without_sources,
    "web_search_call.results": _without("web_search_call", "results"),
}
INCLUDABLE = tuple(_OPTIONAL)

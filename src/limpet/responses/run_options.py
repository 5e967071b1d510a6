"""Parts of a run that its request decides: instructions and options, as the provider is given them."""

from typing import Any

import structlog

from limpet.responses.request import ParsedRequest
from limpet.responses.tool_selection import ToolSelection
from limpet.store.responses import ResponseRecord
from limpet.upstreams.upstream import Upstream

log = structlog.get_logger()
Json = dict[str, Any]


def with_note(instructions: str | None, note: str | None) -> str | None:
    """What the model must know before its first turn ends its instructions."""
    if note is None:
        return instructions
    return f"Note: {note}" if instructions is None else f"{instructions}\n\nNote: {note}"


def provider_options(asked: ParsedRequest, selection: ToolSelection, upstream: Upstream) -> Json:
    """What the provider is given of the request's parameters."""
    options = asked.options()
    if upstream.compaction is None:
        options.pop("context_management", None)
    if asked.provider_shell is not None and asked.body.max_tool_calls is not None:
        options["max_tool_calls"] = asked.body.max_tool_calls  # the provider makes them: it must count them
    return options if selection.choice is None else {**options, "tool_choice": selection.choice}


def log_left_out(record: ResponseRecord, selection: ToolSelection) -> None:
    """So that an operator sees which tools are asked for in vain."""
    if selection.left_out:
        tools = list(selection.left_out)
        log.warning(
            "tools_left_out", response_id=record.id, tenant=record.tenant, provider=record.provider, tools=tools
        )

"""Calls that a model has made in a turn: those that the gateway carries out, and the types of those that only the client can."""

from dataclasses import dataclass
from typing import Any

from limpet.upstreams.upstream import CallMade

Json = dict[str, Any]
# Calls that only the client can answer.
PATCH_CALL = "apply_patch_call"
CLIENTS_CALLS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        PATCH_CALL,
        "computer_call",
        "mcp_approval_request",
    }
)


@dataclass(frozen=True, slots=True)
class PatchMade:
    """The model has finished an `apply_patch_call`, the `index`-th item of its turn: `item`, as it was told."""

    index: int
    item: Json


HostedCall = CallMade | PatchMade

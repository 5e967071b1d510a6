"""Which of a request's tools a provider is given. Hosted tools that it cannot run are left out, by name; forced ones are refused. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limpet.core.errors import RequestInvalid
from limpet.responses.settings import WhenUnsupported
from limpet.upstreams.upstream import Upstream

Json = dict[str, Any]
IN_A_NAMESPACE = frozenset({"function", "custom"})
MOST_NAMED = 32
_NOT_IN_A_HEADER = re.compile(r"[^A-Za-z0-9_.:-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSelection:
    """`tools` are given to the provider, `choice` is the `tool_choice` among them. `left_out` are the types of the others, each once, in
    letters that a header and a log can carry."""

    tools: tuple[Json, ...]
    choice: Any
    left_out: tuple[str, ...] = ()

    def notes(self, provider: str) -> list[str]:
        """A sentence for each type that is left out."""
        return [f"The tool {kind} was left out: the provider {provider} cannot run it." for kind in self.left_out]


def selected(
    tools: Sequence[Json], choice: Any, *, upstream: Upstream, has_shell: bool, unsupported: WhenUnsupported
) -> ToolSelection:
    """What the provider is given of the tools (those beside the shell) and the choice. Raises RequestInvalid (unsupported_tool)
    where a tool that it cannot run is forced, or where such tools are refused."""
    types = upstream.tool_types
    if types is None:
        return ToolSelection(tools=tuple(tools), choice=choice)
    kept: list[Json] = []
    missing: list[str] = []
    for tool in tools:
        if tool["type"] == "namespace" and "namespace" in types:
            inner = [each for each in tool["tools"] if each["type"] in IN_A_NAMESPACE]
            missing += [each["type"] for each in tool["tools"] if each["type"] not in IN_A_NAMESPACE]
            kept.append({**tool, "tools": inner})
        elif tool["type"] in types:
            kept.append(tool)
        else:
            missing.append(tool["type"])
    if missing and unsupported == "refuse":
        raise _unsupported(missing[0], upstream.name, "tools")
    callable_ones = has_shell or any(tool["type"] != "namespace" or tool["tools"] for tool in kept)
    return ToolSelection(
        tools=tuple(kept),
        choice=_choice(choice, types, missing, upstream.name, callable_ones=callable_ones),
        left_out=tuple(dict.fromkeys(map(_named, missing)))[:MOST_NAMED],
    )


def _choice(choice: Any, types: frozenset[str], missing: Sequence[str], provider: str, *, callable_ones: bool) -> Any:
    if choice == "required" and missing and not callable_ones:
        raise _unsupported(missing[0], provider, "tool_choice")
    if not isinstance(choice, Mapping):
        return choice
    if choice["type"] != "allowed_tools":
        if choice["type"] not in types | {"shell"}:
            raise _unsupported(choice["type"], provider, "tool_choice")
        return choice
    given = list(_objects(choice.get("tools")))
    allowed = [tool for tool in given if tool.get("type") in types | {"shell"}]
    if allowed or not given:
        return {**choice, "tools": allowed}
    if choice.get("mode") == "required":
        raise _unsupported(str(given[0].get("type")), provider, "tool_choice")
    return "none"


def _objects(value: object) -> Iterator[Json]:
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _named(kind: str) -> str:
    return _NOT_IN_A_HEADER.sub("_", kind[:64])


def _unsupported(kind: str, provider: str, param: str) -> RequestInvalid:
    return RequestInvalid(
        f"The tool {kind[:64]!r} is not available with the provider {provider}. Available are the shell, functions and custom tools.",
        param=param,
        code="unsupported_tool",
    )

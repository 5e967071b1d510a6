"""The client's tools as plain functions, for providers that know no others: what stands in a `namespace` and `custom` tools get a
function each, and a call of one is told to the client in the tool's own form. Pure; the same tools always get the same names.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limpet.upstreams import patch_function

CUSTOM_INPUT = "input"  # the one argument of the function that stands for a custom tool
INVALID_ARGUMENTS = "INVALID_JSON"
TOOL_TYPES = frozenset({"function", "custom", "namespace", patch_function.TYPE})
LONGEST = 64  # letters of a function's name that every provider takes
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTool:
    """One function or custom tool of the client. `function` is the name under which the provider knows it, `about` its description
    with that of its namespace."""

    function: str
    name: str
    namespace: str | None
    is_custom: bool
    about: str | None
    definition: Mapping[str, Any]

    @property
    def is_patch(self) -> bool:
        """Whether it is `apply_patch`, whose calls are items of their own."""
        return self.definition.get("type") == patch_function.TYPE

    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema of the function's arguments."""
        if self.is_patch:
            return patch_function.parameters()
        if self.is_custom:
            field = {"type": "string", "description": _form_of(self.definition)}
            return {
                "type": "object",
                "properties": {CUSTOM_INPUT: field},
                "required": [CUSTOM_INPUT],
                "additionalProperties": False,
            }
        given: Mapping[str, Any] = self.definition.get("parameters") or {"type": "object", "properties": {}}
        return given


class FunctionNames:
    """The names of one turn's tools, both ways. `taken` are names that no tool in a namespace may get."""

    def __init__(self, tools: Sequence[Mapping[str, Any]], *, taken: Sequence[str] = ()) -> None:
        flat = list(_flat(tools))
        used = {*taken, *(str(tool["name"]) for namespace, _, tool in flat if namespace is None)}
        self.tools: list[ClientTool] = []
        for namespace, about, tool in flat:
            function = str(tool["name"]) if namespace is None else joined(namespace, str(tool["name"]))
            if namespace is not None and function in used:
                function = _shortened(function, of=json.dumps([namespace, tool["name"]]))
            used.add(function)
            self.tools.append(_client_tool(function, namespace, about, tool))
        self._by_function = {tool.function: tool for tool in self.tools}
        self._functions = {(tool.namespace, tool.name): tool.function for tool in self.tools}

    def tool(self, function: str) -> ClientTool | None:
        """The tool that a function stands for; None for one that was not given."""
        return self._by_function.get(function)

    def function(self, name: str, namespace: str | None) -> str:
        """The function that represents a tool, also one that is no longer among the tools."""
        known = self._functions.get((namespace, name))
        if known is not None:
            return known
        return joined(namespace, name) if namespace else name

    def chosen(self, name: str, namespace: str | None) -> str:
        """The function for a `tool_choice`, which may leave the namespace out."""
        if namespace is None and (None, name) not in self._functions:
            return next((tool.function for tool in self.tools if tool.name == name), name)
        return self.function(name, namespace)


def joined(namespace: str, name: str) -> str:
    """A namespaced tool's name in letters that every provider takes: `crm` and `look_up` are `crm__look_up`."""
    between = "" if namespace.endswith("__") else "__"
    plain = _NOT_IN_A_NAME.sub("_", f"{namespace}{between}{name}")
    return plain if len(plain) <= LONGEST else _shortened(plain, of=json.dumps([namespace, name]))


def arguments_object(text: str) -> dict[str, Any]:
    """The arguments of a call in the history, as the object that wires and servers insist on. What is none stands in one."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {INVALID_ARGUMENTS: text}


def custom_arguments(given: str) -> str:
    """The arguments of the function that stands for a custom tool."""
    return json.dumps({CUSTOM_INPUT: given}, ensure_ascii=False)


def custom_input(arguments: str) -> str:
    """The input of a custom tool from the arguments that a model wrote; what is no such object is the input itself."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if isinstance(value, dict) and isinstance(value.get(CUSTOM_INPUT), str):
        return str(value[CUSTOM_INPUT])
    return value if isinstance(value, str) else arguments


def _flat(tools: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str | None, str | None, Mapping[str, Any]]]:
    for tool in tools:
        if tool.get("type") == "namespace":
            for inner in tool.get("tools") or ():
                yield str(tool["name"]), tool.get("description"), inner
        elif tool.get("type") == patch_function.TYPE:
            yield None, None, {**tool, "name": patch_function.NAME, "description": patch_function.DESCRIPTION}
        elif tool.get("type") in TOOL_TYPES:
            yield None, None, tool


def _client_tool(function: str, namespace: str | None, about: str | None, tool: Mapping[str, Any]) -> ClientTool:
    words = [text for text in (tool.get("description"), about and f"(Of {namespace}: {about})") if text]
    return ClientTool(
        function=function,
        name=str(tool["name"]),
        namespace=namespace,
        is_custom=tool.get("type") == "custom",
        about="\n".join(words) or None,
        definition=tool,
    )


def _form_of(tool: Mapping[str, Any]) -> str:
    form = tool.get("format") or {}
    if form.get("type") != "grammar":
        return "The tool's input, as plain text."
    return f"The tool's input, as plain text of this grammar ({form.get('syntax')}):\n{form.get('definition')}"


def _shortened(function: str, *, of: str) -> str:
    """A name of at most LONGEST letters that no other tool has."""
    mark = hashlib.sha256(of.encode(errors="replace")).hexdigest()[:8]
    return f"{function[: LONGEST - len(mark) - 1]}_{mark}"

"""The request to a Responses-native provider: one turn as the body of `POST /responses`. Pure.

The provider keeps nothing (`store: false`), so the whole input goes out each time, and of it only what that provider can know:
no ids and fields of our own making, and no reasoning that another provider sealed.
"""

import json
from collections.abc import Mapping
from typing import Any

from limpet.core.ids import CONTAINER, MESSAGE, REASONING, is_id
from limpet.upstreams import patch_function, shell_function
from limpet.upstreams.upstream import LEFT_OUT, Turn

SEALED_REASONING = "reasoning.encrypted_content"
# What ties a request to the gateway's own state; a provider without state cannot know it.
OURS = frozenset({"background", "conversation", "previous_response_id", "store", "stream", "model", "input", "tools"})


def request_body(turn: Turn, *, native_shell: bool, provider: str) -> dict[str, Any]:
    """The body. Raises UpstreamRefused (400) when a client's function takes the name that the shell needs."""
    options = {name: value for name, value in turn.options.items() if name not in OURS}
    include = [name for name in options.pop("include", None) or () if name != SEALED_REASONING]
    body: dict[str, Any] = {
        **options,
        "model": turn.model,
        "input": _input(turn, native_shell=native_shell),
        "tools": _tools(turn, native_shell=native_shell, provider=provider),
        "stream": True,
        "store": False,
        "include": [*include, SEALED_REASONING],
    }
    if turn.instructions is not None:
        body["instructions"] = turn.instructions
    if not native_shell and "tool_choice" in body:
        body["tool_choice"] = _choice(body["tool_choice"])
    return body


def _tools(turn: Turn, *, native_shell: bool, provider: str) -> list[Mapping[str, Any]]:
    if turn.provider_shell is not None:
        return [turn.provider_shell, *turn.tools]
    tools = list(turn.tools) if native_shell else [_patch_function(tool) for tool in turn.tools]
    if turn.shell is None:
        return tools
    if native_shell:
        return [{"type": "shell", "environment": {"type": "local"}}, *tools]
    shell_function.refuse_taken_name(turn, provider=provider)
    return [shell_function.tool(turn.shell.description), *tools]


def _patch_function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """`apply_patch` as a function: a server that does not know OpenAI's shell does not know it either."""
    if tool.get("type") != patch_function.TYPE:
        return tool
    return {
        "type": "function",
        "name": patch_function.NAME,
        "description": patch_function.DESCRIPTION,
        "parameters": patch_function.parameters(),
        "strict": False,
    }


def _choice(choice: object) -> object:
    """A tool choice that names the shell, as a choice of the function."""
    if not isinstance(choice, Mapping):
        return choice
    if choice.get("type") == "shell":
        return {"type": "function", "name": shell_function.NAME}
    if choice.get("type") == patch_function.TYPE:
        return {"type": "function", "name": patch_function.NAME}
    if choice.get("type") == "allowed_tools":
        return {**choice, "tools": [_choice(tool) for tool in choice.get("tools") or ()]}
    return choice


def _input(turn: Turn, *, native_shell: bool) -> list[Mapping[str, Any]]:
    sent: list[Mapping[str, Any]] = []
    for item in turn.input:
        match item.get("type", "message"):
            case "shell_call" if native_shell:
                sent.append(_native_call(item, is_own=turn.provider_shell is not None))
            case "shell_call":
                sent.append(_function_call(item))
            case "shell_call_output":
                sent.append(_native_output(item) if native_shell else _function_output(item))
            case "apply_patch_call" | "apply_patch_call_output":
                sent.append(_patch_item(item) if native_shell else _patch_as_function(item))
            case "reasoning":
                if _can_be_read_there(item):
                    sent.append(item)
            case "message":
                sent.append(_without_our_citations(_without_our_id(_without_our_key(item))))
            case "compaction":
                sent.append({key: value for key, value in item.items() if key != "container_id"})
            case _:
                sent.append(item)
    return sent


def _without_our_key(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in item.items() if key != LEFT_OUT} if LEFT_OUT in item else item


def _native_call(item: Mapping[str, Any], *, is_own: bool) -> dict[str, Any]:
    """`is_own`: the provider runs the shell, and knows the containers of its own calls."""
    # No id: it is ours, and OpenAI looks ids up. No status: a stateless input needs none.
    action = item.get("action") or {}
    environment = (item.get("environment") or {}) if is_own else {}
    knows = environment.get("type") == "container_reference" and not is_id(
        str(environment.get("container_id")), prefix=CONTAINER
    )
    return {
        "type": "shell_call",
        "call_id": item["call_id"],
        "action": {name: action.get(name) for name in ("commands", "timeout_ms", "max_output_length")},
        "environment": environment if knows else {"type": "local"},
    }


def _patch_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Without an id, which OpenAI looks up, and without what is ours on it."""
    return {name: item[name] for name in ("type", "call_id", "status", "operation", "output") if name in item}


def _patch_as_function(item: Mapping[str, Any]) -> dict[str, Any]:
    if item["type"] == "apply_patch_call_output":
        text = patch_function.output_text(item)
        return {"type": "function_call_output", "call_id": item["call_id"], "output": text}
    arguments = patch_function.call_arguments(item)
    called = {"type": "function_call", "call_id": item["call_id"], "name": patch_function.NAME}
    return {**called, "arguments": arguments}


def _native_output(item: Mapping[str, Any]) -> dict[str, Any]:
    entries = [{name: entry[name] for name in ("stdout", "stderr", "outcome")} for entry in item["output"]]
    sent = {"type": "shell_call_output", "call_id": item["call_id"], "output": entries}
    if item.get("max_output_length") is not None:
        sent["max_output_length"] = item["max_output_length"]
    return sent


def _function_call(item: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(shell_function.call_arguments(item), ensure_ascii=False)
    return {
        "type": "function_call",
        "call_id": item["call_id"],
        "name": shell_function.NAME,
        "arguments": arguments,
    }


def _function_output(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": item["call_id"], "output": shell_function.output_text(item)}


def _can_be_read_there(item: Mapping[str, Any]) -> bool:
    """An id of our making means reasoning of a translated provider; without content there is nothing but an id to look up."""
    if is_id(str(item.get("id", "")), prefix=REASONING):
        return False
    return bool(item.get("encrypted_content") or item.get("content"))


def _without_our_id(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of a client has an id of our making where the client read it from us; the provider has never heard of it."""
    if item.get("role") == "assistant" or not is_id(str(item.get("id", "")), prefix=MESSAGE):
        return item
    return {key: value for key, value in item.items() if key != "id"}


def _without_our_citations(item: Mapping[str, Any]) -> Mapping[str, Any]:
    content = item.get("content")
    if item.get("role") != "assistant" or not isinstance(content, list):
        return item
    return {**item, "content": [_part_without_our_citations(part) for part in content]}


def _part_without_our_citations(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if not part.get("annotations"):
        return part
    kept = [each for each in part["annotations"] if not is_id(str(each.get("container_id", "")), prefix=CONTAINER)]
    return {**part, "annotations": kept}

"""The request of a translated turn: tools, choices and options in pydantic-ai's terms. Pure.

An option that these wires do not know is left out, as the library does; a tool that neither the gateway nor the client can run is
refused by its name.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings, ThinkingLevel, ToolChoice, ToolOrOutput
from pydantic_ai.tools import ToolDefinition

from limpet.core.errors import UpstreamRefused
from limpet.upstreams import shell_function
from limpet.upstreams.function_names import ClientTool, FunctionNames
from limpet.upstreams.refusals import refuse_hosted_tools
from limpet.upstreams.upstream import Turn

# Responses options that mean the same everywhere, under the library's names.
SAME = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
}
EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
# OpenAI's `fast` is its `priority` by another name.
SERVICE_TIERS = {"auto": "auto", "default": "default", "flex": "flex", "priority": "priority", "fast": "priority"}


def names_of(turn: Turn) -> FunctionNames:
    """The functions of a turn's tools."""
    return FunctionNames(turn.tools, taken=() if turn.shell is None else (shell_function.NAME,))


def request_parameters(turn: Turn, names: FunctionNames, *, provider: str) -> ModelRequestParameters:
    """Tools and form of the answer. Raises UpstreamRefused (400) for a tool that is neither the shell nor the client's own."""
    refuse_hosted_tools(turn, provider=provider)
    tools = [_function(tool) for tool in names.tools]
    if turn.shell is not None:
        shell_function.refuse_taken_name(turn, provider=provider)
        shell = ToolDefinition(
            name=shell_function.NAME,
            description=turn.shell.description,
            parameters_json_schema=shell_function.parameters(),
            strict=False,
        )
        tools.insert(0, shell)
    wanted = (turn.options.get("text") or {}).get("format") or {}
    match wanted.get("type", "text"):
        case "text":
            return ModelRequestParameters(function_tools=tools)
        case "json_schema":
            form = OutputObjectDefinition(
                json_schema=wanted.get("schema") or {},
                name=wanted.get("name"),
                description=wanted.get("description"),
                strict=wanted.get("strict") or None,
            )
            return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=form)
        case kind:
            raise UpstreamRefused(
                provider,
                400,
                f"it cannot be asked for text in the format {kind!r}. Use json_schema or text.",
                code="unsupported_format",
                param="text.format",
            )


def settings(turn: Turn, names: FunctionNames, *, provider: str) -> ModelSettings:
    """Sampling, limits, choice of tools and effort. Raises UpstreamRefused (400) for a choice that names no function."""
    options = turn.options
    given: dict[str, Any] = {name: options[wire] for wire, name in SAME.items() if options.get(wire) is not None}
    if options.get("tool_choice") is not None:
        given["tool_choice"] = _choice(options["tool_choice"], names, provider)
    if (effort := (options.get("reasoning") or {}).get("effort")) is not None:
        given["thinking"] = _thinking(effort, provider)
    if options.get("service_tier") in SERVICE_TIERS:
        given["service_tier"] = SERVICE_TIERS[options["service_tier"]]
    return cast(ModelSettings, given)


def _thinking(effort: object, provider: str) -> ThinkingLevel:
    if effort == "none":
        return False
    if effort not in EFFORTS:
        raise UpstreamRefused(
            provider,
            400,
            f"reasoning.effort cannot be {effort!r}. Use one of: none, {', '.join(EFFORTS)}.",
            code="unsupported_value",
            param="reasoning.effort",
        )
    return cast(ThinkingLevel, effort)


def _function(tool: ClientTool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.function,
        description=tool.about,
        parameters_json_schema=dict(tool.parameters()),
        # Said outright: None would let the library decide, which rewrites the client's schema.
        strict=tool.definition.get("strict") is True,
    )


def _choice(choice: object, names: FunctionNames, provider: str) -> ToolChoice:
    if choice in ("auto", "none", "required"):
        return cast(ToolChoice, choice)
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        allowed = _named(choice.get("tools") or (), names, provider)
        return allowed if choice.get("mode") == "required" else ToolOrOutput(function_tools=allowed)
    return _named([choice], names, provider)


def _named(choices: Sequence[object], names: FunctionNames, provider: str) -> list[str]:
    """The functions that the choices name; the shell is one of them, a whole namespace several."""
    named: list[str] = []
    for choice in choices:
        kind = choice.get("type") if isinstance(choice, Mapping) else choice
        if kind == "shell":
            named.append(shell_function.NAME)
        elif kind in ("function", "custom") and isinstance(choice, Mapping):
            named.append(names.chosen(str(choice.get("name")), choice.get("namespace")))
        elif kind == "namespace" and isinstance(choice, Mapping):
            named += [tool.function for tool in names.tools if tool.namespace == choice.get("name")]
        else:
            raise UpstreamRefused(
                provider,
                400,
                f"tool_choice cannot be {kind!r} with it. Use auto, none, required, the shell or a function.",
                code="unsupported_tool",
                param="tool_choice",
            )
    return named

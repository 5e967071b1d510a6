"""The request of a translated turn in pydantic-ai's terms: tools, choices and options. Pure; refusals as in `turn_request`."""

from typing import Any, cast

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings, ToolChoice, ToolOrOutput
from pydantic_ai.tools import ToolDefinition

from limpet.upstreams.function_names import FunctionNames
from limpet.upstreams.turn_request import (
    AllowedFunctions,
    OfferedFunction,
    answer_schema,
    effort_of,
    functions_of,
    names_of,
    service_tier_of,
    tool_choice_of,
)
from limpet.upstreams.upstream import Turn

__all__ = ["names_of", "request_parameters", "settings"]

# Responses options that mean the same everywhere, under the library's names.
SAME = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
}


def request_parameters(turn: Turn, names: FunctionNames, *, provider: str) -> ModelRequestParameters:
    """Tools and form of the answer. Raises UpstreamRefused (400) for a tool that is neither the shell nor the client's own."""
    tools = [_function(each) for each in functions_of(turn, names, provider=provider)]
    wanted = answer_schema(turn, provider=provider)
    if wanted is None:
        return ModelRequestParameters(function_tools=tools)
    form = OutputObjectDefinition(
        json_schema=dict(wanted.schema),
        name=wanted.name,
        description=wanted.description,
        strict=wanted.strict or None,
    )
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=form)


def settings(turn: Turn, names: FunctionNames, *, provider: str) -> ModelSettings:
    """Sampling, limits, choice of tools and effort. Raises UpstreamRefused (400) for a choice that names no function."""
    options = turn.options
    given: dict[str, Any] = {name: options[wire] for wire, name in SAME.items() if options.get(wire) is not None}
    choice = tool_choice_of(turn, names, provider=provider)
    if choice is not None:
        given["tool_choice"] = _choice(choice)
    if (effort := effort_of(turn, provider=provider)) is not None:
        given["thinking"] = False if effort == "none" else effort
    if (tier := service_tier_of(turn)) is not None:
        given["service_tier"] = tier
    return cast(ModelSettings, given)


def _function(function: OfferedFunction) -> ToolDefinition:
    return ToolDefinition(
        name=function.name,
        description=function.about,
        parameters_json_schema=dict(function.parameters),
        # Said outright: None would let the library decide, which rewrites the client's schema.
        strict=function.strict,
    )


def _choice(choice: str | AllowedFunctions) -> ToolChoice:
    if not isinstance(choice, AllowedFunctions):
        return cast(ToolChoice, choice)
    return list(choice.names) if choice.required else ToolOrOutput(function_tools=list(choice.names))

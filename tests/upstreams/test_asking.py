from typing import Any

import pytest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ToolOrOutput

from limpet.core.errors import UpstreamRefused
from limpet.upstreams import shell_function
from limpet.upstreams.model_request import names_of, settings
from limpet.upstreams.model_request import request_parameters as asked_parameters
from limpet.upstreams.upstream import ShellOffer, Turn

WEATHER = {"type": "function", "name": "weather", "description": "d", "parameters": {"type": "object"}, "strict": True}
BARE = {"type": "function", "name": "bare"}


def turn(**given: Any) -> Turn:
    return Turn(model="m", input=[], **given)


def options(**given: Any) -> dict[str, Any]:
    asked = turn(options=given)
    return dict(settings(asked, names_of(asked), provider="acme"))


def request_parameters(asked: Turn, *, provider: str) -> ModelRequestParameters:
    return asked_parameters(asked, names_of(asked), provider=provider)


def test_the_shell_stands_in_front_of_the_clients_functions() -> None:
    asked = request_parameters(turn(shell=ShellOffer(description="here"), tools=[WEATHER, BARE]), provider="acme")
    shell, weather, bare = asked.function_tools
    assert (shell.name, shell.description, shell.strict) == ("shell", "here", False)
    assert shell.parameters_json_schema == shell_function.parameters()
    assert (weather.name, weather.description, weather.strict) == ("weather", "d", True)
    assert (bare.strict, bare.parameters_json_schema) == (False, {"type": "object", "properties": {}})


@pytest.mark.parametrize("kind", ["web_search", "mcp", "code_interpreter"])
def test_a_tool_that_nobody_here_runs_is_refused_by_name(kind: str) -> None:
    with pytest.raises(UpstreamRefused, match=f"'{kind}'") as refused:
        request_parameters(turn(tools=[{"type": kind, "name": kind}]), provider="acme")
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, "unsupported_tool", "tools")


def test_a_schema_for_the_answer_is_asked_for() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    asked = request_parameters(turn(options={"text": {"format": form}}), provider="acme")
    wanted = OutputObjectDefinition(json_schema={"type": "object"}, name="n", strict=True)
    assert (asked.output_mode, asked.output_object) == ("native", wanted)
    with pytest.raises(UpstreamRefused, match="yaml"):
        request_parameters(turn(options={"text": {"format": {"type": "yaml"}}}), provider="acme")


def test_options_have_the_librarys_names_and_unknown_ones_are_left_out() -> None:
    given = {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 100,
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low"},
        "service_tier": "flex",
        "metadata": {"a": "b"},
        "user": "u",
    }
    assert options(**given) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 100,
        "parallel_tool_calls": False,
        "thinking": "low",
        "service_tier": "flex",
    }
    assert options(reasoning={"effort": "none"}, temperature=None, tool_choice=None) == {"thinking": False}


@pytest.mark.parametrize(
    "choice, asked",
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "shell"}, ["shell"]),
        ({"type": "function", "name": "f"}, ["f"]),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}, ["f"]),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "shell"}]},
            ToolOrOutput(function_tools=["shell"]),
        ),
    ],
)
def test_the_choice_of_tools_is_passed_on(choice: object, asked: object) -> None:
    assert options(tool_choice=choice) == {"tool_choice": asked}


@pytest.mark.parametrize("choice", [{"type": "web_search"}, "sometimes", {"type": "allowed_tools", "tools": ["x"]}])
def test_a_choice_that_names_no_function_is_refused(choice: object) -> None:
    with pytest.raises(UpstreamRefused, match="tool_choice cannot be") as refused:
        options(tool_choice=choice)
    assert refused.value.param == "tool_choice"


def test_an_unknown_effort_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UpstreamRefused, match="none, minimal, low") as refused:
        options(reasoning={"effort": "weird"})
    assert (refused.value.status, refused.value.param) == (400, "reasoning.effort")

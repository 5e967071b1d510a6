from typing import Any

import pytest

from limpet.upstreams.function_names import FunctionNames, custom_arguments, custom_input, joined

LOOK_UP = {"type": "function", "name": "look_up", "description": "Finds one.", "parameters": {"type": "object"}}
PATCH = {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}}
CRM = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [LOOK_UP, PATCH]}


def test_tools_of_a_namespace_are_functions_and_are_found_again() -> None:
    names = FunctionNames([LOOK_UP, CRM])

    assert [tool.function for tool in names.tools] == ["look_up", "crm__look_up", "crm__patch"]
    assert names.function("look_up", "crm") == "crm__look_up"
    found = names.tool("crm__look_up")
    assert found is not None
    assert (found.name, found.namespace, found.is_custom) == ("look_up", "crm", False)
    assert found.about == "Finds one.\n(Of crm: Customers.)"


def test_a_custom_tool_has_one_text_and_its_grammar_is_told() -> None:
    (tool,) = FunctionNames([PATCH]).tools

    assert tool.parameters()["required"] == ["input"]
    assert "start: X" in tool.parameters()["properties"]["input"]["description"]
    assert custom_input(custom_arguments('*** Begin\n"x"')) == '*** Begin\n"x"'


@pytest.mark.parametrize("written", ["*** Begin", '{"other": 1}', '{"input": 7}', "7", ""])
def test_a_custom_tools_input_that_is_not_as_asked_is_handed_on_as_it_is(written: str) -> None:
    assert custom_input(written) == written


def test_names_that_clash_are_told_apart_and_stay_the_same() -> None:
    plain: dict[str, Any] = {"type": "function", "name": "crm__look_up"}
    other = {**CRM, "name": "crm__", "tools": [LOOK_UP]}
    one, two = FunctionNames([plain, CRM, other]), FunctionNames([plain, CRM, other])

    functions = [tool.function for tool in one.tools]
    assert len(set(functions)) == 4
    assert functions[0] == "crm__look_up"
    assert functions == [tool.function for tool in two.tools]
    for tool in one.tools:
        assert one.tool(tool.function) is tool
        assert one.function(tool.name, tool.namespace) == tool.function


def test_no_tool_in_a_namespace_takes_the_shells_name() -> None:
    (tool,) = FunctionNames(
        [{"type": "namespace", "name": "__", "tools": [{**LOOK_UP, "name": "shell"}]}], taken=("__shell",)
    ).tools
    assert tool.function != "__shell"


@pytest.mark.parametrize("namespace", ["n" * 200, "mcp.server/with spaces", "ü" * 70, "a\r\nb"])
def test_every_name_is_one_that_providers_take(namespace: str) -> None:
    name = joined(namespace, "look_up")
    assert len(name) <= 64
    assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)
    assert name != joined(namespace, "look_ups")
    # A call from a time when the tool was still given is told under the same name.
    assert FunctionNames([]).function("look_up", namespace) == name

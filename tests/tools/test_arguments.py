"""A model's arguments: what is unambiguous is taken, everything else gets a sentence that a model can act on."""

from typing import Any

import pytest

from limpet.tools.arguments import Arguments, BadArguments, nearest, read

EXAMPLE = {"command": "ls -la"}
NAMES = ("command", "timeoutMs", "env", "parameters", "stream", "output_format")


def given(**arguments: Any) -> Arguments:
    return read(arguments, tool="tool", names=NAMES, example=EXAMPLE)


def sentence(wrong: pytest.ExceptionInfo[BadArguments]) -> str:
    text = str(wrong.value)
    assert text.startswith("tool: ")
    assert text.endswith('Example: {"command": "ls -la"}')
    return text


@pytest.mark.parametrize(
    "value, number", [(5, 5.0), (2.5, 2.5), ("30", 30.0), (" 1.5 ", 1.5), ("-3", -3.0), (None, None)]
)
def test_a_number_is_taken_as_number_or_text(value: Any, number: float | None) -> None:
    assert given(timeoutMs=value).number("timeoutMs") == number


@pytest.mark.parametrize(
    "value", ["30s", "", "1e400", "0x10", True, [30], {"ms": 30}, float("nan"), float("inf"), "nan", 10**400]
)
def test_what_is_no_number_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(BadArguments) as wrong:
        given(timeoutMs=value).number("timeoutMs")

    assert "timeoutMs must be a number" in sentence(wrong)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(BadArguments) as wrong:
        given(timeoutMs=10**5000).number("timeoutMs")

    assert "timeoutMs must be a number" in sentence(wrong)


def test_a_number_out_of_range_is_told_the_range() -> None:
    with pytest.raises(BadArguments) as wrong:
        given(timeoutMs="0").number("timeoutMs", least=1, most=600000)

    assert 'timeoutMs is "0", and must be from 1 to 600000' in sentence(wrong)


def test_a_whole_number_may_have_a_zero_after_its_point_and_nothing_else() -> None:
    assert given(timeoutMs="5.0").whole("timeoutMs") == 5
    with pytest.raises(BadArguments, match="whole number"):
        given(timeoutMs=5.5).whole("timeoutMs")


@pytest.mark.parametrize("value, flag", [(True, True), ("true", True), ("False", False), (None, False)])
def test_a_flag_is_taken_as_truth_value_or_text(value: Any, flag: bool) -> None:
    assert given(stream=value).flag("stream") is flag


@pytest.mark.parametrize("value", ["yes", 1, "1", "", []])
def test_what_is_no_flag_is_refused(value: Any) -> None:
    with pytest.raises(BadArguments) as wrong:
        given(stream=value).flag("stream")

    assert "stream must be true or false" in sentence(wrong)


@pytest.mark.parametrize(
    "value, words",
    [(["-n", 5], ("-n", "5")), ('["-la", "./"]', ("-la", "./")), (None, ()), ([], ()), ([""], ("",))],
)
def test_a_list_of_texts_takes_numbers_and_json_text(value: Any, words: tuple[str, ...]) -> None:
    assert given(parameters=value).texts("parameters") == words


@pytest.mark.parametrize("value", ["-la", {"0": "-la"}, 5, ["-la", None], [["-la"]], "[1"])
def test_what_is_no_list_of_texts_is_refused_and_never_dropped(value: Any) -> None:
    with pytest.raises(BadArguments) as wrong:
        given(parameters=value).texts("parameters")

    assert "parameters" in sentence(wrong)


def test_variables_are_texts_and_their_numbers_become_text() -> None:
    assert given(env={"PORT": 80, "CI": True, "NAME": "x"}).text_map("env") == {"PORT": "80", "CI": "true", "NAME": "x"}
    with pytest.raises(BadArguments, match="env"):
        given(env=["A=1"]).text_map("env")
    with pytest.raises(BadArguments, match="env"):
        given(env={"A": None}).text_map("env")


def test_a_choice_is_taken_in_any_case_and_else_told_the_choices() -> None:
    assert given(output_format="JSON").choice("output_format", ("markdown", "json"), default="markdown") == "json"
    assert given().choice("output_format", ("markdown", "json"), default="markdown") == "markdown"
    with pytest.raises(BadArguments, match='must be one of "markdown", "json", not "yaml"'):
        given(output_format="yaml").choice("output_format", ("markdown", "json"), default="markdown")


@pytest.mark.parametrize(
    "value, problem",
    [
        (None, "command is missing"),
        ("", "command is empty"),
        (" \n", "command is empty"),
        (["ls"], 'command must be a text, not the list ["ls"]'),
        (5, "command must be a text, not the number 5"),
        ("ls\0-la", "command holds a NUL character at position 2"),
        ("echo \ud83d", "command holds half of a surrogate pair (U+D83D) at position 5"),
        ({"x": "y" * 500}, "…"),
    ],
)
def test_a_text_that_cannot_be_one_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(BadArguments) as wrong:
        given(command=value).text("command")

    assert problem in sentence(wrong)
    assert len(str(wrong.value)) < 300
    str(wrong.value).encode()


def test_the_content_of_a_file_may_hold_nul_characters() -> None:
    assert given(command="a\0b").text("command", nul=True) == "a\0b"


@pytest.mark.parametrize(
    "name, hint",
    [
        ("timeout_ms", "did you mean timeoutMs"),
        ("comand", "did you mean command"),
        ("cmd", "did you mean command"),
        ("zzz", "it knows command, timeoutMs"),
        ("Stream", "did you mean stream"),
    ],
)
def test_an_unknown_argument_is_named_with_the_nearest_known(name: str, hint: str) -> None:
    with pytest.raises(BadArguments) as wrong:
        given(**{name: 1})

    assert f'"{name}" is not an argument of it; {hint}' in sentence(wrong)


@pytest.mark.parametrize(
    "name, names, meant",
    [
        ("cmd", ("cwd", "command"), "command"),
        ("cmd", ("commands", "cwd"), "commands"),
        ("workdir", ("command", "cwd"), "cwd"),
        ("comand", ("cwd", "command"), "command"),
        ("zzz", ("cwd", "command"), None),
    ],
)
def test_another_word_for_the_same_goes_before_spelling(name: str, names: tuple[str, ...], meant: str | None) -> None:
    assert nearest(name, names) == meant


@pytest.mark.parametrize("value", ["ls", ["ls"], None, 5])
def test_arguments_that_are_no_object_are_refused(value: Any) -> None:
    with pytest.raises(BadArguments) as wrong:
        read(value, tool="tool", names=NAMES, example=EXAMPLE)

    assert "the arguments must be an object" in sentence(wrong)


def test_arguments_written_as_json_text_are_read() -> None:
    assert read('{"command": "ls"}', tool="tool", names=NAMES, example=EXAMPLE).text("command") == "ls"


def test_null_where_something_is_needed_is_named_once() -> None:
    with pytest.raises(BadArguments) as wrong:
        given(env={"A": None}).text_map("env")

    assert 'env["A"] must be a text, not the value null.' in sentence(wrong)

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from limpet.upstreams import shell_function
from limpet.upstreams.shell_function import CommandsDecoder, output_text, read_arguments
from limpet.upstreams.upstream import BadArguments, ShellArguments

LS = ShellArguments(commands=("ls",))
LIMITED = ShellArguments(commands=("ls",), timeout_ms=5000, max_output_length=9)


@pytest.mark.parametrize(
    "text, wanted",
    [
        ('{"commands":["ls"]}', LS),
        ('{"commands":"ls"}', LS),
        ('{"command":"ls"}', LS),
        ('{"action":{"commands":["ls"]}}', LS),
        ('{"action":"{\\"commands\\":[\\"ls\\"]}"}', LS),
        (json.dumps('{"commands":["ls"]}'), LS),
        ('{"commands":["ls"],"timeout_ms":null,"unknown":1}', LS),
        ('{"commands":["ls"],"timeout_ms":5000,"max_output_length":9}', LIMITED),
        ('{"commands":["ls"],"timeout_ms":"5000","max_output_length":9.0}', LIMITED),
        ('{"commands":["ls","pwd"]}', ShellArguments(commands=("ls", "pwd"))),
    ],
)
def test_what_a_model_plausibly_means_is_read(text: str, wanted: ShellArguments) -> None:
    assert read_arguments(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ls -la",
        "[]",
        "null",
        "{}",
        '{"commands":[]}',
        '{"commands":["  "]}',
        '{"commands":[1]}',
        '{"commands":{"a":1}}',
        '{"command":["bash","-lc","ls"]}',
        '{"commands":["ls"',
        '{"action":7}',
        '{"commands":["half a shell \\ud83d"]}',
        '{"commands":["ls"],"timeout_ms":0}',
        '{"commands":["ls"],"timeout_ms":-5}',
        '{"commands":["ls"],"timeout_ms":true}',
        '{"commands":["ls"],"max_output_length":1.5}',
    ],
)
def test_what_cannot_be_read_says_what_would_be_right_and_quotes_it(text: str) -> None:
    read = read_arguments(text)
    assert isinstance(read, BadArguments)
    assert read.raw == text
    assert '{"commands": ["…"]}' in read.reason
    assert read.reason.endswith(f"Received: {text!r}")


def test_a_long_argument_is_quoted_in_part() -> None:
    read = read_arguments("x" * 1_000)
    assert isinstance(read, BadArguments)
    assert read.raw == "x" * 1_000
    assert read.reason.endswith(f"Received: {'x' * 256 + '…'!r}")


@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert isinstance(read_arguments(text), BadArguments | ShellArguments)


def test_the_schema_is_a_schema_and_admits_what_is_read() -> None:
    schema = shell_function.parameters()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate({"commands": ["ls"], "timeout_ms": 5, "max_output_length": 5})


@given(
    st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=4),
    st.lists(st.integers(1, 7), max_size=50),
    st.booleans(),
)
def test_commands_that_are_still_being_written_are_shown_as_they_grow(
    commands: list[str], sizes: list[int], ascii_only: bool
) -> None:
    text = json.dumps({"commands": commands, "timeout_ms": 5}, ensure_ascii=ascii_only)
    writing, shown, at = CommandsDecoder(), [""] * len(commands), 0
    for size in [*sizes, len(text)]:
        for index, more in writing.feed(text[at : at + size]):
            shown[index] += more
        at += size
    assert shown == commands
    assert writing.text == text


def test_a_long_command_is_not_read_again_for_each_piece() -> None:
    writing = CommandsDecoder()
    told = [writing.feed(piece) for piece in ['{"commands":["', *["x" * 10] * 20_000]]
    assert 400 < sum(map(bool, told)) < 700


def entry(stdout: str = "", stderr: str = "", **outcome: Any) -> dict[str, Any]:
    return {"stdout": stdout, "stderr": stderr, "outcome": outcome}


def test_the_model_gets_exit_code_both_streams_and_the_files() -> None:
    ran = entry("out\n", "err\n", type="exit", exit_code=2)
    files = [{"path": "/mnt/data/a b.txt", "bytes": 12}, {"path": "/mnt/data/c"}]
    assert output_text({"output": [ran], "output_files": files}) == (
        "exit code: 2\nstdout:\nout\nstderr:\nerr\n\nfiles written:\n- /mnt/data/a b.txt (12 bytes)\n- /mnt/data/c"
    )


def test_each_command_has_its_own_part() -> None:
    outputs = [entry(type="exit", exit_code=0), entry("half", type="timeout")]
    assert output_text({"output": outputs}) == (
        "[command 1 of 2]\nexit code: 0\n(no output)\n\n[command 2 of 2]\nexit code: 124 (timed out)\nstdout:\nhalf"
    )


def test_an_output_without_commands_is_not_empty() -> None:
    assert output_text({"output": []}) == "no output"


@pytest.mark.parametrize("name", ["cmd", "script", "code"])
def test_another_word_for_command_is_told_command(name: str) -> None:
    read = read_arguments(json.dumps({name: "ls"}))
    assert isinstance(read, BadArguments)
    assert f"`{name}` is not an argument of it; did you mean `command`" in read.reason


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"commands": ' * 100_000, '{"commands": ["ls"], "timeout_ms": "' + "9" * 100_000 + '"}',
     '{"commands": ["ls"], "timeout_ms": ' + "9" * 100_000 + "}", '{"commands": ["ls"], "timeout_ms": 1e400}',
     '{"commands": ["ls"], "timeout_ms": NaN}'],
)  # fmt: skip
def test_arguments_that_are_too_deep_or_too_long_are_refused_in_words(text: str) -> None:
    assert isinstance(read_arguments(text), BadArguments)

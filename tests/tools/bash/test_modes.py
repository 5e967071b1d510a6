"""Every combination of parameters means one thing, or is refused with a sentence."""

import itertools
from typing import Any

import pytest

from limpet.tools.arguments import BadArguments
from limpet.tools.bash import modes
from limpet.tools.bash.modes import BOTH, COLUMNS, KILL_ALONE, KILL_WHAT, NOTHING, TABLE, ModeRefused, decide, mode_of
from limpet.tools.bash.schema import parameters, read_request

EVERY = list(itertools.product((False, True), repeat=len(COLUMNS)))


@pytest.mark.statement("s2-modes-follow-from-the-parameters")
def test_exactly_one_row_fits_each_of_the_128_combinations() -> None:
    for given in EVERY:
        facts = dict(zip(COLUMNS, given, strict=True))

        assert sum(row.fits(facts) for row in TABLE) == 1, given


def expected(facts: dict[str, bool]) -> modes.Doing | ModeRefused:
    """The rules in words, as docs/bash-tool.md has them."""
    if facts["command"] == facts["task_id"]:
        return ModeRefused(BOTH if facts["command"] else NOTHING)
    if facts["command"]:
        if facts["kill"]:
            return ModeRefused(KILL_WHAT)
        return "start" if facts["run_in_background"] or facts["stream"] else "run"
    if facts["kill"]:
        return ModeRefused(KILL_ALONE) if facts["stdin_text"] or facts["stream"] else "kill"
    return "talk" if facts["stdin_text"] or facts["wait"] or facts["stream"] else "status"


def test_the_table_says_what_the_rules_in_words_say() -> None:
    for given in EVERY:
        facts = dict(zip(COLUMNS, given, strict=True))
        assert decide(facts) == expected(facts), facts


@pytest.mark.parametrize(
    "arguments, does",
    [
        ({"command": "pytest -v"}, "run"),
        ({"command": "npm run build", "run_in_background": True}, "start"),
        ({"task_id": "a1"}, "status"),
        ({"task_id": "a1", "kill": True}, "kill"),
        ({"task_id": "a1", "stdin_text": "yes"}, "talk"),
        ({"task_id": "a1", "wait": True}, "talk"),
        ({"task_id": "a1", "stream": True, "stream_pattern": "ERROR|WARN"}, "talk"),
        ({"command": "make", "stream_pattern": "error"}, "start"),
        ({"task_id": "a1", "command": "", "kill": "true"}, "kill"),
        ({"command": "ls", "task_id": "", "stdin_text": None, "wait": "false"}, "run"),
        ({"task_id": "a1", "close_stdin": True}, "talk"),
    ],
)
def test_the_examples_of_the_seed_and_what_models_make_of_them(arguments: dict[str, Any], does: str) -> None:
    assert mode_of(read_request(arguments)) == does


def test_a_pattern_without_streaming_is_refused_where_streaming_is_denied() -> None:
    with pytest.raises(BadArguments, match="stream is false"):
        read_request({"task_id": "a1", "stream": False, "stream_pattern": "x"})


@pytest.mark.statement("s2-timeout-has-a-default-and-a-range")
@pytest.mark.parametrize(
    "asked, used", [(0, 1.0), (-5, 1.0), ("0.5", 1.0), (1, 1.0), ("60", 60.0), (1800, 1800.0), (9999, 1800.0)]
)
def test_a_timeout_is_clamped_and_that_is_said(asked: Any, used: float) -> None:
    request = read_request({"command": "ls", "timeout": asked})

    assert request.timeout == used
    assert bool(request.notes) == (float(asked) != used)


@pytest.mark.statement("s2-three-parameters-are-shown", "s2-nine-parameters-are-hidden")
def test_a_model_sees_three_parameters_and_may_give_all() -> None:
    schema = parameters()

    assert list(schema["properties"]) == ["command", "description", "run_in_background"]
    assert schema["additionalProperties"] is True


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"command": 5}, "command must be a text"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "a\ud800b"}, "surrogate"),
        ({"command": "ls", "timeout": "soon"}, "timeout must be a number"),
        ({"task_id": "a", "kill": "maybe"}, "kill must be true or false"),
        ({"comand": "ls"}, "did you mean command"),
        ("ls", "must be an object"),
    ],
)
def test_wrong_arguments_get_a_sentence_with_an_example(arguments: Any, says: str) -> None:
    with pytest.raises(BadArguments, match=says) as wrong:
        read_request(arguments)
    assert "Example: " in str(wrong.value)

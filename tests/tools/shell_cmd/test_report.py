"""What `shell_cmd` gives back, to the character."""

from dataclasses import replace
from typing import Any

import pytest

from limpet.core.command import Aborted, Exited, Lost, Outcome, TimedOut
from limpet.tools.output import OutputExcerpt
from limpet.tools.shell_cmd.report import Report, as_json, as_markdown, assistant_text


def shown(text: str, *, left_out: bool = False, file: str | None = None) -> OutputExcerpt:
    return OutputExcerpt(text=text, size=len(text), left_out=left_out, is_text=True, file=file)


REPORT = Report(
    line='ls "a b"',
    outcome=Exited(0),
    stdout=shown("one\n"),
    stderr=shown(""),
    duration=1.2,
    executed_at=1_700_000_000_000_000,
    detail="minimal",
)


@pytest.mark.statement("s3-json-is-machine-readable")
def test_json_has_the_six_fields_and_no_other_where_there_is_nothing_else_to_say() -> None:
    assert as_json(REPORT) == {
        "exit_code": 0,
        "stdout": "one\n",
        "stderr": "",
        "timed_out": False,
        "duration_ms": 1200,
        "artifacts": [],
    }


def test_json_says_what_was_cut_and_where_all_of_it_is() -> None:
    answer = as_json(replace(REPORT, stdout=shown("on", left_out=True, file="/home/agent/x.txt")))

    assert (answer["stdout_truncated"], answer["stdout_file"]) == (True, "/home/agent/x.txt")
    assert "stderr_truncated" not in answer


@pytest.mark.parametrize(
    "outcome, code, extra",
    [
        (Exited(3), 3, set()),
        (TimedOut(), 124, {"error"}),
        (Aborted(), -1, {"error", "canceled"}),
        (Lost("the box died."), 125, {"error"}),
    ],
)
def test_json_tells_every_ending(outcome: Outcome, code: int, extra: set[str]) -> None:
    answer = as_json(replace(REPORT, outcome=outcome))

    assert answer["exit_code"] == code
    assert answer["timed_out"] is isinstance(outcome, TimedOut)
    assert set(answer) - set(as_json(REPORT)) == extra


def test_markdown_of_a_success() -> None:
    assert as_markdown(REPORT) == (
        "### Command Execution\n"
        "\n"
        '**Command:** `ls "a b"`\n'
        "**Duration:** 1200ms\n"
        "**Status:** ✅ Exit code 0\n"
        "\n"
        "### Standard Output (preview)\n"
        "\n"
        "```\n"
        "one\n"
        "```\n"
    )


def test_markdown_in_full_says_when_and_calls_nothing_a_preview() -> None:
    text = as_markdown(replace(REPORT, detail="full", stderr=shown("oh\n")))

    assert "**Executed at:** 2023-11-14T22:13:20+00:00\n" in text
    assert "### Standard Output\n" in text
    assert "### Standard Error\n" in text
    assert "preview" not in text


def test_markdown_without_output_says_so() -> None:
    assert as_markdown(replace(REPORT, stdout=shown(""))).endswith("*(No output)*\n")


def test_markdown_of_a_failure_shows_the_error_and_both_streams() -> None:
    text = as_markdown(replace(REPORT, outcome=Exited(3), stderr=shown("oh\n")))

    assert "**Status:** ❌ Error\n**Error:** The command ended with exit code 3.\n" in text
    assert "(No output)" not in as_markdown(replace(REPORT, outcome=Exited(3), stdout=shown("")))


def test_markdown_notes_what_was_cut_and_how_to_see_more() -> None:
    text = as_markdown(replace(REPORT, stdout=shown("on", left_out=True, file="/home/agent/x.txt")))

    assert '*Truncated: 2 bytes in all. Use output_detail "full" for more; all of it is in /home/agent/x.txt.*' in text


def test_output_cannot_close_its_fence_nor_the_command_its_quotes() -> None:
    text = as_markdown(replace(REPORT, line="echo `` x\ny", stdout=shown("a\n````\n### Forged\n")))

    assert "**Command:** ``` echo `` x y ```\n" in text
    assert "`````\na\n````\n### Forged\n`````\n" in text


def test_artifacts_are_listed_with_size_and_digest() -> None:
    artifacts: list[dict[str, Any]] = [
        {"path": "a.js", "sha256": "ab", "bytes": 5},
        {"path": "b", "error": "b does not exist."},
    ]

    assert as_json(replace(REPORT, artifacts=artifacts))["artifacts"] == artifacts
    assert as_markdown(replace(REPORT, artifacts=artifacts)).endswith(
        "### Artifacts\n\n- `a.js`: 5 bytes, sha256 `ab`\n- `b`: b does not exist.\n"
    )


def test_an_artifact_without_a_digest_is_listed_with_its_size() -> None:
    artifacts: list[dict[str, Any]] = [{"path": "huge", "bytes": 8 << 40}]
    assert "- `huge`: 8796093022208 bytes, too large to be hashed" in as_markdown(replace(REPORT, artifacts=artifacts))


def test_an_assistant_says_its_clean_output_or_the_formatted_failure() -> None:
    coloured = shown("\x1b[1;32mHello\x1b[0m \x1b]8;;http://x\x07there\x1b]8;;\x07\x1b[?25h\n")

    assert assistant_text(replace(REPORT, stdout=coloured)) == "Hello there"
    assert assistant_text(replace(REPORT, stdout=shown(""))) == "(No output)"
    failed = replace(REPORT, outcome=Exited(1))
    assert assistant_text(failed) == as_markdown(failed)

"""The diff format of `apply_patch`: beside the reference of its authors, and what is told where a diff does not fit."""

import contextlib

import pytest
from agents import apply_diff
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.workspace.v4a import DiffFailed, created, updated

FILE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"

LINES = st.lists(st.sampled_from(["", "a", "b", " a", "a ", "def f():", "    x = 1", "@", "ä", "***"]), max_size=12)


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, str]:
    """A text, and a diff that was made of it, mostly right."""
    lines = draw(LINES)
    diff: list[str] = []
    at = 0
    while at < len(lines):
        begin = draw(st.integers(at, len(lines)))
        end = draw(st.integers(begin, len(lines)))
        diff.append(draw(st.sampled_from(["@@", "@@ a", "@@ def f():", "@@  a", "@@ nowhere"])))
        for line in lines[begin:end]:
            diff.append(
                draw(st.sampled_from([" ", "-"])) + draw(st.sampled_from([line, line, line, line + " ", "other"]))
            )
            diff += draw(st.lists(st.sampled_from(["+new", "+", "+a"]), max_size=2))
        if draw(st.booleans()) and end == len(lines):
            diff.append("*** End of File")
        at = end + 1
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    return text + draw(st.sampled_from(["", "\n"])), "\n".join(diff) + draw(st.sampled_from(["", "\n"]))


@settings(max_examples=100, deadline=None)
@given(edits())
def test_it_does_what_the_reference_does(edit: tuple[str, str]) -> None:
    text, diff = edit
    try:
        wanted: str | None = apply_diff(text, diff)
    except ValueError:
        wanted = None
    try:
        found: str | None = updated(text, diff)
    except DiffFailed:
        found = None
    is_empty = not any(line.startswith(("+", "-")) for line in diff.splitlines())
    wanted = None if is_empty else wanted
    if found is not None and wanted is not None and 0 < text.count("\r\n") < text.count("\n"):
        # The reference gives all lines of such a file one newline.
        found, wanted = found.replace("\r\n", "\n"), wanted.replace("\r\n", "\n")
    assert found == wanted


@settings(max_examples=30, deadline=None)
@given(LINES)
def test_a_new_file_has_the_lines_of_its_diff_and_ends_with_a_newline(lines: list[str]) -> None:
    diff = "\n".join(f"+{line}" for line in lines)
    assert created(diff) == "".join(f"{line}\n" for line in lines)
    if lines:
        assert created(diff) == apply_diff("", diff, mode="create") + "\n"


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=80), st.text(alphabet="@*+- \nab", max_size=80))
def test_nothing_but_a_sentence_comes_of_what_is_no_diff(text: str, diff: str) -> None:
    for make in (lambda: updated(text, diff), lambda: created(diff)):
        with contextlib.suppress(DiffFailed):
            assert make() is not None


def test_the_envelope_that_models_write_is_read() -> None:
    diff = "@@ def two():\n-    return 2\n+    return 3"
    whole = f"*** Begin Patch\n*** Update File: a.py\n{diff}\n*** End Patch\n"
    assert updated(FILE, whole) == updated(FILE, diff) == FILE.replace("return 2", "return 3")
    assert created("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch") == "x\n"


@pytest.mark.parametrize(
    "diff, said",
    [
        (
            "@@\n def two():\n-    return 4\n+    return 3",
            "Its first 1 lines stand at line 5; then, at line 6, .* '    return 2'",
        ),
        ("@@\n def three():\n+    pass", "No line of the file is its first one. It looks for:\ndef three()"),
        (
            "@@ class A\n@@ def one():\n-    return 1",
            "The line that @@ names is not in the file below line 0: 'class A'",
        ),
        ("@@\n def one():", "changes nothing"),
        ("", "changes nothing"),
        ("@@\n?", "line 2 of the diff|Line 2 of the diff begins with none of"),
        ("@@\n-    return 2\n*** Update File: b\n@@\n+x", "One call changes one file"),
        ("*** End of File", "cannot be read|empty|nothing"),
    ],
)
def test_what_does_not_fit_is_told_in_words(diff: str, said: str) -> None:
    with pytest.raises(DiffFailed, match=said):
        updated(FILE, diff)


def test_a_file_of_equal_lines_is_searched_once() -> None:
    """Line by line this would outlast the tests' own limit of time."""
    with pytest.raises(DiffFailed, match="Its first 49999 lines stand at line"):
        updated("a\n" * 50_000 + "c", "@@\n" + " a\n" * 49_999 + "-b\n")


@pytest.mark.parametrize("context", [" a", " unlike"])
def test_hunks_that_match_without_their_spaces_do_not_search_the_file_each(context: str) -> None:
    """Each of them would look at every line in the first form, for minutes."""
    size, hunks = 60_000, 2_000
    text = "".join(f"{'a' if context == ' a' else f' unlike {at} '}\n" for at in range(size))
    diff = "".join(f"@@\n{context if context == ' a' else f' unlike {at}'} \n+b\n" for at in range(hunks))
    assert updated(text, diff).count("\nb") == hunks


def test_a_search_that_takes_too_long_ends_with_a_sentence() -> None:
    """Each hunk stands at its place only without the spaces; as it is written its lines are all over the file, never together."""
    text = "a \nb\n" * 4_000 + "a\nb \n" * 4_000
    with pytest.raises(DiffFailed, match="too many hunks whose lines stand in too many places"):
        updated(text, "@@\n a\n b\n+c\n" * 4_000)


def test_a_file_of_too_many_lines_is_refused() -> None:
    with pytest.raises(DiffFailed, match="more than 200000 lines"):
        updated("\n" * 200_001, "@@\n+a")


def test_each_line_keeps_its_own_newline() -> None:
    assert updated("a\r\nb\nc\r\nd\n", "@@\n b\n-c\n+C\n+x\n d\n+y") == "a\r\nb\nC\r\nx\r\nd\ny\n"

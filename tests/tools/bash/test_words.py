"""Hints for models: what an exit code means, which question stopped a command, where a result is cut."""

import pytest

from limpet.tools.bash.exit_codes import exit_code_meaning
from limpet.tools.bash.line_matcher import LineMatcher, PatternRefused
from limpet.tools.bash.output import WholeOutput, excerpt, looks_binary, without_mark
from limpet.tools.bash.prompts import find_prompt, hang_directive
from limpet.tools.bash.shell_markers import MarkerReader, new_mark, stays_where_it_is
from limpet.tools.bash.working_directory import OutsideRoots, WorkingDirectory
from limpet.workspace.result import KeptOutput


@pytest.mark.parametrize(
    "code, command, says",
    [
        (1, "grep x file", "No line matched"),
        (1, "cat a | rg x", "No line matched"),
        (1, "diff a b", "differ"),
        (127, "nosuch", "not found"),
        (126, "./file", "cannot be executed"),
        (137, "python big.py", "SIGKILL"),
        (139, "./a.out", "SIGSEGV"),
        (124, "sleep 9", "time was over"),
        (255, "ssh host true", "connection failed"),
    ],
)
def test_a_code_is_put_into_words(code: int, command: str, says: str) -> None:
    assert says in (exit_code_meaning(code, command) or "")


@pytest.mark.parametrize("code, command", [(0, "grep x f"), (1, "python x.py"), (None, "sleep 9"), (3, "make")])
def test_where_the_number_says_it_all_there_are_no_words(code: int | None, command: str) -> None:
    assert exit_code_meaning(code, command) is None


@pytest.mark.parametrize(
    "output, remedy",
    [
        ("Do you want to continue? [Y/n] ", "-y"),
        ("Reading…\n[sudo] password for agent: ", "sudo -n"),
        ("Username for 'https://example.com': ", "login"),
        ("Are you sure you want to continue connecting (yes/no/[fingerprint])? ", "BatchMode"),
        ("Ok to proceed? (y) ", "--yes"),
        ("Proceed (Y/n)? ", "--yes"),
        ("Overwrite existing file? ", "-f"),
        ("Press any key to continue . . .", "--batch"),
        ("EOFError: EOF when reading a line", "stdin_text"),
        ("\x1b[1mPassword:\x1b[0m ", "password"),
        ("package name: (x) \nversion: ", "--yes"),
    ],
)
def test_a_question_is_named_with_what_avoids_it(output: str, remedy: str) -> None:
    prompt = find_prompt(output)

    assert prompt is not None
    assert remedy in prompt.remedy
    assert prompt.line in hang_directive(prompt)


@pytest.mark.parametrize(
    "output", ["", "done\n", "3 tests failed\n", "error: expected expression: x\n", "https://example.com/?a=b\n"]
)
def test_other_output_is_no_question(output: str) -> None:
    assert find_prompt(output) is None


def kept(data: bytes) -> KeptOutput:
    made = KeptOutput()
    made.add(data)
    return made


def test_what_the_shell_told_is_no_part_of_the_output() -> None:
    mark = new_mark()
    data = b"early\n" + f"{mark} /mnt/data/sub\n".encode() + b"late"

    whole, told = without_mark(kept(data), mark)

    assert (whole.read(), whole.size) == (b"early\nlate", 10)
    assert [whole.read(start, 3) for start in (0, 4, 6, 9, 10)] == [b"ear", b"y\nl", b"lat", b"e", b""]
    assert told == "/mnt/data/sub"


def test_long_output_shows_its_first_and_last_lines_and_names_the_file() -> None:
    data = b"".join(b"line %d\n" % number for number in range(100_000))

    shown = excerpt(WholeOutput(kept(data)), inline=30_000, where="/mnt/data/out.txt")

    assert shown.text.startswith("line 0\nline 1\n")
    assert shown.text.endswith("line 99998\nline 99999\n")
    assert f"[... {shown.left_out} bytes left out; the whole output is in /mnt/data/out.txt ...]" in shown.text
    assert len(shown.text) < 25_000


def test_a_cut_never_splits_a_character() -> None:
    shown = excerpt(WholeOutput(kept("é".encode() * 40_000 + b"x")), inline=30_000, where=None)

    assert "\ufffd" not in shown.text


def test_without_a_file_as_many_bytes_as_fit_stand_in_the_result() -> None:
    data = b"".join(b"line %d\n" % number for number in range(100_000))

    shown = excerpt(WholeOutput(kept(data)), inline=128 << 10, where=None)

    assert shown.text.startswith(data[:50_000].decode())
    assert shown.text.endswith(data[-50_000:].decode())
    assert shown.left_out == len(data) - (128 << 10)


@pytest.mark.parametrize(
    "data, binary",
    [
        (b"text\n", False),
        (b"\x89PNG\r\n\0", True),
        (bytes(range(128, 256)), True),
        ("é€😀".encode(), False),
        (b"", False),
        ("é".encode()[:1], False),
    ],
)
def test_binary_output_is_told_from_text(data: bytes, binary: bool) -> None:
    assert looks_binary(data) == binary


@pytest.mark.parametrize("command", ["true", "pytest -v tests/x.py", "git status", "npm run build", "./a --b=c"])
def test_one_plain_program_leaves_the_shell_where_it_is(command: str) -> None:
    assert stays_where_it_is(command)


@pytest.mark.parametrize(
    "command",
    "cd sub|pushd x|ls; cd x|. ./env|source env|eval x|A=1 cd x|exec sh|time cd x|command cd x|ls\ncd x|$X|~/x|ls > x|builtin cd x"
    "|trap x EXIT|ls && cd x|{ cd x|! cd x".split("|"),
)
def test_whatever_may_move_it_is_asked(command: str) -> None:
    assert not stays_where_it_is(command)


def test_marks_are_taken_out_wherever_they_are_cut() -> None:
    mark = new_mark()
    text = f"{mark} pid 42\nout no end{mark} end 7\nlate \x1e other\n"
    for size in range(1, len(text)):
        marks = MarkerReader(mark)
        shown = "".join(marks.feed(text[at : at + size]) for at in range(0, len(text), size)) + marks.rest()
        assert (shown, marks.pid, marks.end) == ("out no endlate \x1e other\n", 42, 7)


def test_a_session_moves_where_its_shell_ended_and_stays_within_its_roots() -> None:
    place = WorkingDirectory("/mnt/data", home="/home/agent", roots=("/mnt/data", "/tmp"))

    assert place.go("/mnt/data", "/mnt/data/sub") is None
    assert place.current == "/mnt/data/sub"
    assert place.go("/mnt/data/sub", "/mnt/data/sub") is None
    assert "outside /mnt/data, /tmp" in (place.go("/mnt/data/sub", "/mnt/database") or "")
    assert "does not exist any more" in (place.go("/mnt/data/sub", "/mnt/data/q (deleted)") or "")
    assert place.current == "/mnt/data/sub"


def test_a_directory_of_one_call_is_for_that_call() -> None:
    place = WorkingDirectory("/mnt/data", home="/home/agent", roots=None)

    assert place.resolve("a/../b") == "/mnt/data/b"
    assert place.resolve("~") == "/home/agent"
    place.go("/mnt/data/b", "/mnt/data/b")
    assert place.current == "/mnt/data"


def test_a_directory_outside_is_refused_with_the_constraint_to_add() -> None:
    refused = WorkingDirectory("/mnt/data", home="/home/agent", roots=("/mnt/data",)).resolve("../../etc")

    assert isinstance(refused, OutsideRoots)
    assert "add /etc to allowed_paths" in refused.problem


def test_a_pattern_picks_lines_in_linear_time() -> None:
    matcher = LineMatcher("(a+)+$|ERROR")

    assert matcher.picks("x ERROR y")
    assert not matcher.picks("a" * 50_000 + "b")


@pytest.mark.parametrize("pattern", ["ERR(OR", r"(a)\1", "(?=x)", "[z-a]"])
def test_a_pattern_that_re2_does_not_take_is_refused(pattern: str) -> None:
    with pytest.raises(PatternRefused):
        LineMatcher(pattern)

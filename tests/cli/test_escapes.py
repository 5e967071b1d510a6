import pytest

from limpet.cli.escapes import Modes, without_questions
from limpet.cli.session import LEAVE, LeaveKeys


@pytest.mark.parametrize(
    "output, undone",
    [
        (b"text \x1b[31mred\x1b[0m", b""),
        (b"\x1b[?2004h", b"\x1b[?2004l\x1b[0m"),
        (b"\x1b[?2004h$ ls\x1b[?2004l", b""),
        (b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?25l", b"\x1b[?1l\x1b[?25h\x1b[?1049l\x1b>\x1b[0m"),
        (b"\x1b[?1002;1006h", b"\x1b[?1002l\x1b[?1006l\x1b[0m"),
        (b"\x1b[?7l\x1b[?25h", b"\x1b[?7h\x1b[0m"),
        (b"\x1b[?99999999h\x1b[?;h", b""),
    ],
)
def test_what_was_switched_on_is_switched_off_however_it_was_cut(output: bytes, undone: bytes) -> None:
    whole, bytewise = Modes(), Modes()
    whole.see(output)
    for at in range(len(output)):
        bytewise.see(output[at : at + 1])

    assert (whole.undo(), bytewise.undo()) == (undone, undone)


@pytest.mark.parametrize(
    "question",
    [
        *(
            b"\x1b[6n",
            b"\x1b[?6n",
            b"\x1b[c",
            b"\x1b[>c",
            b"\x1b[>0q",
            b"\x1b[=0c",
            b"\x1b[?2004$p",
            b"\x1b[?u",
            b"\x1b[18t",
        ),
        *(b"\x1b]11;?\x07", b"\x1b]10;?\x1b\\", b"\x1b]52;c;?\x07", b"\x1bP+q544e\x1b\\", b"\x1bZ", b"\x05"),
    ],
)
def test_a_question_to_the_terminal_is_not_asked_again(question: bytes) -> None:
    assert without_questions(b"before " + question + b"after") == b"before after"


def test_text_colours_and_moves_are_no_questions() -> None:
    output = "ü \x1b[1;31mred\x1b[0m \x1b[2J\x1b[3;4H\x1b[2 q\x1b]0;title?\x07\x1b[?25l\x1b[u".encode()
    assert without_questions(output) == output


@pytest.mark.parametrize(
    "pieces, passed, leaves",
    [
        ([LEAVE * 2], b"", True),
        ([b"ls", LEAVE, LEAVE], b"ls", True),
        ([LEAVE, b"x", LEAVE], LEAVE + b"x", False),
        ([b"a" + LEAVE * 2], b"a" + LEAVE * 2, False),
        ([LEAVE, LEAVE * 2], b"", True),
        ([LEAVE * 3], LEAVE * 3, False),
    ],
)
def test_only_the_two_keys_alone_leave(pieces: list[bytes], passed: bytes, leaves: bool) -> None:
    keys = LeaveKeys()
    took = [keys.take(piece) for piece in pieces]

    assert b"".join(piece for piece in took if piece is not None) == passed
    assert (None in took) == leaves


def test_one_leave_key_that_no_other_follows_is_passed_on_after_all() -> None:
    keys = LeaveKeys()
    assert (keys.take(LEAVE), keys.held, keys.let_go(), keys.held) == (b"", True, LEAVE, False)

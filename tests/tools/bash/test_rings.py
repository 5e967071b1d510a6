"""Bounded memory, true totals, counted losses."""

from hypothesis import given
from hypothesis import strategies as st

from limpet.tools.bash.line_buffer import LONGEST_LINE, MOST_CHARACTERS, LineBuffer, Totals


def test_the_newest_lines_stay_and_the_others_are_counted() -> None:
    ring = LineBuffer(3)
    ring.feed("".join(f"line {number}\n" for number in range(10)))

    assert ring.tail() == "line 7\nline 8\nline 9\n"
    assert ring.totals == Totals(lines=10, bytes=70, dropped_lines=7)


def test_a_line_that_has_not_ended_counts_and_shows() -> None:
    ring = LineBuffer(10)
    ring.feed("one\nPassword: ")

    assert (ring.tail(), ring.open_line, ring.totals.lines) == ("one\nPassword: ", "Password: ", 2)


def test_a_line_of_a_megabyte_is_cut_in_its_middle_and_says_so() -> None:
    ring = LineBuffer(10)
    for _ in range(1000):
        ring.feed("x" * 1000)
    assert ring.feed("end\n") == [ring.tail().removesuffix("\n")]

    assert len(ring.tail()) < LONGEST_LINE + 100
    assert ring.tail().endswith("xend\n")
    assert f"… [{1_000_003 - LONGEST_LINE} characters left out] …" in ring.tail()
    assert ring.totals == Totals(lines=1, bytes=1_000_004, dropped_lines=0)


def test_many_long_lines_are_bounded_together() -> None:
    ring = LineBuffer(1_000_000)
    for _ in range(3_000):
        ring.feed("y" * LONGEST_LINE + "\n")

    assert len(ring.tail()) <= MOST_CHARACTERS + 3_000
    assert ring.totals.lines == 3_000
    assert ring.totals.dropped_lines == 3_000 - ring.tail().count("\n")


@given(st.lists(st.text(alphabet="ab\n\ré", max_size=8)))
def test_however_it_arrives_it_is_the_same(pieces: list[str]) -> None:
    bit_by_bit, at_once = LineBuffer(5), LineBuffer(5)
    for piece in pieces:
        bit_by_bit.feed(piece)
    at_once.feed("".join(pieces))

    assert (bit_by_bit.tail(), bit_by_bit.totals) == (at_once.tail(), at_once.totals)

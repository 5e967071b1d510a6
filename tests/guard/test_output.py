"""Text out of bytes: whole characters, honest cuts."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from limpet.guard.output import Decoder, HeadTailBuffer, head_and_tail, trim_pair


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=10))
def test_any_chunking_decodes_to_the_same_text(data: bytes, cuts: list[int]) -> None:
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    decoder = Decoder()
    pieces = [decoder.feed(data[a:b]).text for a, b in itertools.pairwise(borders)]

    assert "".join(pieces) + decoder.end().text == data.decode("utf-8", "replace")


@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_new_decoder_goes_on_exactly_where_the_offset_says(data: bytes, cut: int) -> None:
    first = Decoder()
    told = first.feed(data[:cut])
    if told.raw_offset is None:
        return
    second = Decoder(told.raw_offset)
    rest = second.feed(data[told.raw_offset :])

    assert told.text + rest.text + second.end().text == data.decode("utf-8", "replace")


def test_head_and_tail_count_what_they_leave_out() -> None:
    assert head_and_tail("a" * 5 + "b" * 90 + "c" * 5, 10) == "aaaaa\n... [90 characters left out] ...\nccccc"
    assert head_and_tail("abc", 3) == "abc"
    assert head_and_tail("abc", 1) == "a\n... [2 characters left out] ...\n"


@given(st.text(max_size=60), st.text(max_size=60), st.integers(1, 80))
def test_a_pair_keeps_no_more_than_its_limit_of_the_output(stdout: str, stderr: str, limit: int) -> None:
    kept = trim_pair(stdout, stderr, limit)

    if len(stdout) + len(stderr) <= limit:
        assert kept == (stdout, stderr)
    else:
        own = sum(len(text.split("\n... [")[0]) + len(text.partition("] ...\n")[2]) for text in kept if "... [" in text)
        assert own <= limit


@given(st.lists(st.text(max_size=20), max_size=8), st.integers(-5, 60))
def test_a_buffer_lets_head_and_tail_through_and_counts_the_rest(texts: list[str], limit: int) -> None:
    buffer = HeadTailBuffer(limit)
    head = "".join(buffer.admit(text) for text in texts)
    tail = buffer.end()
    whole = "".join(texts)

    assert whole.startswith(head)
    assert whole.endswith(tail.text)
    assert len(head.encode()) + tail.dropped + len(tail.text.encode()) == len(whole.encode())
    assert len(head.encode()) + len(tail.text.encode()) <= max(0, limit)
    if len(whole.encode()) <= limit:
        assert head + tail.text == whole


@given(st.integers(0, 4000), st.sampled_from(["x", "ä", "€", "😀"]))
def test_what_is_dropped_makes_room_for_no_more_than_a_few_bytes_of_a_character(count: int, letter: str) -> None:
    buffer = HeadTailBuffer(1000)
    head, tail = buffer.admit(letter * count), buffer.end()
    if tail.dropped:
        assert len(head.encode()) > 750 - 4
        assert len(tail.text.encode()) > 250 - 4

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.upstreams.sse import Frames, FrameTooLarge

STREAM = (
    b"\xef\xbb\xbf: welcome\n\n"
    b'event: one\ndata: {"a":1}\n\n'
    b"data:no space\n\n"
    b"data: two\ndata: lines\ndata\n\n"
    b"event: nothing\nid: 7\nretry: 10\n\n"
    b": comment\nevent: x\n: comment\ndata:  kept space\n\n"
    b"\n\n\n"
    b"data: \xc3\xa9\xf0\x9f\x90\x9a\n\n"
    b"data: [DONE]\n\n"
)
DATA = [b'{"a":1}', b"no space", b"two\nlines\n", b" kept space", b"\xc3\xa9\xf0\x9f\x90\x9a", b"[DONE]"]


def fed(chunks: list[bytes]) -> list[bytes]:
    frames = Frames()
    return [data for chunk in chunks for data in frames.feed(chunk)] + frames.finish()


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@given(cuts=st.lists(st.integers(0, len(STREAM) + 40), max_size=12))
def test_events_are_the_same_wherever_the_bytes_are_cut(line_end: bytes, cuts: list[int]) -> None:
    stream = STREAM.replace(b"\n", line_end)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    assert fed([stream[start:end] for start, end in itertools.pairwise(edges)]) == DATA


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_single_bytes_are_enough(line_end: bytes) -> None:
    stream = STREAM.replace(b"\n", line_end)
    assert fed([bytes([byte]) for byte in stream]) == DATA


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    frames = Frames()
    assert frames.feed(b"data: a\n") == []
    assert frames.feed(b"\ndata: b") == [b"a"]
    assert frames.feed(b"\r\n\r\n") == [b"b"]


def test_a_last_event_without_its_blank_line_is_given_at_the_end() -> None:
    frames = Frames()
    assert frames.feed(b"data: a") == []
    assert frames.finish() == [b"a"]
    assert Frames().finish() == []


def test_an_event_without_end_is_refused() -> None:
    frames = Frames(limit=1_000)
    frames.feed(b"data: " + b"x" * 900)
    with pytest.raises(FrameTooLarge):
        frames.feed(b"x" * 200)

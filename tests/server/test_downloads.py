"""Which bytes a GET is answered with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from limpet.server.downloads import ByteRange, NotModified, RangeNotSatisfiable, TooMuch, Wanted, WholeFile, wanted

ETAG = '"abc"'
CASES: dict[str, tuple[dict[str, str], Wanted]] = {
    "nothing asked": ({}, WholeFile()),
    "the first bytes": ({"range": "bytes=0-3"}, ByteRange(start=0, length=4)),
    "one byte": ({"range": "bytes=9-9"}, ByteRange(start=9, length=1)),
    "to the end": ({"range": "bytes=4-"}, ByteRange(start=4, length=6)),
    "beyond the end is cut": ({"range": "bytes=8-99"}, ByteRange(start=8, length=2)),
    "the last bytes": ({"range": "bytes=-3"}, ByteRange(start=7, length=3)),
    "more last bytes than there are": ({"range": "bytes=-99"}, ByteRange(start=0, length=10)),
    "no last byte": ({"range": "bytes=-0"}, RangeNotSatisfiable()),
    "behind the end": ({"range": "bytes=10-"}, RangeNotSatisfiable()),
    "backwards": ({"range": "bytes=3-2"}, WholeFile()),
    "another unit": ({"range": "lines=0-3"}, WholeFile()),
    "several": ({"range": "bytes=0-1,4-5"}, WholeFile()),
    "no number": ({"range": "bytes=a-b"}, WholeFile()),
    "digits of another script": ({"range": "bytes=٠-٣"}, WholeFile()),
    "in capitals": ({"range": "BYTES=0-3"}, ByteRange(start=0, length=4)),
    "if it is still the same": ({"range": "bytes=0-3", "if-range": ETAG}, ByteRange(start=0, length=4)),
    "if it were the same": ({"range": "bytes=0-3", "if-range": '"xyz"'}, WholeFile()),
    "a weak tag proves nothing": ({"range": "bytes=0-3", "if-range": f"W/{ETAG}"}, WholeFile()),
    "a date proves nothing": ({"range": "bytes=0-3", "if-range": "Sat, 21 Nov 2026 15:00:00 GMT"}, WholeFile()),
    "already there": ({"if-none-match": ETAG}, NotModified()),
    "already there among others": ({"if-none-match": f'"x", W/{ETAG}', "range": "bytes=0-3"}, NotModified()),
    "another one is there": ({"if-none-match": '"x"'}, WholeFile()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_asked_is_what_is_given(name: str) -> None:
    headers, answer = CASES[name]
    encoded = [(key.encode(), value.encode("utf-8")) for key, value in headers.items()]
    assert wanted(Headers(raw=encoded), size=10, etag=ETAG) == answer


def test_an_empty_file_has_no_range() -> None:
    assert wanted(Headers({"range": "bytes=0-"}), size=0, etag=None) == RangeNotSatisfiable()
    assert wanted(Headers({}), size=0, etag=None) == WholeFile()


@given(st.text(alphabet="bytes=-0123456789,", max_size=30), st.integers(min_value=0, max_value=100))
def test_no_range_leads_outside_the_file(text: str, size: int) -> None:
    answer = wanted(Headers({"range": text}), size=size, etag=None)
    if isinstance(answer, ByteRange):
        assert 0 <= answer.start < size
        assert 0 < answer.length <= size - answer.start


@pytest.mark.parametrize(
    "asked, answer",
    [
        ({}, TooMuch(length=10)),
        ({"range": "bytes=2-"}, TooMuch(length=8)),
        ({"range": "bytes=2-8"}, ByteRange(start=2, length=7)),
        ({"range": "bytes=-8"}, TooMuch(length=8)),
        ({"range": "bytes=10-"}, RangeNotSatisfiable()),
        ({"if-none-match": ETAG}, NotModified()),
    ],
)
def test_no_answer_has_more_bytes_than_the_bound(asked: dict[str, str], answer: Wanted) -> None:
    assert wanted(Headers(asked), size=10, etag=ETAG, most=7) == answer
    assert wanted(Headers(asked), size=7, etag=ETAG, most=7) != TooMuch(length=7)

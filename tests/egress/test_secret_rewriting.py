"""What a door puts in the place of placeholders, and what it masks in answers, byte by byte and without a box."""

from base64 import b64encode

import pytest

from limpet.egress.host_patterns import HostPattern
from limpet.egress.http_heads import MOST_HEAD, MalformedHttp, RequestHead, read_request
from limpet.egress.policy import Refused
from limpet.egress.secrets import MOST_BODY, MOST_GROWN, PlacedSecret, Scrubber, SecretRewriter, encodings

HOST = "api.example.com"
FORM = b"application/x-www-form-urlencoded"


def placed(value: bytes, *, in_query: bool = False, in_body: bool = False) -> PlacedSecret:
    return PlacedSecret(name="TOKEN", value=value, hosts=(HostPattern(HOST),), in_query=in_query, in_body=in_body)


def head_of(*fields: bytes, target: bytes = b"/", length: bytes = b"Content-Length: 0") -> RequestHead:
    lines = [b"POST " + target + b" HTTP/1.1", b"Host: " + HOST.encode(), length, *fields]
    return read_request(b"\r\n".join(lines) + b"\r\n\r\n")


LONG = placed(b"%" * 8192, in_query=True, in_body=True)


@pytest.mark.parametrize(
    "head, body",
    [
        (head_of(b"X: " + LONG.placeholder * 1000), None),
        (head_of(*([b"X: " + LONG.placeholder] * 10)), None),
        (head_of(b"Authorization: Basic " + b64encode(LONG.placeholder * 800)), None),
        (head_of(target=b"/?a=" + LONG.placeholder * 1000), None),
        (head_of(b"Content-Type: " + FORM), LONG.placeholder * (MOST_BODY // len(LONG.placeholder))),
    ],
)
def test_a_request_that_its_placeholders_would_make_too_long_is_refused(head: RequestHead, body: bytes | None) -> None:
    with pytest.raises(MalformedHttp):
        SecretRewriter(head, [LONG]).request(head, body)


def test_a_piece_of_a_chunked_body_that_would_become_too_long_is_refused() -> None:
    rewriting = SecretRewriter(head_of(b"Content-Type: " + FORM, length=b"Transfer-Encoding: chunked"), [LONG])
    assert rewriting.sent(LONG.placeholder * 10) == b"%25" * 8192 * 10
    with pytest.raises(MalformedHttp):
        rewriting.sent(LONG.placeholder * 1000)


def test_as_many_values_as_fit_are_put_in() -> None:
    head = head_of(*([b"X: " + LONG.placeholder] * 7))
    fits = MOST_GROWN // len(LONG.value)
    changed = SecretRewriter(head, [LONG]).request(head, LONG.placeholder * fits)
    assert not isinstance(changed, Refused)
    assert [value for name, value in changed[0].fields if name == b"X"] == [LONG.value] * 7
    assert sum(len(name) + len(value) for name, value in changed[0].fields) < MOST_HEAD
    assert changed[1] == LONG.value * fits


@pytest.mark.parametrize(
    "written",
    [
        r"p\u0026ss\u003cw\u003e'\"+=/`é",  # Go
        r"p\u0026ss\u003cw\u003e\u0027\"+\u003d/`é",  # Gson
        r"p\u0026ss\u003Cw\u003E\u0027\u0022\u002B=/\u0060\u00E9",  # .NET
        r"p\u0026ss\u003Cw\u003E\u0027\u0022+=\/`\u00e9",  # PHP
        "p&amp;ss&lt;w&gt;&#39;&#34;+=/`é",  # Go, Jinja
        "p&amp;ss&lt;w&gt;&#039;&quot;+=/`é",  # PHP
    ],
)
def test_what_writers_of_json_and_html_escape_is_masked(written: str) -> None:
    value = "p&ss<w>'\"+=/`é".encode()
    assert Scrubber(encodings(value)).whole(f"<{written}>".encode()) == b"<" + b"*" * len(written.encode()) + b">"


def test_a_value_from_before_a_rotation_is_masked_and_not_sent() -> None:
    secret = PlacedSecret(name="T", value=b"value-of-now", also_hidden=(b"value-before",), hosts=(HostPattern(HOST),))
    head = head_of(b"X: " + secret.placeholder)
    rewriting = SecretRewriter(head, [secret])
    changed = rewriting.request(head, None)
    assert not isinstance(changed, Refused)
    assert (b"X", b"value-of-now") in changed[0].fields
    assert rewriting.received(b"value-before value-of-now.") == b"************ ************."


class CountedNeedle(bytes):
    """Counts how often a whole end of the data is compared with it."""

    compared = 0

    def startswith(self, *given: object) -> bool:
        self.compared += 1
        return super().startswith(*given)  # type: ignore[arg-type]


def test_an_end_that_looks_like_a_needle_at_every_place_is_compared_at_few() -> None:
    needle = CountedNeedle(b"%25" * 8191 + b"b")
    scrubber = Scrubber([needle])
    pieces = (b"%25" * 8000 + b"x", b"%25" * 8191, b"b and so on")
    got = b"".join(map(scrubber.feed, pieces)) + scrubber.end()
    assert needle.compared <= 40
    assert got == b"%25" * 8000 + b"x" + b"*" * len(needle) + b" and so on"

"""Requests that two readers could understand in two ways are refused."""

import pytest

from limpet.egress.http_heads import CHUNKED, MalformedHttp, read_request, read_response

GOOD = b"GET /a?b HTTP/1.1\r\nHost: api.good.example\r\n\r\n"


def request(line: str = "GET / HTTP/1.1", *fields: str, host: str | None = "Host: api.good.example") -> bytes:
    return "\r\n".join([line, *([host] if host else []), *fields, "", ""]).encode("latin-1")


SMUGGLED = [
    request("GET / HTTP/1.1", "Content-Length: 1", "Transfer-Encoding: chunked"),
    request("GET / HTTP/1.1", "Content-Length: 1", "Content-Length: 2"),
    request("GET / HTTP/1.1", "Content-Length: 1", "Content-Length: 1"),
    request("GET / HTTP/1.1", "Content-Length: +1"),
    request("GET / HTTP/1.1", "Content-Length: 0x1"),
    request("GET / HTTP/1.1", "Content-Length: 1, 1"),
    request("GET / HTTP/1.1", "Content-Length: -1"),
    request("GET / HTTP/1.1", "Content-Length:"),
    request("GET / HTTP/1.1", "Content-Length: 9999999999999999999999"),
    request("GET / HTTP/1.1", "Transfer-Encoding: gzip, chunked"),
    request("GET / HTTP/1.1", "Transfer-Encoding: identity"),
    request("GET / HTTP/1.1", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    request("GET / HTTP/1.1", "Transfer-Encoding: \x0bchunked"),
    request("GET / HTTP/1.0", "Transfer-Encoding: chunked"),
    request("GET / HTTP/1.1", "Transfer-Encoding : chunked"),
    request("GET / HTTP/1.1", " folded: x"),
    request("GET / HTTP/1.1", "X: a", "\tfolded"),
    request("GET / HTTP/1.1", "Host: evil.example"),
    request("GET / HTTP/1.1", host=None),
    request("GET / HTTP/1.1", "X: a\nHost: evil.example"),
    request("GET / HTTP/1.1", "X: a\rb"),
    request("GET / HTTP/1.1", "X: a\x00b"),
    request("GET / HTTP/1.1", "X y: a"),
    request("GET / HTTP/1.1", ": a"),
    request("GET / HTTP/1.1", "no colon"),
    request("GET http://evil.example/ HTTP/1.1"),
    request("GET http://api.good.example:81/ HTTP/1.1"),
    request("GET http://u@api.good.example/ HTTP/1.1"),
    request("GET https://api.good.example/ HTTP/1.1"),
    request("GET api.good.example HTTP/1.1"),
    request("GET //evil.example HTTP/1.1", host="Host: api.good.example@evil.example"),
    request("GET  / HTTP/1.1"),
    request("GET / HTTP/1.1 "),
    request("GET / HTTP/2.0"),
    request("GET / HTTP/1.2"),
    request("GET /"),
    request("get / HTTP/1.1"),
    request("GET /\x7f HTTP/1.1"),
    request("GET * HTTP/1.1"),
    request("CONNECT api.good.example HTTP/1.1"),
    request("CONNECT api.good.example:99999 HTTP/1.1"),
    request("CONNECT api.good.example:443:443 HTTP/1.1"),
    request("CONNECT u@api.good.example:443 HTTP/1.1"),
    request("CONNECT api.good.example:443 HTTP/1.1", "Content-Length: 5"),
    request("GET / HTTP/1.1", host="Host: api.good.example:"),
    request("GET / HTTP/1.1", host="Host: api.good.example, evil.example"),
    b"PRI * HTTP/2.0\r\n\r\n",
    b"\r\n\r\n",
    request("GET / HTTP/1.1", *["X: a"] * 300),
]


@pytest.mark.parametrize("data", SMUGGLED)
def test_a_request_of_two_readings_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedHttp):
        read_request(data)


def test_a_plain_request_is_read_as_it_is() -> None:
    head = read_request(GOOD)
    assert (head.method, head.target, head.host, head.port, head.length) == (
        b"GET",
        b"/a?b",
        "api.good.example",
        None,
        0,
    )
    absolute = read_request(
        b"POST http://A.Example?q/x HTTP/1.1\r\nhost: a.example:80\r\ntransfer-encoding: Chunked\r\n\r\n"
    )
    assert (absolute.target, absolute.host, absolute.is_absolute, absolute.length) == (
        b"/?q/x",
        "a.example",
        True,
        CHUNKED,
    )


@pytest.mark.parametrize("line", ["HTTP/1.1 20 OK", "HTTP/2 200", "HTTP/1.1  200", "ICY 200 OK", "HTTP/1.1 200 a\x00"])
def test_a_response_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(MalformedHttp):
        read_response(f"{line}\r\n\r\n".encode("latin-1"))

"""Heads of HTTP/1.1 messages, read strictly (RFC 9112): what two readers could understand in two ways is refused. Pure.

Refused among others: bare line feeds, folded lines, space before a colon, both lengths, several or odd lengths, two Hosts.
`tests/egress/test_http_heads.py` tries them.
"""

import re
from dataclasses import dataclass

from limpet.egress.host_patterns import canonical_name

MOST_HEAD = 1 << 16
MOST_FIELDS = 200
END = b"\r\n\r\n"
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_REQUEST = re.compile(rb"([A-Z]{1,24}) ([\x21-\x7e]+) HTTP/1\.([01])")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_AUTHORITY = re.compile(r"([^:@/?#\\\s]+)(?::([0-9]{1,5}))?")
_MOST_DIGITS = 18

Field = tuple[bytes, bytes]
CHUNKED = -1
TO_THE_END = -2


class MalformedHttp(Exception):
    """The message breaks a rule; the text names it in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """`length` is the body's in bytes, or CHUNKED; `host` and `port` are of the Host field, the host canonical or as it was written
    where it is no name. `is_absolute` where the target named scheme and host, which then agree with Host."""

    method: bytes
    target: bytes
    minor: int
    fields: tuple[Field, ...]
    host: str
    port: int | None
    is_absolute: bool
    length: int

    def values(self, name: bytes) -> list[bytes]:
        """The values of a field, by its name in lower case."""
        return [value for key, value in self.fields if key.lower() == name]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """`length` is what its fields say of the body: bytes, CHUNKED, or TO_THE_END of the connection."""

    status: int
    phrase: bytes
    minor: int
    fields: tuple[Field, ...]
    length: int

    def values(self, name: bytes) -> list[bytes]:
        """The values of a field, by its name in lower case."""
        return [value for key, value in self.fields if key.lower() == name]


def read_request(head: bytes) -> RequestHead:
    """The request of these bytes, which end with the empty line. Raises MalformedHttp."""
    line, fields = _parts(head)
    found = _REQUEST.fullmatch(line)
    if found is None:
        raise MalformedHttp("request line")
    method, target, minor = found[1], found[2], int(found[3])
    length = _length(fields, 0)
    if length == CHUNKED and minor == 0:
        raise MalformedHttp("chunked body in HTTP/1.0")
    if method == b"CONNECT":
        host, port = read_authority(target)
        if port is None or length != 0:
            raise MalformedHttp("CONNECT without a port, or with a body")
        return RequestHead(
            method=method, target=target, minor=minor, fields=fields, host=host, port=port, is_absolute=False, length=0
        )
    hosts = [value for key, value in fields if key.lower() == b"host"]
    if len(hosts) != 1:
        raise MalformedHttp("not exactly one Host")
    host, port = read_authority(hosts[0])
    path, is_absolute = _path(target, method, host, port)
    return RequestHead(
        method=method, target=path, minor=minor, fields=fields, host=host, port=port, is_absolute=is_absolute, length=length
    )  # fmt: skip


def _path(target: bytes, method: bytes, host: str, port: int | None) -> tuple[bytes, bool]:
    """The target in its origin form, and whether it was absolute."""
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return target, False
    if not target.lower().startswith(b"http://"):
        raise MalformedHttp("target")
    authority, slash, rest = target[len(b"http://") :].partition(b"/")
    authority, mark, query = authority.partition(b"?")
    if mark and slash:
        query += slash + rest
        slash = rest = b""
    named, named_port = read_authority(authority)
    if named != host or (named_port or 80) != (port or 80):
        raise MalformedHttp("Host and target disagree")
    return (b"/?" + query if mark else b"/" + rest), True


def read_authority(text: bytes) -> tuple[str, int | None]:
    """Host and port of `host:port`; the host canonical where it is a name, else as written. Raises MalformedHttp."""
    try:
        written = text.decode("ascii")
    except UnicodeDecodeError as error:
        raise MalformedHttp("authority") from error
    if written.startswith("["):  # an IPv6 address: well formed, and never admitted
        host, bracket, port = written.partition("]")
        if not bracket or (port and re.fullmatch(r":[0-9]{1,5}", port) is None):
            raise MalformedHttp("authority")
        return host + bracket, int(port[1:]) if port else None
    found = _AUTHORITY.fullmatch(written)
    if found is None:
        raise MalformedHttp("authority")
    number = None if found[2] is None else int(found[2])
    if number is not None and not 0 < number < 65_536:
        raise MalformedHttp("port")
    try:
        return canonical_name(found[1]), number
    except ValueError:
        return found[1][:253], number


def read_response(head: bytes) -> ResponseHead:
    """The response of these bytes, which end with the empty line. Raises MalformedHttp."""
    line, fields = _parts(head)
    found = _STATUS.fullmatch(line)
    if found is None:
        raise MalformedHttp("status line")
    return ResponseHead(
        status=int(found[2]), phrase=found[3] or b"", minor=int(found[1]), fields=fields, length=_length(fields, TO_THE_END)
    )  # fmt: skip


def _parts(head: bytes) -> tuple[bytes, tuple[Field, ...]]:
    line, *rest = head.removesuffix(END).split(b"\r\n")
    if len(rest) > MOST_FIELDS:
        raise MalformedHttp("too many fields")
    fields = []
    for text in rest:
        name, colon, value = text.partition(b":")
        if not colon or _TOKEN.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            raise MalformedHttp("field")
        fields.append((name, value.strip(b" \t")))
    return line, tuple(fields)


def _length(fields: tuple[Field, ...], otherwise: int) -> int:
    lengths = [value for key, value in fields if key.lower() == b"content-length"]
    codings = [value for key, value in fields if key.lower() == b"transfer-encoding"]
    if codings:
        if len(codings) > 1 or codings[0].lower() != b"chunked" or lengths:
            raise MalformedHttp("transfer coding")
        return CHUNKED
    if not lengths:
        return otherwise
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > _MOST_DIGITS:
        raise MalformedHttp("content length")
    return int(lengths[0])


def write_head(line: bytes, fields: list[Field]) -> bytes:
    """A head in bytes, with its empty line."""
    return line + b"\r\n" + b"".join(name + b": " + value + b"\r\n" for name, value in fields) + b"\r\n"

"""The first message of a TLS client, read for the name of the server that it wants (RFC 8446, 4.1.2; RFC 6066, 3). Pure.

Only what is needed is read, strictly: a message that says a thing twice, or whose lengths disagree, is not TLS here.
"""

from dataclasses import dataclass

from limpet.egress.host_patterns import canonical_name

HANDSHAKE = 0x16
MOST_BYTES = 1 << 16  # of all records up to the message's end; post-quantum key shares need some 2 KiB
_CLIENT_HELLO = 1
_MOST_RECORDS = 32  # of one message; each byte that arrives makes them be read again
_MOST_RECORD = 1 << 14
_SERVER_NAME = 0
_ENCRYPTED_CLIENT_HELLO = 0xFE0D


@dataclass(frozen=True, slots=True)
class ClientHello:
    """`name` is canonical, None where the client named no server or what is no name; `is_encrypted` where it offers ECH."""

    name: str | None
    is_encrypted: bool


class NotTls(Exception):
    """These bytes do not begin a TLS connection."""


def read_client_hello(data: bytes) -> ClientHello | None:
    """The message at the beginning of `data`; None while more bytes are needed. Raises NotTls."""
    message = _message(data)
    if message is None:
        return None
    reader = _Reader(message)
    reader.take(2 + 32)
    for width in (1, 2, 1):  # session id, cipher suites, compression methods
        reader.vector(width)
    extensions = _Reader(reader.vector(2))
    reader.end()
    found: dict[int, bytes] = {}
    while extensions.has_more:
        kind = extensions.number(2)
        body = extensions.vector(2)
        if kind in found:
            raise NotTls
        found[kind] = body
    name = _name(found[_SERVER_NAME]) if _SERVER_NAME in found else None
    return ClientHello(name=name, is_encrypted=_ENCRYPTED_CLIENT_HELLO in found)


def _message(data: bytes) -> bytes | None:
    """The handshake message, put together from its records."""
    if len(data) > MOST_BYTES:
        raise NotTls
    message, at, records = bytearray(), 0, 0
    while len(data) > at:
        if (records := records + 1) > _MOST_RECORDS:
            raise NotTls
        if data[at] != HANDSHAKE or (len(data) > at + 1 and data[at + 1] != 3):
            raise NotTls
        if len(data) < at + 5:
            return None
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        if not 0 < size <= _MOST_RECORD:
            raise NotTls
        message += data[at + 5 : at + 5 + size]
        at += 5 + size
        if message and message[0] != _CLIENT_HELLO:
            raise NotTls
        if len(message) >= 4:
            length = int.from_bytes(message[1:4], "big")
            if length > MOST_BYTES:
                raise NotTls
            if len(message) >= 4 + length:
                return bytes(message[4 : 4 + length])
    return None


def _name(body: bytes) -> str | None:
    """The one host name of the extension."""
    names = _Reader(_whole(body))
    if names.number(1) != 0:
        raise NotTls
    name = names.vector(2)
    names.end()
    try:
        return canonical_name(name.decode("ascii"))
    except ValueError:
        return None


def _whole(body: bytes) -> bytes:
    reader = _Reader(body)
    inner = reader.vector(2)
    reader.end()
    return inner


class _Reader:
    """Reads numbers and vectors from bytes; each raises NotTls where there are too few."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def has_more(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise NotTls
        self._at += count
        return taken

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> bytes:
        return self.take(self.number(width))

    def end(self) -> None:
        if self.has_more:
            raise NotTls

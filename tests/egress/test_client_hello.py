"""The name in a TLS client's first message, from real clients and from made up ones."""

import ssl
import struct

import pytest

from limpet.egress.client_hello import NotTls, read_client_hello


def hello(name: str | None) -> bytes:
    """What OpenSSL sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    context.verify_mode = ssl.CERT_NONE if name is None else ssl.CERT_REQUIRED
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def made(*extensions: tuple[int, bytes], more: bytes = b"") -> bytes:
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0"
    listed = b"".join(struct.pack(">HH", kind, len(data)) + data for kind, data in extensions)
    body += struct.pack(">H", len(listed)) + listed + more
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + struct.pack(">H", len(message)) + message


def sni(name: bytes, *, kind: int = 0) -> tuple[int, bytes]:
    entry = bytes([kind]) + struct.pack(">H", len(name)) + name
    return 0, struct.pack(">H", len(entry)) + entry


def test_a_real_clients_name_is_read_from_one_record_or_from_many() -> None:
    data = hello("api.good.example")
    whole = read_client_hello(data)
    assert whole is not None
    assert (whole.name, whole.is_encrypted) == ("api.good.example", False)
    message = data[5:]
    pieces = [message[at : at + 20] for at in range(0, len(message), 20)]
    split = b"".join(b"\x16\3\1" + struct.pack(">H", len(piece)) + piece for piece in pieces)
    assert read_client_hello(split) == whole
    assert all(read_client_hello(split[:count]) is None for count in range(len(split)))


def test_a_client_that_names_no_server_or_an_address_has_no_name() -> None:
    nameless = read_client_hello(hello(None))
    assert nameless is not None
    assert nameless.name is None
    for name in (b"127.0.0.1", b"a b", b"\xff", b"", b"*.good.example", b"a\0b"):
        read = read_client_hello(made(sni(name)))
        assert read is not None
        assert read.name is None


def test_an_encrypted_name_is_seen() -> None:
    read = read_client_hello(made(sni(b"api.good.example"), (0xFE0D, b"x")))
    assert read is not None
    assert read.is_encrypted


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1", b"SSH-2.0", b"\x16\2", b"\x16\3\1\0\0", b"\x16\3\1\xff\xff", b"\x16\3\1\0\4\2\0\0\0", b"\x15\3\1\0\2\2\x28",
     made(sni(b"a.example"), sni(b"b.example")), made(sni(b"a.example", kind=1)), made((0, b"\0\5\0\0\1a")), made((0, b"")),
     made(sni(b"a.example"), more=b"x"), made((0, sni(b"a.example")[1] + b"x")), b"\x16\3\1\x40\0\1\xff\xff\xff" + bytes(20000)],
)  # fmt: skip
def test_what_is_no_hello_is_not_tls(data: bytes) -> None:
    with pytest.raises(NotTls):
        read_client_hello(data)

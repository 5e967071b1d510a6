"""Answers of the box's name server (RFC 1035): every name that the box may reach has one and the same address, the door's. Pure.

No query is ever forwarded, so that a name cannot carry anything out of a box. All that a box may not reach does not exist.
"""

import struct
from collections.abc import Callable
from ipaddress import IPv4Address

from limpet.egress.host_patterns import canonical_name

MOST_QUERY = 512
TTL = 60  # seconds
_HEADER = struct.Struct(">HHHHHH")
_FIXED = struct.Struct(">HH")
_ANSWERED, _AUTHORITATIVE, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x0400, 0x0100, 0x0080
_OPCODE, _NO_ERROR, _FORMAT_ERROR, _NO_SUCH_NAME, _NOT_IMPLEMENTED = 0x7800, 0, 1, 3, 4
_A, _INTERNET = 1, 1
_POINTER_TO_QUESTION = 0xC00C

Locate = Callable[[str], IPv4Address | None]


def answer(query: bytes, locate: Locate) -> tuple[bytes, str | None] | None:
    """The answer to a query, and the name that it asked for where that could be read; None for what deserves no answer. `locate`
    gives a canonical name's address, None for a name that does not exist."""
    if not _HEADER.size < len(query) <= MOST_QUERY:
        return None
    identity, flags, questions, *_ = _HEADER.unpack_from(query)
    if flags & _ANSWERED:
        return None
    if flags & _OPCODE:
        return _reply(identity, flags, _NOT_IMPLEMENTED, b"", b""), None
    parsed = _question(query) if questions == 1 else None
    if parsed is None:
        return _reply(identity, flags, _FORMAT_ERROR, b"", b""), None
    name, kind, asked_class, question = parsed
    try:
        address = locate(canonical_name(name)) if asked_class == _INTERNET else None
    except ValueError:
        address = None
    if address is None:
        return _reply(identity, flags, _NO_SUCH_NAME, question, b""), name
    record = b""
    if kind == _A:
        record = struct.pack(">HHHIH", _POINTER_TO_QUESTION, _A, _INTERNET, TTL, 4) + address.packed
    return _reply(identity, flags, _NO_ERROR, question, record), name


def _reply(identity: int, flags: int, code: int, question: bytes, record: bytes) -> bytes:
    said = _ANSWERED | _AUTHORITATIVE | _RECURSION_AVAILABLE | (flags & (_OPCODE | _RECURSION_DESIRED)) | code
    return _HEADER.pack(identity, said, bool(question), bool(record), 0, 0) + question + record


def _question(query: bytes) -> tuple[str, int, int, bytes] | None:
    """The name, type and class asked for, and the question's own bytes."""
    at, labels = _HEADER.size, []
    while True:
        if at >= len(query):
            return None
        size = query[at]
        at += 1
        if size == 0:
            break
        if size > 63 or at + size > len(query):
            return None
        labels.append(query[at : at + size].decode("latin-1"))
        at += size
    if at + _FIXED.size > len(query):
        return None
    kind, asked_class = _FIXED.unpack_from(query, at)
    return ".".join(labels), kind, asked_class, query[_HEADER.size : at + _FIXED.size]

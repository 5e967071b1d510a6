"""Frames between the host and the agent, and the values in them. Read by both sides; each checks what it gets.

A frame is a type (1 byte), an id (4 bytes) and a length (4 bytes), then so many bytes. Requests carry an id that their reply
repeats; what belongs to a reader or a process carries its number.
"""

from __future__ import annotations

import marshal
import struct

VERSION = 5

# From the host. All but GRANT and UNREAD are answered by a REPLY or a REFUSED of the same id.
HELLO = 1  # {version}
START = 2  # length of what `pack` gives (4 bytes), that, standard input; `reader` gets the first AHEAD bytes of output
FIND = 3  # {exec_id}
READ = 4  # {reader, process, stdout, stderr}
GRANT = 5  # id: reader; 4 bytes: so many more bytes may be sent
UNREAD = 6  # id: reader
WRITE = 7  # number of the process (4 bytes), standard input; answered when it was taken over
CLOSE_STDIN = 8  # {process}
RESIZE = 9  # {process, columns, rows}
SIGNAL = 10  # {process, number}
ABORT = 11  # {process}
FORGET = 12  # id: process; not answered
TOUCH = 13  # {}
END = 14  # {}; the box ends, nothing answers
STOP_WRITERS = (
    15  # {reason, every}; answered with {killed}; without a reason it is noted who writes: None where something does
)
HALT = 16  # {}; whatever commands run stops, until RESUME or for HALTED_AT_MOST seconds
RESUME = 17  # {}
END_COMMANDS = 18  # {reason}; all of them, and what they left running; answered with {killed}

# From the agent.
REPLY = 32
REFUSED = 33  # {error, ...}; id: a request, or a reader whose next output was let go of
DATA = 34  # id: reader; stream (1 byte), offset (8 bytes), output
READ_END = 35  # id: reader; the process has ended and all was sent
ENDED = 36  # id: process; {outcome, code, notes}
DONE = 37  # id: a request to start that was not answered yet; DONE_HEAD, stdout, stderr: it has ended, and that is all of its output

HEADER = struct.Struct("!BII")
CHUNK = struct.Struct("!BQ")
DONE_HEAD = struct.Struct("!IBBI")  # number of the process, place of the outcome in OUTCOMES, code, length of stdout
OUTCOMES = ("exited", "timed_out", "aborted")
NUMBER = struct.Struct("!I")
PIECE = 1 << 18  # output in one frame, at most
WINDOW = 1 << 21  # what a reader may get before it grants more
AHEAD = 1 << 16  # bytes of output that the agent sends after a start, before the host has asked for any
STDIN_LIMIT = 64 << 20
TO_AGENT_LIMIT = STDIN_LIMIT + (16 << 20)
TO_HOST_LIMIT = 1 << 20

HALTED_AT_MOST = 30.0

_LONG = struct.Struct("!q")
_DOUBLE = struct.Struct("!d")
_DEPTH = 8


class BadFrame(Exception):
    """The other side sent what cannot be."""


def frame(kind: int, number: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, number, len(payload)) + payload


def take_frame(buffer: bytearray, limit: int) -> tuple[int, int, bytes] | None:
    """The first whole frame, cut off the buffer; None while it is not all there. BadFrame where it is longer than `limit`."""
    if len(buffer) < HEADER.size:
        return None
    kind, number, length = HEADER.unpack_from(buffer)
    if length > limit:
        raise BadFrame(f"a frame of {length} bytes")
    end = HEADER.size + length
    if len(buffer) < end:
        return None
    payload = bytes(memoryview(buffer)[HEADER.size : end])
    del buffer[:end]
    return kind, number, payload


def pack(values: dict[str, object]) -> bytes:
    """Values for the agent, which may believe the host. Read by any Python from 3.4 on."""
    return marshal.dumps(values, 4)


def unpack(data: bytes) -> dict[str, object]:
    """The dict that `pack` was given. Never for what comes from a box: marshal trusts its input."""
    try:
        values = marshal.loads(data)
    except (ValueError, EOFError, TypeError) as error:
        raise BadFrame("a value that breaks off") from error
    if not isinstance(values, dict):
        raise BadFrame("a value of another form")
    return values


def encode(value: object) -> bytes:
    """None, bool, int (64 bits), float, str, bytes, list, tuple and dict with str keys, as bytes."""
    if value is None:
        return b"N"
    if value is True or value is False:
        return b"T" if value else b"F"
    if isinstance(value, int):
        return b"i" + _LONG.pack(value)
    if isinstance(value, float):
        return b"d" + _DOUBLE.pack(value)
    if isinstance(value, str):
        return _sized(b"s", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return _sized(b"b", value)
    if isinstance(value, (list, tuple)):
        return b"l" + NUMBER.pack(len(value)) + b"".join(encode(item) for item in value)
    if isinstance(value, dict):
        parts = [encode(part) for item in value.items() for part in item]
        return b"m" + NUMBER.pack(len(value)) + b"".join(parts)
    raise TypeError(type(value).__name__)


def _sized(mark: bytes, data: bytes) -> bytes:
    return mark + NUMBER.pack(len(data)) + data


def decode(data: bytes) -> dict[str, object]:
    """The dict that `encode` was given. BadFrame for anything else."""
    try:
        value, end = _decode(data, 0, 0)
    except (struct.error, UnicodeError, IndexError) as error:
        raise BadFrame("a value that breaks off") from error
    if end != len(data) or not isinstance(value, dict):
        raise BadFrame("a value of another form")
    return value


def _decode(data: bytes, at: int, depth: int) -> tuple[object, int]:
    mark = data[at : at + 1]
    at += 1
    if mark in (b"N", b"T", b"F"):
        return {b"N": None, b"T": True, b"F": False}[mark], at
    if mark == b"i":
        return _LONG.unpack_from(data, at)[0], at + 8
    if mark == b"d":
        return _DOUBLE.unpack_from(data, at)[0], at + 8
    if mark not in (b"s", b"b", b"l", b"m") or depth > _DEPTH:
        raise BadFrame("a value of an unknown kind")
    size = NUMBER.unpack_from(data, at)[0]
    at += 4
    if size > len(data) - at:
        raise BadFrame("a value that is longer than its frame")
    if mark == b"s":
        return data[at : at + size].decode("utf-8", "surrogatepass"), at + size
    if mark == b"b":
        return data[at : at + size], at + size
    if mark == b"l":
        items = []
        for _ in range(size):
            item, at = _decode(data, at, depth + 1)
            items.append(item)
        return items, at
    return _decode_dict(data, at, size, depth)


def _decode_dict(data: bytes, at: int, size: int, depth: int) -> tuple[dict[str, object], int]:
    found: dict[str, object] = {}
    for _ in range(size):
        key, at = _decode(data, at, depth + 1)
        if not isinstance(key, str):
            raise BadFrame("a key that is no text")
        found[key], at = _decode(data, at, depth + 1)
    return found, at

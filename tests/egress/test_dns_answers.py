"""The box's name server: allowed names have the door's address, all others do not exist, and nothing is ever forwarded."""

import struct
from ipaddress import IPv4Address

import pytest

from limpet.egress.dns_answers import answer
from limpet.egress.policy import read_policy

POLICY = read_policy(["api.good.example", "*.wide.example"])
DOOR = IPv4Address("198.18.0.1")


def locate(name: str) -> IPv4Address | None:
    return DOOR if POLICY.knows(name) else None


def query(name: str, kind: int = 1, *, flags: int = 0x0100, questions: int = 1, klass: int = 1) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part)
    return struct.pack(">HHHHHH", 7, flags, questions, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, klass)


def code_and_count(data: bytes) -> tuple[int, int]:
    found = answer(data, locate)
    assert found is not None
    _, flags, _, answers, _, _ = struct.unpack_from(">HHHHHH", found[0])
    return flags & 0xF, answers


@pytest.mark.parametrize("name", ["api.good.example", "API.Good.Example", "x.wide.example", "a.b.wide.example"])
def test_an_allowed_name_has_the_doors_address_and_no_other_record(name: str) -> None:
    found = answer(query(name), locate)
    assert found is not None
    assert found[0].endswith(DOOR.packed)
    assert [code_and_count(query(name, kind)) for kind in (28, 16, 65, 255, 15)] == [(0, 0)] * 5


@pytest.mark.parametrize(
    "name",
    ["evil.example", "good.example", "wide.example", "secret-data.evil.example", "a" * 63 + ".evil.example", "1.1.1.1", "localhost",
     "api.good.example.evil.example", "x.api.good.example", "db.host.internal", "1.0.18.198.in-addr.arpa", ""],
)  # fmt: skip
def test_any_other_name_does_not_exist(name: str) -> None:
    assert code_and_count(query(name)) == (3, 0)


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 12, query("api.good.example", flags=0x8100), b"x" * 600, query("api.good.example", questions=2),
     query("api.good.example")[:-3], query("api.good.example", flags=0x2800), query("api.good.example", klass=3),
     struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1", struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + b"\x3fabc"],
)  # fmt: skip
def test_what_is_no_question_gets_no_address(data: bytes) -> None:
    found = answer(data, locate)
    assert found is None or DOOR.packed not in found[0]

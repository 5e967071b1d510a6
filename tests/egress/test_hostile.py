"""Hostile hosts lead nowhere: not as the authority of a tunnel, not in a request to the proxy, not as the URL of a file, not as a name."""

import struct
from collections.abc import Sequence
from ipaddress import IPv4Address

import pytest

from limpet.core.errors import FetchRefused
from limpet.egress.dns_answers import answer
from limpet.egress.fetch import Fetcher
from limpet.egress.policy import read_policy
from limpet.egress.settings import FetchSettings
from tests.egress.hostile import HOST, HOSTS, NAMES
from tests.egress.test_host_patterns import HOSTILE, SAME
from tests.support.doors import OpenDoor, open_door, policy_for

pytestmark = pytest.mark.anyio
POLICY = read_policy([HOST])


def test_there_are_enough_of_them() -> None:
    assert min(len(set(NAMES)), len(set(HOSTS)), len(set(HOSTILE))) >= 40


async def refused(door: OpenDoor, head: str) -> None:
    answered = await door.say(head.encode("utf-8", "surrogateescape"))
    assert answered.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ")), (head, answered[:300])
    assert b"X-Limpet-Refused: " in answered


async def test_as_the_authority_of_a_tunnel() -> None:
    async with open_door(policy_for("api.good.example")) as door:
        for text in HOSTILE:
            if text not in SAME:
                await refused(door, f"CONNECT {text}:443 HTTP/1.1\r\nHost: {text}:443\r\n\r\n")
        assert door.asked == []


@pytest.mark.parametrize(
    "form",
    ["GET http://{0}/ HTTP/1.1\r\nHost: {0}", "GET http://{1}/ HTTP/1.1\r\nHost: {0}", "GET / HTTP/1.1\r\nHost: {0}"],
)
async def test_in_a_plain_request(form: str) -> None:
    async with open_door(policy_for(HOST)) as door:
        for text in HOSTS:
            await refused(door, form.format(text, HOST) + "\r\n\r\n")
        assert door.asked == []


@pytest.mark.parametrize("host", HOSTS)
async def test_as_the_url_of_a_file(host: str) -> None:
    asked: list[str] = []

    async def resolve(name: str, port: int) -> Sequence[str]:
        asked.append(name)
        return ["10.0.0.1"]  # no name of the list leads anywhere else

    with pytest.raises(FetchRefused):
        async with Fetcher(FetchSettings(), resolve=resolve).open(f"https://{host}/x") as file:
            pytest.fail(f"{file} was opened")
    assert HOST not in asked


@pytest.mark.parametrize("name", NAMES)
def test_as_a_name(name: str) -> None:
    labels = b"".join(bytes([len(part) & 63]) + part.encode()[:63] for part in name.split(".") if part)
    query = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"
    found = answer(query, lambda canonical: IPv4Address("198.18.0.1") if POLICY.knows(canonical) else None)
    assert found is not None
    code, answers = found[0][3] & 15, struct.unpack_from(">H", found[0], 6)[0]
    assert (code in (1, 3), answers) == (True, 0)

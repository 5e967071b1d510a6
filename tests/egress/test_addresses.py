"""Every kind of address that is not the public internet's, in every spelling that a resolver would take."""

from ipaddress import ip_address, ip_network

import pytest

from limpet.core.errors import FetchRefused
from limpet.egress.addresses import canonical_host, is_public

INNER = (
    "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.254 127.0.0.1 127.1.2.3 168.63.129.16 169.254.0.1 "
    "169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 "
    "198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 "
    ":: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:10.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::7f00:1 "
    "64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 "
    "fd12:3456::1 fe80::1 fec0::1 ff02::1 ff0e::1"
).split()
OUTER = "1.1.1.1 8.8.8.8 93.184.216.34 172.32.0.1 2606:4700::1111 2a00:1450:4001:81b::200e 64:ff9b::808:808".split()


@pytest.mark.parametrize("text", INNER)
def test_an_inner_address_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", OUTER)
def test_an_address_of_the_internet_is_public(text: str) -> None:
    assert is_public(ip_address(text))


def test_a_scoped_address_is_not_public_even_where_its_network_is_allowed() -> None:
    assert not is_public(ip_address("fe80::1%eth0"), allowed=[ip_network("fe80::/10")])


def test_only_the_networks_that_the_operator_names_are_reachable_beside_the_internet() -> None:
    allowed = [ip_network("10.1.0.0/16")]
    assert is_public(ip_address("10.1.2.3"), allowed=allowed)
    assert is_public(ip_address("::ffff:10.1.2.3"), allowed=allowed)
    assert not is_public(ip_address("10.2.0.1"), allowed=allowed)


@pytest.mark.parametrize(
    "given, dialed",
    [
        ("files.example.com", "files.example.com"),
        ("FILES.Example.COM.", "files.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("a-b.c_d.example", "a-b.c_d.example"),
        ("1.1.1.1", "1.1.1.1"),
        ("[2606:4700::1111]", "2606:4700::1111"),
    ],
)
def test_a_host_is_dialed_in_one_form(given: str, dialed: str) -> None:
    assert canonical_host(given) == dialed


ODD = (
    "2130706433 0x7f000001 017700000001 127.1 127.0.1 0177.0.0.1 0x7f.0.0.1 127.0.0.0x1 1.2.3.08 127.0.0.1. "
    "①②⑦.⓪.⓪.① 127。0。0。1 [::1] [::ffff:127.0.0.1] [fe80::1%25eth0] localhost:80 a..b .a -a.example a-.example a/b "
    "user@host a%2eb . .. 169.254.169.254 10.0.0.1"
).split()


@pytest.mark.parametrize(
    "text", [*ODD, "", "a b", "a\x00b", "a\tb", "x" * 64 + ".example", ".".join(["abcdefgh"] * 40)]
)
def test_what_is_no_public_name_is_refused_in_every_spelling(text: str) -> None:
    with pytest.raises(FetchRefused):
        canonical_host(text)

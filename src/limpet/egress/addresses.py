"""Which hosts and addresses are the public internet's. Pure: resolves nothing, dials nothing.

`ipaddress.is_global` alone lets 16 of 38 bad addresses pass (shared, benchmarking, translated and documentation ranges, mapped and
embedded IPv4): hence the list. `tests/egress/test_addresses.py` tries each.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from limpet.core.errors import FetchRefused

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NEVER: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8 100.64.0.0/10 168.63.129.16/32 192.0.0.0/24 192.88.99.0/24 198.18.0.0/15 224.0.0.0/4 240.0.0.0/4 "
        "::/96 ::ffff:0:0:0/96 64:ff9b:1::/48 100::/64 2001::/32 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 "
        "fc00::/7 fe80::/10 fec0::/10 ff00::/8"
    ).split()
)
# The translator of a network with IPv6 alone: what counts is the IPv4 address inside.
_NAT64 = ip_network("64:ff9b::/96")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
MOST_NAME = 253


def is_public(address: Address, *, allowed: Sequence[Network] = ()) -> bool:
    """Whether an address may be dialed: one of the public internet, or of a network that the operator named in `allowed`."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    if any(address.version == network.version and address in network for network in allowed):
        return True
    if isinstance(address, IPv6Address):
        inside = address.ipv4_mapped or (IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None)
        if inside is not None:
            return is_public(inside, allowed=allowed)
    if any(address.version == network.version and address in network for network in _NEVER):
        return False
    return address.is_global and not address.is_multicast


def canonical_host(text: str, *, allowed: Sequence[Network] = ()) -> str:
    """A host as it will be dialed: a name in lower case, in its ASCII form and without a final dot, or an address.

    An address counts only in its usual spelling; every other that a resolver would take (decimal, hexadecimal, octal, short) is
    refused, as is whatever is not a name. Raises FetchRefused, which never repeats an address that a name led to.
    """
    if (address := _address(text)) is not None:
        if not is_public(address, allowed=allowed):
            raise FetchRefused(f"{text} is not an address of the public internet.", "Give a URL with a public name.")
        return str(address)
    name = text.lower().removesuffix(".")
    try:
        ascii_name = name if name.isascii() else name.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise _no_host(text) from error
    labels = ascii_name.split(".")
    if len(ascii_name) > MOST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise _no_host(text)
    # As browsers read it: a last label that is a number makes the whole an IPv4 address in some spelling.
    if labels[-1].isdigit() or re.fullmatch(r"0x[0-9a-f]*", labels[-1]):
        raise _no_host(text)
    return ascii_name


def _address(text: str) -> Address | None:
    try:
        address = ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    bracketed = text.startswith("[") and text.endswith("]")
    return address if bracketed == (address.version == 6) or ":" in text else None


def _no_host(text: str) -> FetchRefused:
    return FetchRefused(f"{text[:100]!r} is not the name of a host.", "Write it as files.example.com.")

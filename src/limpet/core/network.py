"""Sockets inside a sandbox's network, held by this process: what a door listens on, and the port that opens them. Values only."""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Protocol

# Of a range that no network uses (RFC 2544). The first is where a sandbox's door listens and its name server answers; the n-th
# service of the host has the address n behind the second.
DOOR_ADDRESS = IPv4Address("198.18.0.1")
SERVICE_ADDRESSES = IPv4Address("198.18.1.0")
NAMES_PORT = 53
PROXY_PORT = 80
# Where programs in a sandbox find the authorities that they trust; several variables say so.
TRUST_FILE = "/etc/ssl/certs/ca-certificates.crt"
JAVA_TRUST_FILE = "/etc/ssl/certs/java/cacerts"  # the same, as Java reads them; Debian's Java looks there by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorPlan:
    """What to listen on: TCP at the door's address on the ports `web`, its name server, and TCP for each service of the host (name and
    port), the n-th of them at `service_address(n)`."""

    web: tuple[int, ...] = (80, 443)
    services: tuple[tuple[str, int], ...] = ()

    def tcp(self) -> tuple[tuple[str, int], ...]:
        """Addresses and ports, those of the web first."""
        own = tuple((str(DOOR_ADDRESS), port) for port in self.web)
        return own + tuple((str(service_address(number)), port) for number, (_, port) in enumerate(self.services))

    def addresses(self) -> tuple[str, ...]:
        """Every address that is needed, once."""
        return tuple(dict.fromkeys([str(DOOR_ADDRESS), *(address for address, _ in self.tcp())]))


def service_address(number: int) -> IPv4Address:
    """Where the service of that number is seen in a sandbox."""
    return SERVICE_ADDRESSES + 1 + number


@dataclass(slots=True, kw_only=True)
class DoorListeners:
    """`web` are listening TCP sockets by the port that a program believes it connects to: requests to a proxy, plain HTTP and TLS all
    come there. `names` is the UDP socket of the name server, `services` listen for one service of the host each, by name and port."""

    web: Mapping[int, socket.socket] = field(default_factory=dict)
    names: socket.socket | None = None
    services: Mapping[tuple[str, int], socket.socket] = field(default_factory=dict)

    def all(self) -> Iterator[socket.socket]:
        """Every socket."""
        yield from self.web.values()
        yield from self.services.values()
        if self.names is not None:
            yield self.names

    def close(self) -> None:
        """Twice is quiet."""
        for each in self.all():
            each.close()


class NetworkedSandbox(Protocol):
    """What a sandbox has beside `core.ports.Sandbox` where its runtime has Offer.NETWORK_POLICY."""

    async def listen(self, plan: DoorPlan) -> DoorListeners:
        """Open these sockets in the sandbox's own network; they are the caller's. Ports below 1024 are out of its commands' reach.

        Raises: BootFailed where they cannot be opened, such as where a command took one of the other ports; SandboxGone."""
        ...

    async def trust(self, certificate: bytes) -> None:
        """Add this authority, in PEM, to those of TRUST_FILE, in the place of one that was added before. Raises: BootFailed."""
        ...

"""All open connections: how many there are, of which address, and which of them have no request and can make room.

A connection that waits for a request is closed, the longest waiting first, before a new one is refused: idle ones keep no client out.
"""

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from limpet.ingress.limits import ConnectionLimits


class Connection(Protocol):
    """What the table must know of a connection."""

    source: str

    def make_room(self) -> None:
        """Close it: it has no request, and another needs its place."""

    def check_deadlines(self, now: float) -> None:
        """Close it where it has been too slow. `now` is the loop's time in seconds."""


class ConnectionTable:
    """Admits connections up to the limits. Idle are those whose next request's head has not arrived."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}
        self._sources: dict[str, _AddressCount] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def surplus(self) -> int:
        """How many connections there are beyond the limit, all of them refused."""
        return len(self._all) - self.limits.max_connections

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._all))

    def add(self, connection: Connection) -> bool:
        """Count a new, idle connection in. False where it has to be refused: it is counted nevertheless, until it is removed."""
        source = self._sources.setdefault(connection.source, _AddressCount())
        is_admitted = True
        if source.count >= self.limits.max_connections_per_address:
            is_admitted = self._evict(source.idle)
        if is_admitted and len(self._all) >= self.limits.max_connections:
            is_admitted = self._evict(self._idle)
        source = self._sources.setdefault(connection.source, source)
        source.count += 1
        self._all[connection] = None
        if is_admitted:
            self.set_idle(connection)
        return is_admitted

    def remove(self, connection: Connection) -> None:
        """It is closed, or about to be. Twice is quiet."""
        if connection not in self._all:
            return
        self.set_busy(connection)
        del self._all[connection]
        source = self._sources[connection.source]
        source.count -= 1
        if not source.count:
            del self._sources[connection.source]

    def set_idle(self, connection: Connection) -> None:
        """It waits for a request from now on."""
        self._idle[connection] = None
        self._sources[connection.source].idle[connection] = None

    def set_busy(self, connection: Connection) -> None:
        """It has a request."""
        if self._idle.pop(connection, self) is None:
            self._sources[connection.source].idle.pop(connection, None)

    def free(self, count: int) -> None:
        """Close so many idle connections, where there are."""
        for _ in range(count):
            if not self._evict(self._idle):
                return

    def _evict(self, idle: "dict[Connection, None]") -> bool:
        oldest = next(iter(idle), None)
        if oldest is None:
            return False
        self.remove(oldest)
        oldest.make_room()
        return True


class _AddressCount:
    __slots__ = ("count", "idle")

    def __init__(self) -> None:
        self.count = 0
        self.idle: dict[Connection, None] = {}


def source_of(host: str | None) -> str:
    """Whom an address belongs to, for counting: IPv6 by its /64, which one subscriber has, others as they are."""
    try:
        address = ip_address((host or "").partition("%")[0])
    except ValueError:
        return host or "unknown"
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64)) if not address.is_loopback else str(address)

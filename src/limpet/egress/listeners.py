"""The sockets of a door, which lie in its box's network namespace. Values only; a runtime opens them (`core.ports.Sandbox.listen`)."""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class DoorListeners:
    """`web` are listening TCP sockets by the port that a program believes it connects to: requests to a proxy, plain HTTP and TLS all
    come there. `names` is the UDP socket of the name server, `services` listen for one service of the host each, by name and port."""

    web: Mapping[int, socket.socket] = field(default_factory=dict)
    names: socket.socket | None = None
    services: Mapping[tuple[str, int], socket.socket] = field(default_factory=dict)

    def all(self) -> Iterator[socket.socket]:
        yield from self.web.values()
        yield from self.services.values()
        if self.names is not None:
            yield self.names

    def close(self) -> None:
        """Twice is quiet."""
        for each in self.all():
            each.close()

"""What a connection may cost before, while and after it is answered. Values only."""

from dataclasses import dataclass
from typing import Annotated

from limpet.core.settings import MIB, Between, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """`[server.connections]`. Times are in seconds. A body must bring `min_bytes_per_sec` on average over each `body_timeout_secs`, and
    an answer must be read at that rate after `write_timeout_secs`; time in which the gateway itself does not read is not counted.

    `max_connections` is lowered to half of the files that this process may open.
    """

    max_header_bytes: Annotated[int, Between(1024, 16 * MIB)] = 64 * 1024
    max_headers: Annotated[int, Between(16, 100_000)] = 256
    header_timeout_secs: Annotated[float, Between(0.1, 3600)] = 10.0
    idle_timeout_secs: Annotated[float, Between(0.1, 86_400)] = 75.0
    body_timeout_secs: Annotated[float, Between(0.1, 3600)] = 20.0
    write_timeout_secs: Annotated[float, Between(0.1, 3600)] = 30.0
    min_bytes_per_sec: Annotated[int, Between(0)] = 512
    max_connections: Positive = 4000
    max_connections_per_address: Positive = 1000
    max_body_memory_mb: Annotated[int, Between(64)] = 512
    max_unread_memory_mb: Positive = 256
    websocket_lifetime_secs: Annotated[float, Between(1, 86_400)] = 3600.0


DEFAULT = ConnectionLimits()

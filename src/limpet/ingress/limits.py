"""What a connection may cost before, while and after it is answered. Values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Times are in seconds. A body must bring `min_bytes_per_sec` on average over each `body_timeout_secs`, and an answer must be
    read at that rate after `write_timeout_secs`; time in which the gateway itself does not read is not counted.

    `max_connections` is lowered to half of the files that this process may open.
    """

    max_header_bytes: int = 64 * 1024
    max_headers: int = 256
    header_timeout_secs: float = 10.0
    idle_timeout_secs: float = 75.0
    body_timeout_secs: float = 20.0
    write_timeout_secs: float = 30.0
    min_bytes_per_sec: int = 512
    max_connections: int = 4000
    max_connections_per_address: int = 1000
    max_body_memory_mb: int = 512
    max_unread_memory_mb: int = 256


DEFAULT = ConnectionLimits()

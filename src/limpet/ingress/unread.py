"""An answer that its client does not read: bounded in time, and in memory together with all others."""

import asyncio

from limpet.ingress.memory import MemoryLease
from limpet.ingress.refusals import Ingress


class UnreadAnswer:
    """From the moment that a connection's buffer is full until it has room again. What was being answered is only left by its client."""

    __slots__ = ("_holding", "_ingress", "_since", "_size", "_source", "_transport")

    def __init__(self, transport: asyncio.Transport, ingress: Ingress, source: str) -> None:
        self._transport = transport
        self._ingress = ingress
        self._source = source
        self._holding: MemoryLease | None = None
        self._since = 0.0
        self._size = 0

    def begin(self, now: float) -> None:
        """The buffer is full. `now` is the loop's time in seconds."""
        self.end()
        self._since, self._size = now, self._transport.get_write_buffer_size()
        self._holding = self._ingress.unread.hold(self._source, self._drop)
        self._holding.add(self._size)

    def end(self) -> None:
        """It has room again, or the connection is closed."""
        if self._holding is not None:
            self._holding.release()
            self._holding = None

    def check_deadline(self, now: float) -> None:
        """Close the connection where its client reads slower than it has to, once for each window."""
        limits = self._ingress.table.limits
        waited = now - self._since
        if self._holding is None or waited < limits.write_timeout_secs:
            return
        size = self._transport.get_write_buffer_size()
        if self._size - size < waited * limits.min_bytes_per_sec:
            self._drop()
            return
        self._since, self._size = now, size

    def _drop(self) -> None:
        self._ingress.notice("connection_closed", reason="its client does not read the answer", address=self._source)
        self._transport.abort()

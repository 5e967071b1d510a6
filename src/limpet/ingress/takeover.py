"""Lets an application cut the connection of its request, or take it over after an upgrade (RFC 9110, 7.8): then bytes go both ways, as
they are. `tests/wire/test_ports.py` tries it."""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

EXTENSION = "limpet.connection"  # its key in the `extensions` of an ASGI scope
MOST_WAITING = 64 * 1024  # bytes of the client that wait to be read, beyond those of one piece


class RawConnection:
    """The connection after it was taken over."""

    def __init__(
        self,
        transport: asyncio.Transport,
        flow: FlowControl,
        *,
        set_idle: Callable[[bool], None] = lambda is_idle: None,
    ) -> None:
        self._transport = transport
        self._flow = flow
        self.set_idle = set_idle  # whether it may be closed where another connection needs its place
        self._waiting = bytearray()
        self._has_ended = False
        self.is_gone = False  # it cannot be written to any more
        self._arrived = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._waiting += data
        if len(self._waiting) > MOST_WAITING:
            self._flow.pause_reading()
        self._arrived.set()

    def feed_end(self, *, is_gone: bool = False) -> None:
        """The client sends no more, or is gone."""
        self._has_ended = True
        self.is_gone = self.is_gone or is_gone
        self._arrived.set()

    async def read(self) -> bytes:
        """The next bytes of the client; empty at its end."""
        await self._arrived.wait()
        data = bytes(self._waiting)
        self._waiting.clear()
        self._flow.resume_reading()
        if not self._has_ended:
            self._arrived.clear()
        return data

    async def write(self, data: bytes) -> None:
        """Send; waits while the client does not read. Raises ConnectionResetError where it is gone."""
        if self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self._transport.write(data)
        await self._flow.drain()

    def end(self) -> None:
        """Send what is written, and nothing after it; the client may still send."""
        if not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        """Send what is written, and close."""
        self._transport.close()

    def abort(self) -> None:
        """Cut it."""
        self._transport.abort()


class ConnectionControl:
    """The connection of one request. `take` makes it raw; None where the request is not the only one, or asks for no upgrade: nothing
    else may be spoken then, and the request is answered as any other."""

    def __init__(self, *, abort: Callable[[], None], take: Callable[[], RawConnection | None]) -> None:
        self.abort = abort
        self._take = take
        self.is_taken = False

    def take(self) -> RawConnection | None:
        taken = self._take()
        self.is_taken = taken is not None
        return taken


def control_of(scope: Any) -> ConnectionControl | None:
    """That of a request; None under a server that has none."""
    found: ConnectionControl | None = scope.get("extensions", {}).get(EXTENSION)
    return found

"""A WebSocket (RFC 6455) of a client, over a connection that was taken over: text messages in and out.

The frames are read and written by websockets' protocol without I/O; this adds the socket and the bounds. No extension is agreed on, so
nothing of a client is ever decompressed. `tests/wire/test_websocket_bounds.py` attacks it.
"""

import base64
import binascii
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import anyio
from anyio.lowlevel import checkpoint
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import SERVER, Event, Protocol, State
from websockets.utils import accept_key

from limpet.ingress.limits import ConnectionLimits
from limpet.ingress.memory import MemoryBudget, MemoryLease
from limpet.ingress.refusals import Refusal
from limpet.ingress.takeover import RawConnection

VERSION = "13"
# So much is read at a stretch: frames may have 6 bytes, and a long row of them would hold up all other clients. Within a large frame it
# may be more.
_SLICE = 1024
_LARGE_SLICE = 16 * 1024
_LARGE = 64 * 1024
_WRITE_AT_ONCE = 64 * 1024
_LONGEST_REASON = 123  # bytes (RFC 6455, 5.5)
# After our end of the connection the client is given so long, and may send so much, until it is cut: what closes at once is reset, and
# the client would not see why.
LINGER_SECONDS = 2.0
MAX_LINGER_BYTES = 4 * 1024 * 1024


class WebSocketClosed(Exception):
    """Nothing more can be received or sent."""


def handshake(headers: Mapping[str, Sequence[str]]) -> bytes | Refusal:
    """The head of the answer to an upgrade (RFC 6455, 4.2), or why it is none. `headers` by lower-case name, all values of each."""
    if ",".join(headers.get("sec-websocket-version", ())).strip() != VERSION:
        return Refusal(426, "upgrade_required", f"Only version {VERSION} of WebSocket is spoken here.")
    keys = headers.get("sec-websocket-key", ())
    try:
        is_key = len(keys) == 1 and len(base64.b64decode(keys[0].strip().encode(), validate=True)) == 16
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key:
        return Refusal(400, "invalid_handshake", "Sec-WebSocket-Key must be 16 bytes in base64, once.")
    lines = (
        b"HTTP/1.1 101 Switching Protocols",
        b"connection: Upgrade",
        b"upgrade: websocket",
        b"sec-websocket-accept: " + accept_key(keys[0].strip()).encode(),
    )
    return b"\r\n".join(lines) + b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class TextMessage:
    """A whole message. Its bytes count as held until `release`."""

    payload: bytes
    holding: MemoryLease

    def release(self) -> None:
        self.holding.release()


class WebSocket:
    """One connection. `owner` is charged in `memory` for messages that are not whole or not released; where that is too much the
    connection is cut. `reading` is shared by all connections: of what has arrived one of them reads a slice at a time. `receive` is for
    one task at a time, `send` for any number."""

    def __init__(
        self,
        connection: RawConnection,
        *,
        memory: MemoryBudget,
        owner: str,
        reading: anyio.Lock,
        limits: ConnectionLimits,
        max_message_bytes: int,
    ) -> None:
        self._connection = connection
        self._reading = reading
        self._memory = memory
        self._owner = owner
        self._limits = limits
        self._protocol = Protocol(SERVER, max_size=max_message_bytes)
        self._unread = memoryview(b"")
        self._frames: deque[Event] = deque()
        self._message = bytearray()
        self._partial = 0  # bytes since the last whole frame
        self._holding: MemoryLease | None = None
        self._writing = anyio.Lock(fast_acquire=True)
        self._window_began = 0.0
        self._window_bytes = 0

    async def receive(self) -> TextMessage:
        """The next message. Raises WebSocketClosed where the client has ended, is gone, or broke a rule; it has been told then."""
        while True:
            while self._frames:
                message = await self._take(self._frames.popleft())
                if message is not None:
                    return message
            await self._feed()

    async def send(self, payloads: Iterable[bytes]) -> None:
        """Each payload as one text message; waits while the client does not read. Raises WebSocketClosed."""
        async with self._writing:
            written = 0
            for payload in payloads:
                if self._protocol.state is not State.OPEN:
                    raise WebSocketClosed
                self._protocol.send_text(payload)
                written += len(payload)
                if written > _WRITE_AT_ONCE:
                    await self._flush()
                    written = 0
            await self._flush()

    async def ping(self) -> None:
        """Raises WebSocketClosed."""
        async with self._writing:
            if self._protocol.state is not State.OPEN:
                raise WebSocketClosed
            self._protocol.send_ping(b"")
            await self._flush()

    async def close(self, code: int, reason: str = "") -> None:
        """Tell the client, wait a moment for it to see it, and end the connection. Never raises."""
        said = reason.encode()[:_LONGEST_REASON].decode(errors="ignore")
        with anyio.move_on_after(LINGER_SECONDS):
            try:
                async with self._writing:
                    if self._protocol.state is State.OPEN:
                        self._protocol.fail(code, said)
                    await self._flush()
                self._connection.end()
                read = 0
                while read < MAX_LINGER_BYTES and (data := await self._connection.read()):
                    read += len(data)
            except (OSError, WebSocketClosed):
                pass  # it is gone
        self._connection.close()
        self.release()

    def release(self) -> None:
        """Give up what is held of a message that will not become whole."""
        self._message = bytearray()
        if self._holding is not None:
            self._holding.release()
            self._holding = None

    async def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        try:
            if data:
                await self._connection.write(data)
        except OSError as gone:
            raise WebSocketClosed from gone

    async def _feed(self) -> None:
        if not self._unread:
            self._unread = memoryview(await self._read())
        else:
            async with self._reading:
                await checkpoint()
        size = _LARGE_SLICE if self._partial > _LARGE else _SLICE
        piece, self._unread = bytes(self._unread[:size]), self._unread[size:]
        if not piece:
            raise WebSocketClosed
        self._protocol.receive_data(piece)
        frames = self._protocol.events_received()
        self._frames.extend(frames)
        self._partial = 0 if frames else self._partial + len(piece)
        self._hold()
        if self._protocol.state is not State.OPEN:
            await self.close(self._protocol.close_code or CloseCode.PROTOCOL_ERROR)
            raise WebSocketClosed
        if self._protocol.writes:  # answers to pings
            async with self._writing:
                await self._flush()

    async def _read(self) -> bytes:
        """The next bytes; while a message arrives, no slower than a body may."""
        if not self._is_arriving:
            data = await self._connection.read()
            self._window_began, self._window_bytes = anyio.current_time(), len(data)
            return data
        window = self._limits.body_timeout_secs
        data = b""
        with anyio.move_on_at(self._window_began + window):
            data = await self._connection.read()
            self._window_bytes += len(data)
            if anyio.current_time() < self._window_began + window:
                return data
        if self._window_bytes < window * self._limits.min_bytes_per_sec:
            await self.close(CloseCode.POLICY_VIOLATION, "the message came too slowly")
            raise WebSocketClosed
        self._window_began, self._window_bytes = anyio.current_time(), 0
        return data or await self._read()

    @property
    def _is_arriving(self) -> bool:
        return bool(self._message) or self._partial > 0

    async def _take(self, frame: Event) -> TextMessage | None:
        assert isinstance(frame, Frame), "after the handshake there are frames only"
        if frame.opcode is Opcode.BINARY:
            await self.close(CloseCode.UNSUPPORTED_DATA, "messages are JSON in text frames")
            raise WebSocketClosed
        if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return None
        if frame.fin and not self._message:
            payload = bytes(frame.data)
        else:
            self._message += frame.data
            self._hold()
            if not frame.fin:
                return None
            payload, self._message = bytes(self._message), bytearray()
        holding = self._holding or self._memory.hold(self._owner, self._connection.abort)
        self._holding = None
        return TextMessage(payload, holding)

    def _hold(self) -> None:
        """Charge what has arrived of a message."""
        size = len(self._message) + self._partial
        if size == 0:
            return
        if self._holding is None:
            self._holding = self._memory.hold(self._owner, self._connection.abort)
        if (more := size - self._holding.size) > 0:
            self._holding.add(more)

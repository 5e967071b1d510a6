"""Connected sockets as byte streams, with what was read ahead of them, and the relay of one to another."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute, TLSStream

from limpet.core.turns import Turns
from limpet.egress.http_heads import END, MOST_HEAD, MalformedHttp

PIECE = 1 << 17
_SHARED = threading.local()


def _shared_buffer() -> memoryview:
    """One for all connections of this thread: a connection that fills it empties it before it waits, so that those which wait hold none."""
    buffer: memoryview | None = getattr(_SHARED, "buffer", None)
    if buffer is None:
        buffer = _SHARED.buffer = memoryview(bytearray(PIECE))
    return buffer


class SocketStream(ByteStream):
    """Owns a connected, non-blocking TCP socket. A reset by the other side is the end of what it sent."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        with suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connected
        self._reads, self._writes = Turns(), Turns()

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        await self._reads.take()
        while True:
            try:
                data = self.socket.recv(max_bytes)
            except (BlockingIOError, InterruptedError):
                await self._readable()
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            return data

    async def pass_to(self, other: "SocketStream") -> int:
        """Pass on what has arrived, or what comes next; how many bytes that was, 0 at the end. OSError where this side is gone, and
        BrokenResourceError where the other is."""
        buffer = _shared_buffer()
        await self._reads.take()
        while True:
            try:
                count = self.socket.recv_into(buffer)
                break
            except (BlockingIOError, InterruptedError):
                await self._readable()
        if (sent := other.send_now(buffer[:count])) < count:
            await other.send(bytes(buffer[sent:count]))
        return count

    async def _readable(self) -> None:
        loop, number = asyncio.get_running_loop(), self.socket.fileno()
        readable = loop.create_future()
        loop.add_reader(number, _set, readable)
        try:
            await readable
            self._reads.waited()
        finally:
            if self.socket.fileno() >= 0:
                loop.remove_reader(number)

    def send_now(self, data: memoryview) -> int:
        """How much of it could be sent without waiting. BrokenResourceError."""
        try:
            return self.socket.send(data) if data else 0
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def send(self, item: bytes | memoryview) -> None:
        await self._writes.take()
        if (sent := self.send_now(memoryview(item))) == len(item):
            return
        try:
            await asyncio.get_running_loop().sock_sendall(self.socket, memoryview(item)[sent:])
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Twice is quiet."""
        number = self.socket.fileno()
        if number < 0:
            return
        # A call that was cancelled just now is still registered with the loop. Left there it would, when it is cleared, take away the
        # registration of the next socket with this descriptor's number (CPython 3.11, selector_events._sock_read_done).
        # By its number: an error that is caught there would show a socket with its addresses, and ask the kernel for them.
        loop = asyncio.get_running_loop()
        loop.remove_reader(number)
        loop.remove_writer(number)
        self.socket.close()


def _set(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


class ReadAhead(ByteStream):
    """A stream that was read further than what was wanted: what is left of that comes first. `received` counts all bytes."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self._buffer = bytearray()
        self.received = 0
        self.sent = 0

    async def peek(self, count: int) -> bytes:
        """All that has arrived, at least `count` bytes unless the stream ends before; nothing is taken."""
        while len(self._buffer) < count:
            if not (piece := await self._more()):
                break
            self._buffer += piece
        return bytes(self._buffer)

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        if self._buffer:
            taken = bytes(self._buffer[:max_bytes])
            del self._buffer[: len(taken)]
            return taken
        if not (piece := await self._more(max_bytes)):
            raise anyio.EndOfStream
        return piece

    async def some(self, most: int) -> bytes:
        """As `receive`, with nothing at the end."""
        try:
            return await self.receive(most)
        except anyio.EndOfStream:
            return b""

    async def head(self) -> bytes | None:
        """An HTTP head with its empty line; None where the stream ends before its first byte. Raises MalformedHttp."""
        searched = 0
        while (end := self._buffer.find(END, max(0, searched - len(END)))) < 0:
            searched = len(self._buffer)
            if searched > MOST_HEAD:
                raise MalformedHttp("head too long")
            if not (piece := await self._more()):
                if not self._buffer:
                    return None
                raise MalformedHttp("head broken off")
            self._buffer += piece
        return self._taken(end + len(END))

    async def line(self, most: int = 4096) -> bytes:
        """A line without its CR LF. Raises MalformedHttp."""
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > most or not (piece := await self._more()):
                raise MalformedHttp("line")
            self._buffer += piece
        return self._taken(end + 2)[:-2]

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    async def _more(self, most: int = 65_536) -> bytes:
        try:
            piece = await self.stream.receive(most)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError):
            return b""
        if isinstance(self.stream, TLSStream) and len(piece) < most:
            piece += _decrypted(self.stream, most - len(piece))
        self.received += len(piece)
        return piece

    async def send(self, item: bytes | memoryview) -> None:
        try:
            await self.stream.send(item)  # type: ignore[arg-type]  # streams of sockets and of TLS take any buffer
        except ssl.SSLError as error:
            raise anyio.BrokenResourceError from error
        self.sent += len(item)

    async def send_eof(self) -> None:
        with suppress(NotImplementedError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.stream.send_eof()

    async def aclose(self) -> None:
        await self.stream.aclose()

    async def give_to(self, other: "ReadAhead", moved: Callable[[], None]) -> None:
        """Pass on all that comes until its end, which is passed on too; `moved` is called after each piece. Raises
        BrokenResourceError where either side is gone."""
        if self._buffer:
            await other.send(self._taken(len(self._buffer)))
        if isinstance(self.stream, SocketStream) and isinstance(other.stream, SocketStream):
            await self._pump(self.stream, other, other.stream, moved)
        else:
            while piece := await self.some(PIECE):
                await other.send(piece)
                moved()
        await other.send_eof()

    async def _pump(
        self, source: SocketStream, other: "ReadAhead", sink: SocketStream, moved: Callable[[], None]
    ) -> None:
        while True:
            try:
                count = await source.pass_to(sink)
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not count:
                return
            self.received += count
            other.sent += count
            moved()


def _decrypted(stream: TLSStream, most: int) -> bytes:
    """What has arrived behind a record: TLS gives one record of 16 KiB at a time, and each piece costs the same, however small."""
    records: ssl.SSLObject = stream.extra(TLSAttribute.ssl_object)
    pieces: list[bytes] = []
    with suppress(ssl.SSLError):  # no more has arrived, or there is an end, which the next call meets too
        while most > 0 and (piece := records.read(most)):
            pieces.append(piece)
            most -= len(piece)
    return b"".join(pieces)


async def relay(one: ReadAhead, other: ReadAhead, moved: Callable[[], None]) -> None:
    """Carry bytes both ways until both have ended, or either breaks off."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ExceptionGroup):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.give_to, other, moved)
            tasks.start_soon(other.give_to, one, moved)

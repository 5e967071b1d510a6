"""One HTTP exchange with a server in a container, over a connection of its own that ends with it: no answer can be taken for another's.

The server is as untrusted as any command. Its head is bounded in size and time, its body is passed on piece by piece as the client takes
it, and it may not be silent for long. h11 frames both directions, so that no byte of a body is ever read as a head.
"""

import socket
from collections.abc import AsyncIterator, Sequence

import anyio
import h11

from limpet.core.turns import Turns
from limpet.ingress.takeover import RawConnection
from limpet.server.port_headers import Header

MOST_HEAD_BYTES = 64 * 1024
MOST_HEADERS = 256
MOST_INFORMED = 16  # answers with a status of 1xx, before the one that counts
HEAD_SECONDS = 120.0  # from the end of the request to the end of the answer's head
IDLE_SECONDS = 300.0  # without a byte from either side
HALF_CLOSED_SECONDS = 30.0  # the same where the client has said that it sends no more
_PIECE = 64 * 1024
_MOST_SHOWN = 200  # characters of what is wrong, which may quote the server


class BadAnswer(Exception):
    """The server in the container broke the rules of HTTP or of this module, or was silent for too long; the text says how."""


class BoxSocket:
    """A connection to a port, which the caller closes."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._reads, self._writes = Turns(), Turns()

    async def read(self) -> bytes:
        """The next bytes; empty at the end. OSError."""
        await self._reads.take()
        while True:
            try:
                return self._socket.recv(_PIECE)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)

    async def write(self, data: bytes) -> None:
        """All of it. OSError."""
        await self._writes.take()
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    def end(self) -> None:
        """Send no more; the other direction stays. OSError."""
        self._socket.shutdown(socket.SHUT_WR)


class PortExchange:
    """A request and its answer, whose head may take `head_seconds` from the end of the request."""

    def __init__(self, connection: BoxSocket, *, head_seconds: float = HEAD_SECONDS) -> None:
        self._connection = connection
        self._head_seconds = head_seconds
        self._turns = Turns()
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD_BYTES)

    async def send_head(self, method: bytes, target: bytes, headers: Sequence[Header]) -> None:
        """ValueError where these cannot be a request; OSError."""
        try:
            head = self._http.send(h11.Request(method=method, target=target, headers=list(headers)))
        except h11.LocalProtocolError as error:
            raise ValueError(str(error)) from error
        await self._connection.write(head or b"")

    async def send_body(self, pieces: AsyncIterator[bytes] | None = None) -> None:
        """And the request's end. ValueError where they are more or fewer than was announced; OSError."""
        try:
            if pieces is not None:
                async for piece in pieces:
                    await self._connection.write(self._http.send(h11.Data(data=piece)) or b"")
            await self._connection.write(self._http.send(h11.EndOfMessage()) or b"")
        except h11.LocalProtocolError as error:
            raise ValueError(str(error)) from error

    async def head(self) -> h11.Response | h11.InformationalResponse:
        """The answer's head; of an upgrade the informational 101, behind which no HTTP is spoken. Raises BadAnswer; OSError."""
        try:
            with anyio.fail_after(self._head_seconds):
                for _ in range(MOST_INFORMED):
                    event = await self._next()
                    if isinstance(event, h11.Response) or (
                        isinstance(event, h11.InformationalResponse) and event.status_code == 101
                    ):
                        break
                    if not isinstance(event, h11.InformationalResponse):
                        raise BadAnswer("closed the connection without an answer")
                else:
                    raise BadAnswer(f"sent more than {MOST_INFORMED} informational answers")
        except TimeoutError as error:
            raise BadAnswer(f"did not answer within {self._head_seconds:g} s") from error
        _check_head(event)
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """The pieces of the answer's body. Raises BadAnswer; OSError."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise BadAnswer("broke off its answer")

    def beyond(self) -> bytes:
        """What came behind the head of an upgrade."""
        return bytes(self._http.trailing_data[0])

    async def _next(self) -> object:
        await self._turns.take()  # also while what has arrived holds events still
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                with anyio.fail_after(IDLE_SECONDS):
                    self._http.receive_data(await self._connection.read())
        except h11.RemoteProtocolError as error:
            raise BadAnswer(f"sent what is no valid HTTP: {str(error)[:_MOST_SHOWN]}") from error
        except TimeoutError as error:
            raise BadAnswer(f"was silent for {IDLE_SECONDS:g} s") from error
        return event


def _check_head(head: h11.Response | h11.InformationalResponse) -> None:
    """h11 bounds a head only while it is incomplete, and takes one that says its length in two ways. Raises BadAnswer."""
    size = sum(len(name) + len(value) + len(": \r\n") for name, value in head.headers)
    if len(head.headers) > MOST_HEADERS or size > MOST_HEAD_BYTES:
        raise BadAnswer(f"sent a head of more than {MOST_HEADERS} headers or {MOST_HEAD_BYTES} bytes")
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in head.headers}:
        raise BadAnswer("said the length of its answer in two ways")


async def tunnel(client: RawConnection, box: BoxSocket) -> None:
    """Carry bytes both ways until the server has ended, one side is gone, or nothing came for IDLE_SECONDS; for HALF_CLOSED_SECONDS where
    the client sends no more, since one that is gone may look like that."""
    with anyio.CancelScope() as open_while_used:
        client_has_ended = False

        def used() -> None:
            allowed = HALF_CLOSED_SECONDS if client_has_ended else IDLE_SECONDS
            open_while_used.deadline = anyio.current_time() + allowed

        async def into_the_box() -> None:
            nonlocal client_has_ended
            while data := await client.read():
                used()
                await box.write(data)
            box.end()
            client_has_ended = True
            used()
            if client.is_gone:
                open_while_used.cancel()

        async def out_of_the_box() -> None:
            while data := await box.read():
                used()
                await client.write(data)

        async def carry(there: bool) -> None:
            try:
                await (into_the_box() if there else out_of_the_box())
            except OSError:
                open_while_used.cancel()  # one end is gone
            if not there:
                open_while_used.cancel()  # the server has ended: nothing can answer what still comes

        used()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(carry, True)
            tasks.start_soon(carry, False)
    client.close()

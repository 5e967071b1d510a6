"""The host's end of a connection to an agent. Whatever a box sends is checked before it is believed.

What comes is taken as the loop sees it; requests wait for their reply, readers for their output. A frame that cannot be ends the
connection, and everything that waited hears that the sandbox is gone.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import anyio
from anyio.abc import TaskGroup

from limpet.core.command import Aborted, Chunk, Exited, Lost, Outcome, Position, TimedOut
from limpet.core.errors import SandboxGone
from limpet.runtimes.bubblewrap.awaited import Pouring, Reading, Reply
from limpet.runtimes.bubblewrap.inside import wire
from limpet.runtimes.bubblewrap.inside.process import ABORTED, EXITED, TIMED_OUT

_RECEIVE = 1 << 18
_HEAD = wire.HEADER.size + wire.CHUNK.size  # bytes that go before output
_MUCH = 1 << 14  # bytes of output in one frame that are handed on before all are there
_NOTED = 10_000  # processes with notes
_NOTES = 16  # of one process, and how long each may be
_NOTE_LIMIT = 500
_DROPPED = "That part of the command's output was let go of already."
_BROKEN = "It broke the protocol: {}."


class Client:
    """A connection to one agent. `run` serves it until it breaks or `close` is called; then `gone` says why."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._in = bytearray(wire.TO_HOST_LIMIT + wire.HEADER.size)
        self._held = 0  # bytes of it that are not taken yet
        self._room = _RECEIVE  # bytes of it to fill next
        self._pouring: Pouring | None = None
        self._out = bytearray()
        self._writable = anyio.Event()
        self._next = 1
        self._replies: dict[int, Reply] = {}
        self._readings: dict[int, Reading] = {}
        self._endings: dict[int, Callable[[Outcome], None]] = {}
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = anyio.Event()
        self._failure: Exception | None = None
        self.notes: dict[int, list[str]] = {}  # by process, of those that ran into bounds
        self.gone: str | None = None

    async def run(self, tasks: TaskGroup) -> bool:
        """Receive until the end; one more task sends what the socket did not take at once. True if `close` ended it."""
        tasks.start_soon(self._keep_sending)
        # anyio would take the socket out of the loop after each time that something came: a tenth of a short command's time.
        self._loop = asyncio.get_running_loop()
        if self.gone is None:
            self._loop.add_reader(self._socket, self._hear)
        try:
            await self._over.wait()
        finally:
            closed = self._closed
            self.close()
        if self._failure is not None:
            raise self._failure
        return closed

    def _hear(self) -> None:
        """Something has come."""
        try:
            self._receive()
        except (wire.BadFrame, struct.error) as error:
            self._end(_BROKEN.format(error))
        except OSError:
            self._end("Its agent does not answer any more.")
        except Exception as error:  # noqa: BLE001 - a fault of ours: `run` raises it, where the loop would only log it
            self._failure = error
            self._end("Its answer was not understood.")

    def close(self, reason: str = "It was let go of.") -> None:
        """Close the connection; everybody who waits gets SandboxGone. Twice is quiet."""
        self._closed = True
        self._end(reason)
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()

    def _end(self, reason: str) -> None:
        if self.gone is not None:
            return
        self.gone = reason
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
        self._over.set()
        self._writable.set()
        for reply in self._replies.values():
            reply.arrived.set()
        for reading in self._readings.values():
            reading.wake()
        for tell in self._endings.values():
            tell(Lost(f"The sandbox is gone. {reason}"))

    def raise_gone(self) -> NoReturn:
        raise SandboxGone(self.gone or "Its agent does not answer any more.")

    async def request(
        self,
        kind: int,
        values: Mapping[str, object],
        *,
        payload: bytes | None = None,
        heard: Callable[[Reply], None] | None = None,
        ahead: Reading | None = None,
    ) -> Reply:
        """Ask, and wait for the answer. What `heard` takes from it, it takes before the next frame comes. Raises SandboxGone."""
        number = self._number()
        reply = self._replies[number] = Reply(heard=heard, ahead=ahead)
        try:
            self.post(kind, number, wire.encode(dict(values)) if payload is None else payload)
            await reply.arrived.wait()
        finally:
            self._replies.pop(number, None)
        if self.gone is not None and not reply.values and not reply.refused:
            self.raise_gone()
        return reply

    def _number(self) -> int:
        self._next = self._next % 0x7FFFFFFF + 1
        return self._next

    def post(self, kind: int, number: int, payload: bytes) -> None:
        """Send a frame; what the socket does not take now follows. Raises SandboxGone."""
        if self.gone is not None:
            self.raise_gone()
        self._out += wire.frame(kind, number, payload)
        self._send_some()

    def post_soon(self, kind: int, number: int, payload: bytes) -> None:
        """Send a frame with the next one, or when the caller has gone on. Raises SandboxGone."""
        if self.gone is not None:
            self.raise_gone()
        self._out += wire.frame(kind, number, payload)
        if self._loop is None:
            self._writable.set()
        else:
            self._loop.call_soon(self._send_some)

    def _send_some(self) -> None:
        try:
            while self._out and self.gone is None:
                sent = self._socket.send(memoryview(self._out)[:_RECEIVE])
                del self._out[:sent]
        except BlockingIOError:
            self._writable.set()
        except OSError:
            self._end("Its agent does not answer any more.")

    async def _keep_sending(self) -> None:
        while self.gone is None:
            await self._writable.wait()
            self._writable = anyio.Event()
            self._send_some()
            while self._out and self.gone is None:
                try:
                    await anyio.wait_writable(self._socket)
                except (anyio.ClosedResourceError, OSError, ValueError):
                    return
                self._send_some()

    def _receive(self) -> None:
        try:
            is_open = self._pouring is not None or self._take_in()
            if is_open and self._pouring is not None:
                is_open = self._pour(self._pouring)
        except BlockingIOError:
            return
        if not is_open:
            self._end("It ended.")

    def _take_in(self) -> bool:
        """Receive what there is, and take every whole frame; False at the end."""
        with memoryview(self._in) as view:
            received = self._socket.recv_into(view[self._held : self._held + self._room])
        self._room = _RECEIVE
        self._held += received
        self._take_all()
        return received > 0

    def _pour(self, pouring: Pouring) -> bool:
        """Receive more of a frame of much output, into the very bytes that are handed on; False at the end."""
        data = self._socket.recv(min(pouring.left, _RECEIVE))
        self._hand_on(pouring, data)
        if not pouring.left:
            self._pouring = None
            self._room = _HEAD  # no more than what goes before the next one, so that this is copied once too
        return bool(data)

    def _hand_on(self, pouring: Pouring, data: bytes) -> None:
        if data and (reading := self._readings.get(pouring.reader)) is not None:
            reading.take(pouring.stream, pouring.offset, data)
        pouring.offset += len(data)
        pouring.left -= len(data)

    def _take_all(self) -> None:
        """Every whole frame of what has come; the rest moves to the front."""
        at = 0
        with memoryview(self._in) as view:
            while self._held - at >= wire.HEADER.size:
                kind, number, length = wire.HEADER.unpack_from(view, at)
                if length > wire.TO_HOST_LIMIT:
                    raise wire.BadFrame(f"a frame of {length} bytes")
                begin, end = at + wire.HEADER.size, at + wire.HEADER.size + length
                if end > self._held:
                    if kind == wire.DATA and length >= _MUCH and self._held - at >= _HEAD:
                        stream, offset = wire.CHUNK.unpack_from(view, begin)
                        self._pouring = Pouring(number, stream, offset, end - at - _HEAD)
                        self._hand_on(self._pouring, bytes(view[at + _HEAD : self._held]))
                        at = self._held
                    break
                self._take(kind, number, view[begin:end])
                at = end
            if at:
                view[: self._held - at] = view[at : self._held]
        self._held -= at

    def _take(self, kind: int, number: int, piece: memoryview) -> None:
        if kind == wire.DATA:
            self._take_output(number, piece)
            return
        if kind == wire.DONE:
            self._take_done(number, piece)
            return
        payload = bytes(piece)
        match kind:
            case wire.READ_END:
                if (reading := self._readings.pop(number, None)) is not None:
                    reading.has_all = True
                    reading.wake()
            case wire.ENDED:
                ended = wire.decode(payload)
                self.keep_notes(number, ended)
                self._take_ending(number, outcome_of(ended))
            case wire.REPLY | wire.REFUSED:
                if (reply := self._replies.get(number)) is not None:
                    reply.values = {"": None, **wire.decode(payload)}
                    reply.refused = kind == wire.REFUSED
                    if reply.heard is not None:
                        reply.heard(reply)
                    reply.arrived.set()
                elif (reading := self._readings.pop(number, None)) is not None:
                    reading.was_dropped = True
                    reading.wake()
            case _:
                raise wire.BadFrame(f"a frame of kind {kind}")

    def _take_output(self, number: int, payload: memoryview) -> None:
        reading = self._readings.get(number)
        if reading is None:
            return  # the reader left while this was on its way
        stream, offset = wire.CHUNK.unpack_from(payload)
        reading.take(stream, offset, bytes(payload[wire.CHUNK.size :]))

    def _take_done(self, number: int, payload: memoryview) -> None:
        """A command that was started has ended already, and all of its output is here."""
        reply = self._replies.get(number)
        if reply is None:
            return  # whoever started it was cancelled before he heard of it
        process, outcome, code, printed = wire.DONE_HEAD.unpack_from(payload)
        outputs = bytes(payload[wire.DONE_HEAD.size :])
        if reply.ahead is None or outcome >= len(wire.OUTCOMES) or printed > len(outputs):
            raise wire.BadFrame("an end of what was not started")
        for stream, data in ((1, outputs[:printed]), (2, outputs[printed:])):
            if data:
                reply.ahead.take(stream, 0, data)
        reply.ahead.has_all = True
        self._readings.pop(reply.ahead.number, None)
        reply.values = {"process": process, "ahead": True, "outcome": wire.OUTCOMES[outcome], "code": code}
        if reply.heard is not None:
            reply.heard(reply)
        reply.arrived.set()

    def _take_ending(self, process: int, outcome: Outcome) -> None:
        if (tell := self._endings.pop(process, None)) is not None:
            tell(outcome)
        # Else whoever started it was cancelled before he heard of it.

    def keep_notes(self, process: int, values: Mapping[str, object]) -> None:
        """What an answer says about bounds that this process ran into, until it is forgotten."""
        match values.get("notes"):
            case [*notes] if notes and len(self.notes) < _NOTED:
                self.notes[process] = [str(note)[:_NOTE_LIMIT] for note in notes[:_NOTES]]

    def follow(self, process: int, tell: Callable[[Outcome], None]) -> None:
        """Call `tell` once when that process ends, or with Lost when the connection does. Its end comes after the answer that names
        it, so this is called while that answer is heard."""
        if self.gone is not None:
            tell(Lost(self.gone))
        else:
            self._endings[process] = tell

    def expect_ahead(self) -> Reading:
        """A reading that a start shall come with."""
        number = self._number()
        reading = self._readings[number] = Reading(number, credit=wire.AHEAD, ahead=True)
        return reading

    async def open_reading(self, process: int, since: Position) -> Reading:
        """Begin to read a process's output. Raises SandboxGone."""
        number = self._number()
        reading = self._readings[number] = Reading(number, since)
        asked = {"reader": reading.number, "process": process, "stdout": since.stdout, "stderr": since.stderr}
        try:
            reply = await self.request(wire.READ, asked)
        except BaseException:
            self.close_reading(reading)
            raise
        if reply.refused:
            self.close_reading(reading)
            raise SandboxGone(_DROPPED)
        return reading

    async def next_chunk(self, reading: Reading) -> Chunk | None:
        """What comes next; None at the end. Raises SandboxGone."""
        while not reading.chunks:
            if reading.has_all:
                return None
            if reading.was_dropped:
                raise SandboxGone(_DROPPED)
            if self.gone is not None:
                self.raise_gone()
            if reading.arrived is None or reading.arrived.is_set():
                reading.arrived = anyio.Event()
            await reading.arrived.wait()
        return reading.chunks.popleft()

    def grant(self, reading: Reading, amount: int) -> None:
        """Let so many more bytes come."""
        if self.gone is None and reading.number in self._readings:
            reading.credit += amount
            reading.ahead = False
            self.post(wire.GRANT, reading.number, wire.NUMBER.pack(amount))

    def close_reading(self, reading: Reading) -> None:
        """Stop reading; the process runs on without this reader. Twice is quiet."""
        if self._readings.pop(reading.number, None) is not None and self.gone is None:
            self.post(wire.UNREAD, reading.number, b"")


def connect(path: Path) -> Client:
    """A connection to the agent that listens there. Raises SandboxGone at once if none does."""
    try:
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxGone("Its socket is not there any more.") from error
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        # Through a descriptor: the path of a socket has room for 108 bytes only.
        connected.connect(f"/proc/self/fd/{directory}/{path.name}")
    except OSError as error:
        connected.close()
        raise SandboxGone("Nobody answers at its socket any more.") from error
    finally:
        os.close(directory)
    return Client(connected)


def extent_of(values: Mapping[str, object]) -> tuple[Position, Position]:
    """Where a process's output begins and ends, as the agent tells it; nothing at all where that cannot be."""
    match values.get("kept"):
        case [int(out), int(out_end), int(error), int(error_end)] if 0 <= out <= out_end and 0 <= error <= error_end:
            return Position(stdout=out, stderr=error), Position(stdout=out_end, stderr=error_end)
        case _:
            return Position(), Position()


def outcome_of(values: Mapping[str, object]) -> Outcome:
    """An outcome as the agent tells it. BadFrame for one that cannot be."""
    kind, code = values.get("outcome"), values.get("code")
    if kind == TIMED_OUT:
        return TimedOut()
    if kind == ABORTED:
        return Aborted()
    if kind == EXITED and isinstance(code, int) and 0 <= code <= 255:
        return Exited(code)
    raise wire.BadFrame("an outcome that cannot be")

"""The host's end of a connection to an agent: a socket around `protocol`, and those who wait for its events.

What comes is taken as the loop sees it. The first thing that cannot be ends the connection: everything that waited hears that the
sandbox is gone, and nothing that came behind it is looked at.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import anyio

from limpet.core.command import Chunk, Lost, Outcome, Position
from limpet.core.errors import SandboxGone
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client.events import (
    Answer,
    Broken,
    CommandStarted,
    Described,
    Ended,
    Event,
    Greeted,
    Output,
    OutputDropped,
    OutputEnded,
    RequestRefused,
)
from limpet.runtimes.agent_client.pending import AnswerOverdue, OutputSubscription, Pending
from limpet.runtimes.agent_client.protocol import RECEIVE, AgentProtocol
from limpet.runtimes.agent_client.values import LARGEST

_NOTED = 1 << 18  # characters of notes, of all processes together
_UNSENT = 256 << 20  # bytes
_DROPPED = "That part of the command's output was let go of already."
_BROKEN = "It broke the protocol: {}."
_SILENT = "Its agent does not answer any more."


class Client:
    """A connection to one agent. `serve` reads it until it breaks or `close` is called, `keep_sending` sends what the socket did not
    take at once; then `gone` says why it ended."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._protocol = AgentProtocol()
        self._out = bytearray()
        self._writable = anyio.Event()
        self._pending: dict[int, Pending] = {}
        self._readings: dict[int, OutputSubscription] = {}
        self._endings: dict[int, Callable[[Outcome], None]] = {}
        self._notes: dict[int, tuple[str, ...]] = {}  # by process, of those that ran into bounds
        self._noted = 0
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = anyio.Event()
        self._failure: Exception | None = None
        self.has_lied = False  # whether it ended because of what the agent sent
        self.gone: str | None = None

    async def serve(self) -> bool:
        """Receive until the end. True if `close` ended it. Raises what a fault of ours raised while an event was handled."""
        # anyio would take the socket out of the loop after each time that something came: a tenth of a short command's time.
        self._loop = asyncio.get_running_loop()
        if self.gone is None:
            self._loop.add_reader(self._socket, self._hear)
        try:
            await self._over.wait()
        finally:
            # Where this is cancelled, the canceller closes the connection and gives the reason.
            if self.gone is None:
                self._loop.remove_reader(self._socket)
        closed = self._closed
        self.close()
        if self._failure is not None:
            raise self._failure
        return closed

    def close(self, reason: str = "It was let go of.") -> None:
        """Close the connection; every caller that waits gets SandboxGone. Idempotent."""
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
        self._out = bytearray()
        for pending in self._pending.values():
            pending.arrived.set()
        for reading in self._readings.values():
            reading.wake()
        endings, self._endings = self._endings, {}
        for tell in endings.values():
            tell(Lost(f"The sandbox is gone. {reason}"))

    def raise_gone(self) -> NoReturn:
        """Raises SandboxGone, with the reason for which the connection ended."""
        raise SandboxGone(self.gone or _SILENT)

    # What comes

    def _hear(self) -> None:
        """Something has come. Where it was only the head of much output, what it announces is behind it already: a turn of the loop
        costs more than to look."""
        if self._receive() and self._protocol.is_in_output:
            self._receive()

    def _receive(self) -> bool:
        """Take what there is. True where it brought nothing yet."""
        try:
            data = self._socket.recv(self._protocol.wants)
        except BlockingIOError:
            return False
        except OSError:
            self._end(_SILENT)
            return False
        if not data:
            self._end("It ended.")
            return False
        try:
            events = self._protocol.receive(data)
            for event in events:
                if self.gone is not None:
                    return False
                self._take(event)
        except Exception as error:  # noqa: BLE001 - a fault of ours: `serve` raises it, where the loop would only log it
            self._failure = error
            self._end("Its answer was not understood.")
            return False
        return not events

    def _take(self, event: Event) -> None:
        match event:
            case Output(number, chunk):
                if (reading := self._readings.get(number)) is not None:
                    reading.put(chunk)
            case OutputEnded(number) | OutputDropped(number):
                if (reading := self._readings.pop(number, None)) is not None:
                    reading.has_all = isinstance(event, OutputEnded)
                    reading.was_dropped = not reading.has_all
                    reading.wake()
            case Ended(process, outcome, notes):
                self._keep_notes(process, notes)
                if (tell := self._endings.pop(process, None)) is not None:
                    tell(outcome)
            case Broken(reason):
                self.has_lied = True
                self._end(_BROKEN.format(reason))
            case _:
                self._take_answer(event)

    def _take_answer(self, answer: Answer) -> None:
        if isinstance(answer, CommandStarted | Described):
            self._keep_notes(answer.process, answer.notes)
        pending = self._pending.pop(answer.request, None)
        if pending is None:
            return  # the caller was cancelled before the answer arrived
        pending.answer = answer
        if pending.heard is not None:
            pending.heard(answer)
        pending.arrived.set()

    def _keep_notes(self, process: int, notes: tuple[str, ...]) -> None:
        self.drop_notes(process)
        size = sum(map(len, notes))
        if notes and self._noted + size <= _NOTED:
            self._notes[process] = notes
            self._noted += size

    def drop_notes(self, process: int) -> None:
        self._noted -= sum(map(len, self._notes.pop(process, ())))

    def notes(self, process: int) -> tuple[str, ...]:
        """What was said about bounds that this process ran into, until they are dropped."""
        return self._notes.get(process, ())

    # What is asked

    async def greet(self, boot_id: str, *, within: float) -> None:
        """Return once the agent of that boot has answered, in so many seconds. Raises SandboxGone; the connection is closed then."""
        try:
            with anyio.fail_after(within):
                answer = await self.ask(wire.HELLO, {"version": wire.VERSION})
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise SandboxGone(f"Its agent did not answer within {within:.0f} s.") from error
            raise
        if not isinstance(answer, Greeted) or (answer.version, answer.boot_id) != (wire.VERSION, boot_id):
            self.close()
            raise SandboxGone("Another one has taken its place, or one of another version.")

    async def ask(
        self, kind: int, values: Mapping[str, object], *, heard: Callable[[Answer], None] | None = None
    ) -> Answer:
        """Ask, and wait for the answer. Raises SandboxGone."""
        return await self.ask_with(kind, wire.encode(dict(values)), Pending(heard))

    async def ask_with(
        self, kind: int, payload: bytes, pending: Pending, *, reading: OutputSubscription | None = None
    ) -> Answer:
        """As `ask`. What `pending` hears, it hears before the next event is looked at; `reading` goes with the request. Raises
        AnswerOverdue too, where `pending` was given up."""
        number = self._ask(kind, payload, pending, reading)
        try:
            await pending.arrived.wait()
        finally:
            if not pending.is_given_up:
                self._pending.pop(number, None)
        if pending.answer is None and self.gone is not None:
            self.raise_gone()
        if pending.answer is None:
            raise AnswerOverdue
        return pending.answer

    def ask_soon(self, kind: int, values: Mapping[str, object]) -> None:
        """Ask, and let the answer go. Quiet where the connection has ended."""
        if self.gone is None:
            self._ask(kind, wire.encode(dict(values)), Pending(), None)

    def _ask(self, kind: int, payload: bytes, pending: Pending, reading: OutputSubscription | None) -> int:
        if self.gone is not None:
            self.raise_gone()
        number, data = self._protocol.ask(kind, payload, reader=None if reading is None else reading.number)
        self._pending[number] = pending
        self._post(data)
        if self._protocol.is_ignored:
            self._end("Its agent leaves too much without an answer.")
        return number

    def _post(self, data: bytes) -> None:
        """Send; what the socket does not take now follows."""
        if self.gone is None and data:
            self._out += data
            self._send_some()

    def _send_some(self) -> None:
        try:
            while self._out and self.gone is None:
                sent = self._socket.send(memoryview(self._out)[:RECEIVE])
                del self._out[:sent]
        except BlockingIOError:
            self._writable.set()
            if len(self._out) > _UNSENT:
                self._end("Its agent does not take what it is sent.")
        except OSError:
            self._end(_SILENT)

    async def keep_sending(self) -> None:
        """Until the end: send what the socket did not take at once."""
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

    # Processes and their output

    def follow(self, process: int, tell: Callable[[Outcome], None]) -> None:
        """Call `tell` once when that process ends, or with Lost when the connection does. Its end comes after the answer that names
        it, so this is called while that answer is heard."""
        if self.gone is not None:
            tell(Lost(self.gone))
        else:
            self._endings[process] = tell

    def expect_ahead(self) -> OutputSubscription:
        """A reading that a start shall come with."""
        return self._reading(OutputSubscription(self._protocol.open_reader(credit=wire.AHEAD), ahead=True))

    def _reading(self, reading: OutputSubscription) -> OutputSubscription:
        self._readings[reading.number] = reading
        return reading

    async def open_reading(self, process: int, since: Position) -> OutputSubscription:
        """Begin to read a process's output. Raises SandboxGone."""
        if max(since.stdout, since.stderr) > LARGEST:
            raise SandboxGone(_DROPPED)
        reading = self._reading(OutputSubscription(self._protocol.open_reader(since)))
        asked = {"reader": reading.number, "process": process, "stdout": since.stdout, "stderr": since.stderr}
        try:
            answer = await self.ask_with(wire.READ, wire.encode(asked), Pending(), reading=reading)
        except BaseException:
            self.close_reading(reading)
            raise
        if isinstance(answer, RequestRefused):
            self.end_reading(reading)
            raise SandboxGone(_DROPPED)
        return reading

    async def next_chunk(self, reading: OutputSubscription) -> Chunk | None:
        """What comes next; None at the end. Raises SandboxGone."""
        while (chunk := reading.take()) is None:
            if reading.has_all:
                return None
            if reading.was_dropped:
                raise SandboxGone(_DROPPED)
            if self.gone is not None:
                self.raise_gone()
            if reading.arrived is None or reading.arrived.is_set():
                reading.arrived = anyio.Event()
            await reading.arrived.wait()
        return chunk

    def grant(self, reading: OutputSubscription, amount: int) -> None:
        """Let so many more bytes come."""
        if reading.number in self._readings:
            reading.ahead = False
            self._post(self._protocol.grant(reading.number, amount))

    def close_reading(self, reading: OutputSubscription) -> None:
        """Stop reading; the process runs on without this reader. Twice is quiet."""
        if self._readings.pop(reading.number, None) is not None:
            self._post(self._protocol.leave(reading.number))

    def end_reading(self, reading: OutputSubscription) -> None:
        """Nothing more comes for it, as the agent has said already."""
        self._readings.pop(reading.number, None)

    def forget(self, process: int) -> None:
        """Drop what is kept of a process: with the next frame, or when the caller has gone on. Raises SandboxGone."""
        if self.gone is not None:
            self.raise_gone()
        self.drop_notes(process)
        self._out += self._protocol.forget(process)
        if self._loop is None:
            self._writable.set()
        else:
            self._loop.call_soon(self._send_some)


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
        raise SandboxGone("Its socket is not answered any more.") from error
    finally:
        os.close(directory)
    return Client(connected)

"""The host's side of the agent's protocol, without I/O: bytes that came go in, events come out; requests come out as bytes to send.

A box may send anything, since what runs in it may have got hold of its agent. So every frame is checked against what was asked
before it becomes an event, and the first that cannot be is the last that is looked at. What an agent can make this side keep is
bounded by what the host asked for: answers by requests, output by credit, ends by processes that were started or found.

The tables say which frame may come when (as in h11): `_ANSWERS` for a request by what was asked, `_READER_MOVES` for a reader.
Their numbers are of one series, so a REFUSED is never ambiguous. A process runs from the answer that names it until its ENDED.
"""

import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from limpet.core.command import START, Chunk, Outcome, Position
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client import values as values_of
from limpet.runtimes.agent_client.events import (
    Acknowledged,
    Answer,
    Broken,
    CommandFinished,
    CommandStarted,
    Described,
    Ended,
    Event,
    Greeted,
    Output,
    OutputDropped,
    OutputEnded,
    RequestRefused,
    WritersStopped,
)

RECEIVE = 1 << 18  # bytes of output to receive in one go, at most
# Bytes to receive while it is not known what comes. A buffer of 128 KiB and more is mapped and unmapped again by malloc (mallopt(3),
# M_MMAP_THRESHOLD) for each frame: a third of what the host does for a short command.
_RECEIVE_FRAMES = 1 << 16
UNANSWERED = 10_000  # requests
_HEAD = wire.HEADER.size + wire.CHUNK.size  # bytes that go before output
_MUCH = 1 << 14  # bytes of output in one frame that are handed on before all are there
_VALUES = 1 << 16  # bytes of a frame with values
_MOST = {  # bytes of a frame, by its kind
    wire.DATA: wire.CHUNK.size + wire.PIECE,
    wire.DONE: wire.DONE_HEAD.size + wire.AHEAD,
    wire.REPLY: _VALUES,
    wire.REFUSED: _VALUES,
    wire.ENDED: _VALUES,
    wire.READ_END: 0,
}

ReaderState = Literal["opening", "open", "left", "ended"]

# What a reader becomes by a frame. "left": it was closed here, and frames that were on their way may still arrive.
_READER_MOVES: Mapping[tuple[ReaderState, int], ReaderState] = {
    ("open", wire.DATA): "open",
    ("open", wire.READ_END): "ended",
    ("open", wire.REFUSED): "ended",
    ("left", wire.DATA): "left",
    ("left", wire.READ_END): "ended",
    ("left", wire.REFUSED): "ended",
}


@dataclass(slots=True)
class _OpenRequest:
    """`order` counts requests and readers that were left, so that what an answer comes behind is known."""

    kind: int
    reader: int | None
    order: int


@dataclass(slots=True)
class _OpenReader:
    """`next` is the offset of the next byte of stdout and stderr, `credit` how many bytes may still come."""

    state: ReaderState
    next: list[int]
    credit: int


@dataclass(slots=True)
class _PartialOutput:
    """A frame of much output of which `left` bytes are to come; the next one of them is at `offset`."""

    reader: int
    stream: int
    offset: int
    left: int


class AgentProtocol:
    """One connection. Feed `receive` with all that comes, in any pieces; send all that the other methods return, in their order."""

    def __init__(self) -> None:
        self.wants = _RECEIVE_FRAMES  # bytes to receive next, so that much output is never copied; others are as right
        self._held = bytearray()  # of a frame that is not all there
        self._pouring: _PartialOutput | None = None
        self._requests: dict[int, _OpenRequest] = {}
        self._readers: dict[int, _OpenReader] = {}
        self._left: deque[tuple[int, int]] = deque()  # order and number of readers that were left
        self._running: set[int] = set()
        self._next = 1
        self._order = 0
        self._is_broken = False

    # What the host says

    def ask(self, kind: int, payload: bytes, *, reader: int | None = None) -> tuple[int, bytes]:
        """A request, and its number, which its answer carries. `reader` was opened for it."""
        number = self._number()
        self._order += 1
        self._requests[number] = _OpenRequest(kind, reader, self._order)
        return number, wire.frame(kind, number, payload)

    @property
    def is_ignored(self) -> bool:
        """Whether the agent leaves more requests without an answer than can be."""
        return len(self._requests) > UNANSWERED

    def open_reader(self, since: Position = START, *, credit: int = wire.WINDOW) -> int:
        """A reader for a READ or a START, whose answer opens it."""
        number = self._number()
        self._readers[number] = _OpenReader("opening", [since.stdout, since.stderr], credit)
        return number

    def grant(self, number: int, amount: int) -> bytes:
        """Let a reader get so many more bytes."""
        reader = self._readers.get(number)
        if reader is None or reader.state == "left":
            return b""
        reader.credit += amount
        return wire.frame(wire.GRANT, number, wire.NUMBER.pack(amount))

    def leave(self, number: int) -> bytes:
        """Close the reader; the process goes on. Twice is quiet."""
        reader = self._readers.get(number)
        if reader is None or reader.state == "left":
            return b""
        reader.state = "left"
        self._order += 1
        self._left.append((self._order, number))
        return wire.frame(wire.UNREAD, number)

    def forget(self, process: int) -> bytes:
        """Let the agent drop what it keeps of a process."""
        return wire.frame(wire.FORGET, process)

    def _number(self) -> int:
        self._next = self._next % 0x7FFFFFFF + 1
        while self._next in self._requests or self._next in self._readers:
            self._next = self._next % 0x7FFFFFFF + 1
        return self._next

    # What the agent says

    @property
    def is_in_output(self) -> bool:
        """Whether the rest of a frame of much output comes next."""
        return self._pouring is not None

    def receive(self, data: bytes) -> list[Event]:
        """What these bytes make. Nothing comes after Broken."""
        events: list[Event] = []
        if not self._is_broken:
            try:
                self._take(data, events)
            except (wire.BadFrame, struct.error) as error:
                self._is_broken = True
                events.append(Broken(str(error)))
        return events

    def _take(self, data: bytes, events: list[Event]) -> None:
        self.wants = _RECEIVE_FRAMES
        if self._pouring is not None:
            data = self._pour(self._pouring, data, events)
        if not self._held:
            with memoryview(data) as view:
                self._held += view[self._take_frames(view, events) :]
            return
        self._held += data
        with memoryview(self._held) as view:
            used = self._take_frames(view, events)
        del self._held[:used]

    def _pour(self, pouring: _PartialOutput, data: bytes, events: list[Event]) -> bytes:
        """More of a frame of much output. Returns what is behind it."""
        part, rest = (data, b"") if len(data) <= pouring.left else (data[: pouring.left], data[pouring.left :])
        if part:
            self._output(pouring.reader, pouring.stream, pouring.offset, part, events)
        pouring.offset += len(part)
        pouring.left -= len(part)
        if pouring.left:
            self.wants = min(pouring.left, RECEIVE)
        else:
            self._pouring = None
            self.wants = _HEAD  # no more than what goes before the next one, so that this is not copied either
        return rest

    def _take_frames(self, view: memoryview, events: list[Event]) -> int:
        """Every whole frame; how many bytes were used."""
        at, size = 0, len(view)
        while size - at >= wire.HEADER.size:
            kind, number, length = wire.HEADER.unpack_from(view, at)
            if length > _MOST.get(kind, -1):
                raise wire.BadFrame(f"a frame of kind {kind} and {length} bytes")
            begin = at + wire.HEADER.size
            end = begin + length
            if end > size:
                if kind == wire.DATA and length >= _MUCH and size - at >= _HEAD:
                    stream, offset = wire.CHUNK.unpack_from(view, begin)
                    self._pouring = _PartialOutput(number, stream, offset, end - at - _HEAD)
                    self._pour(self._pouring, bytes(view[at + _HEAD :]), events)
                    return size
                break
            self._take_frame(kind, number, view[begin:end], events)
            at = end
        return at

    def _take_frame(self, kind: int, number: int, payload: memoryview, events: list[Event]) -> None:
        if kind == wire.DATA:
            stream, offset = wire.CHUNK.unpack_from(payload)
            self._output(number, stream, offset, bytes(payload[wire.CHUNK.size :]), events)
        elif kind == wire.ENDED:
            values = wire.decode(bytes(payload))
            if number not in self._running:
                raise wire.BadFrame("the end of a process that does not run")
            self._running.remove(number)
            events.append(Ended(number, values_of.outcome(values), values_of.notes(values)))
        elif number in self._requests:
            self._take_answer(kind, number, bytes(payload), events)
        elif self._move_reader(number, kind).state != "left":
            events.append(OutputEnded(number) if kind == wire.READ_END else OutputDropped(number))

    def _move_reader(self, number: int, kind: int) -> _OpenReader:
        """The reader that a frame is for, as it was before; gone if that was its end."""
        reader = self._readers.get(number)
        became = None if reader is None else _READER_MOVES.get((reader.state, kind))
        if reader is None or became is None:
            raise wire.BadFrame(f"a frame of kind {kind} that nothing waits for")
        if became == "ended":
            del self._readers[number]
        return reader

    def _output(self, number: int, stream: int, offset: int, data: bytes, events: list[Event]) -> None:
        reader = self._move_reader(number, wire.DATA)
        if stream not in (1, 2) or not data or len(data) > reader.credit:
            raise wire.BadFrame("output that was not asked for")
        if offset != reader.next[stream - 1]:
            raise wire.BadFrame("output out of order")
        reader.next[stream - 1] += len(data)
        reader.credit -= len(data)
        if reader.state == "open":
            events.append(Output(number, Chunk(stream="stdout" if stream == 1 else "stderr", offset=offset, data=data)))

    # Answers

    def _take_answer(self, kind: int, number: int, payload: bytes, events: list[Event]) -> None:
        request = self._requests[number]
        make = _ANSWERS.get((request.kind, kind))
        if make is None:
            raise wire.BadFrame(f"a frame of kind {kind} in answer to a request of kind {request.kind}")
        events.append(make(self, number, request, payload))
        del self._requests[number]
        # What was left before this was asked can bring nothing any more: the agent takes one request after the other.
        while self._left and self._left[0][0] < request.order:
            self._readers.pop(self._left.popleft()[1], None)

    def _open(self, request: _OpenRequest) -> None:
        reader = None if request.reader is None else self._readers.get(request.reader)
        if reader is not None and reader.state == "opening":
            reader.state = "open"

    def _close(self, request: _OpenRequest) -> None:
        if request.reader is not None:
            self._readers.pop(request.reader, None)

    def _greeted(self, number: int, _: _OpenRequest, payload: bytes) -> Answer:
        values = wire.decode(payload)
        version, boot_id = values.get("version"), values.get("boot_id")
        if type(version) is not int or not isinstance(boot_id, str):
            raise wire.BadFrame("a greeting without version and boot id")
        return Greeted(request=number, version=version, boot_id=boot_id)

    def _started(self, number: int, request: _OpenRequest, payload: bytes) -> Answer:
        values = wire.decode(payload)
        if values.get("ahead") is not True:
            self._close(request)
            return self._described(number, request, payload)
        process = values_of.process(values)
        if process in self._running:
            raise wire.BadFrame("a new process with the number of one that runs")
        self._running.add(process)
        self._open(request)
        notes = values_of.notes(values)
        return CommandStarted(request=number, process=process, pid=values_of.pid(values), notes=notes)

    def _finished(self, number: int, request: _OpenRequest, payload: bytes) -> Answer:
        process, place, code, printed = wire.DONE_HEAD.unpack_from(payload)
        output = payload[wire.DONE_HEAD.size :]
        reader = None if request.reader is None else self._readers.get(request.reader)
        too_much = reader is not None and len(output) > reader.credit
        if process in self._running or not process or place >= len(wire.OUTCOMES) or printed > len(output) or too_much:
            raise wire.BadFrame("an end that cannot be")
        self._close(request)
        outcome: Outcome = values_of.outcome({"outcome": wire.OUTCOMES[place], "code": code})
        stdout, stderr = output[:printed], output[printed:]
        return CommandFinished(request=number, process=process, outcome=outcome, stdout=stdout, stderr=stderr)

    def _described(self, number: int, _: _OpenRequest, payload: bytes) -> Answer:
        values = wire.decode(payload)
        process = values_of.process(values)
        outcome = None if values.get("outcome") is None else values_of.outcome(values)
        if outcome is None:
            self._running.add(process)
        return Described(
            request=number,
            process=process,
            outcome=outcome,
            kept=values_of.kept(values),
            pid=values_of.pid(values),
            notes=values_of.notes(values),
        )

    def _reading(self, number: int, request: _OpenRequest, payload: bytes) -> Answer:
        self._open(request)
        return self._acknowledged(number, request, payload)

    def _stopped(self, number: int, _: _OpenRequest, payload: bytes) -> Answer:
        killed = wire.decode(payload).get("killed")
        if killed is not None and (type(killed) is not int or killed < 0):
            raise wire.BadFrame("a number of processes that is none")
        return WritersStopped(request=number, killed=killed)

    def _acknowledged(self, number: int, _: _OpenRequest, payload: bytes) -> Answer:
        wire.decode(payload)
        return Acknowledged(request=number)

    def _refused(self, number: int, request: _OpenRequest, payload: bytes) -> Answer:
        values = wire.decode(payload)
        self._close(request)
        return RequestRefused(
            request=number, error=values_of.words(values, "error"), reason=values_of.words(values, "reason")
        )


_Maker = Callable[[AgentProtocol, int, _OpenRequest, bytes], Answer]
_NO_MORE = (wire.WRITE, wire.CLOSE_STDIN, wire.RESIZE, wire.SIGNAL, wire.ABORT, wire.TOUCH, wire.HALT, wire.RESUME)
_REFUSABLE = (wire.HELLO, wire.START, wire.FIND, wire.READ, wire.STOP_WRITERS, wire.END_COMMANDS, *_NO_MORE)

# Which answers a request may get, by its kind and theirs, and what they become.
_ANSWERS: Mapping[tuple[int, int], _Maker] = {
    (wire.HELLO, wire.REPLY): AgentProtocol._greeted,
    (wire.START, wire.REPLY): AgentProtocol._started,
    (wire.START, wire.DONE): AgentProtocol._finished,
    (wire.FIND, wire.REPLY): AgentProtocol._described,
    (wire.READ, wire.REPLY): AgentProtocol._reading,
    (wire.STOP_WRITERS, wire.REPLY): AgentProtocol._stopped,
    (wire.END_COMMANDS, wire.REPLY): AgentProtocol._stopped,
    **{(kind, wire.REPLY): AgentProtocol._acknowledged for kind in _NO_MORE},
    **{(kind, wire.REFUSED): AgentProtocol._refused for kind in _REFUSABLE},
}

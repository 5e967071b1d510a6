"""One connection from the host: whole frames in, frames out, and the readers that it opened. Never waits."""

from __future__ import annotations

import _socket
import time

from limpet.runtimes.agent import wire
from limpet.runtimes.agent.process import Process
from limpet.runtimes.agent.splice_channel import SpliceChannel, pending_soon

_OUT_ENOUGH = 1 << 18
_MUCH = 1 << 14
_RECEIVE = 1 << 18
_UNDER_WAY = 1 << 20  # bytes that the socket may hold
MOMENT = 0.001  # seconds


class OutputReader:
    """A subscription of the host to a command's output from some offset on, sent as far as its credit goes (backpressure). One that goes
    `ahead` was opened by the agent itself: once its credit is used it does not slow the command down until the host grants more."""

    def __init__(self, number: int, process: Process, position: dict[int, int], *, ahead: bool = False) -> None:
        self.number = number
        self.process = process
        self.position = position
        self.credit = wire.AHEAD if ahead else wire.WINDOW
        self._ahead = ahead
        self.done = False
        # Where each stream ends for it, once the command has ended: what is written later is for later readers.
        self._ends: dict[int, int] | None = None
        process.positions[self] = position

    def next_frame(self) -> tuple[bytes, bytes | memoryview] | None:
        """What to send it now, if anything: what goes before, and output."""
        if self.done:
            return None
        if self._ends is None and not self.process.runs:
            self._ends = {stream: stored.end for stream, stored in self.process.streams.items()}
        for stream, stored in self.process.streams.items():
            at = self.position[stream]
            if at < stored.start and self.credit > 0:
                self.close()
                return wire.frame(wire.REFUSED, self.number, wire.encode({"error": "dropped"})), b""
            left = (stored.end if self._ends is None else min(stored.end, self._ends[stream])) - at
            if left <= 0:
                continue
            if self.credit <= 0:
                return None
            data = stored.read(at, min(self.credit, left, wire.PIECE))
            self.position[stream] = at + len(data)
            self.credit -= len(data)
            if self._ahead and self.credit == 0 and not self.process.read_once:
                self.process.positions.pop(self, None)
            return self._head(stream, at, len(data)), data
        if self.process.runs:
            return None
        self.close()
        return wire.frame(wire.READ_END, self.number), b""

    def lead(self, passage: SpliceChannel) -> bool:
        """Let a frame into a passage of what goes straight to it. False where there was nothing to take."""
        for descriptor, stream in list(self.process.outputs.items()):
            at = self.position[stream]
            if self.credit <= 0 or not self.process.goes_straight(descriptor) or at != self.process.streams[stream].end:
                continue
            size = min(self.credit, wire.PIECE, pending_soon(descriptor))
            if not size:
                self.process.found_empty.add(descriptor)
                continue
            if self.process.lead(descriptor, passage, size, self._head(stream, at, size)):
                self.position[stream] = at + size
                self.credit -= size
            return True
        return False

    def _head(self, stream: int, at: int, size: int) -> bytes:
        return wire.HEADER.pack(wire.DATA, self.number, wire.CHUNK.size + size) + wire.CHUNK.pack(stream, at)

    def whole(self) -> tuple[bytes, bytes] | None:
        """Both streams, where nothing was sent of them yet and all may come unasked."""
        stored = (self.process.streams[1], self.process.streams[2])
        if any(one.start for one in stored) or sum(one.end for one in stored) > wire.AHEAD:
            return None
        return stored[0].all(), stored[1].all()

    def grant(self, amount: int) -> None:
        self.credit += amount
        if self._ahead and not self.done:
            self._ahead = False
            self.process.positions[self] = self.position

    def close(self) -> None:
        self.done = True
        self.process.positions.pop(self, None)


class Connection:
    """A socket to the host. `receive` gives whole frames; `send` queues; `pump` fills the queue from the readers."""

    def __init__(self, sock: _socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, _UNDER_WAY)
        self.socket = sock
        self.descriptor = sock.fileno()
        self.readers: dict[int, OutputReader] = {}
        self.follows: set[int] = set()  # numbers of the processes whose end must be reported to it
        self.open = True
        self._in = bytearray()
        self._out = bytearray()
        self._passage = SpliceChannel()  # what is under way in it comes behind what is queued
        self._held: tuple[int, OutputReader] | None = (
            None  # a request to start that is not answered yet, and who reads along
        )
        self.holds_until = 0.0  # until then its answer may wait for the command's end

    def receive(self) -> list[tuple[int, int, bytes]]:
        try:
            data = self.socket.recv(_RECEIVE)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.open = False
            return []
        self._in += data
        frames = []
        while (found := wire.take_frame(self._in, wire.TO_AGENT_LIMIT)) is not None:
            frames.append(found)
        return frames

    def send(self, kind: int, number: int, payload: bytes = b"") -> None:
        self._answer_held()
        self._queue(wire.frame(kind, number, payload))

    def _queue(self, data: bytes) -> None:
        if self._passage.holds:
            try:
                self._out += self._passage.rest()
            except OSError:
                self.open = False  # a page that cannot be read, and its length was told
        self._out += data

    def has_started(self, number: int, reader: OutputReader) -> None:
        """Answer that request to start with what comes next, or in a moment: most commands end within it, and the host wakes once."""
        self._answer_held()
        self.follows.add(reader.process.number)
        self.readers[reader.number] = reader
        self._held = (number, reader)
        self.holds_until = time.monotonic() + MOMENT

    @property
    def holds(self) -> bool:
        """Whether an answer waits."""
        return self._held is not None

    def _answer_held(self) -> None:
        if self._held is None:
            return
        (number, reader), self._held = self._held, None
        process = reader.process
        told: dict[str, object] = {"process": process.number, "ahead": True, "pid": process.pid}
        if process.notes:
            told["notes"] = process.told_notes()
        self._queue(wire.frame(wire.REPLY, number, wire.encode(told)))

    def send_end(self, process: Process) -> None:
        """Report that it has ended; together with all of its output, where none of it was sent yet."""
        outcome, code = process.outcome or ("", 0)
        if self._held is not None and self._held[1].process is process and not process.notes:
            number, reader = self._held
            if (whole := reader.whole()) is not None:
                self._held = None
                reader.close()
                del self.readers[reader.number]
                head = wire.DONE_HEAD.pack(process.number, wire.OUTCOMES.index(outcome), code, len(whole[0]))
                self.send(wire.DONE, number, head + whole[0] + whole[1])
                return
        told: dict[str, object] = {"outcome": outcome, "code": code}
        if process.notes:
            told["notes"] = process.told_notes()
        self.send(wire.ENDED, process.number, wire.encode(told))

    def pump(self) -> None:
        """Queue output for the readers, by turns so that none waits for another, and send what the socket takes."""
        if self._held is not None and time.monotonic() >= self.holds_until:
            self._answer_held()
        busy = True
        while self.open and (busy or self._out or self._passage.holds):
            busy = False
            for number, reader in list(self.readers.items()):
                if len(self._out) >= _OUT_ENOUGH or self._passage.holds:
                    busy = True  # there may be more once this is sent
                    break
                busy = self._serve(reader) or busy
                del self.readers[number]
                if not reader.done:
                    self.readers[number] = reader  # behind the others
            if not self._flush():
                return

    def _serve(self, reader: OutputReader) -> bool:
        """Give it one frame; False where there is none."""
        if (ready := reader.next_frame()) is not None:
            self._answer_held()
            self._send_through(*ready)
            return True
        if not reader.process.pours:
            return False
        self._answer_held()
        return reader.lead(self._passage)

    def _send_through(self, head: bytes, data: bytes | memoryview) -> None:
        """Much output goes to the socket as it lies there, not by way of the queue."""
        if len(data) < _MUCH:
            self._out += head
            self._out += data
            return
        try:
            sent = self.socket.sendmsg([self._out, head, data])
        except BlockingIOError:
            sent = 0
        except OSError:
            self.open = False
            return
        queued = len(self._out)
        self._out += head
        del self._out[:sent]
        self._out += data[max(0, sent - queued - len(head)) :]

    def _flush(self) -> bool:
        """Send what waits; False when the socket's buffer is full (backpressure)."""
        try:
            while self._out:
                sent = self.socket.send(memoryview(self._out)[:_OUT_ENOUGH])
                del self._out[:sent]
            self._passage.send(self.descriptor)
        except BlockingIOError:
            return False
        except OSError:
            self.open = False
        return True

    @property
    def waits_to_send(self) -> bool:
        return bool(self._out) or self._passage.holds > 0

    def close(self) -> None:
        for reader in self.readers.values():
            reader.close()
        self.readers.clear()
        self._passage.close()
        self.socket.close()

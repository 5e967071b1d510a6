"""A process whose output is redacted before it is read. Keeps no output: what is read again is redacted again.

Offsets count screened bytes. They are the same for every reader, however the output arrived: where a pause let held-back bytes
go, every later reader lets them go at the same place.
"""

from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field

import anyio

from limpet.core.command import START, STREAMS, Chunk, Outcome, Position, Stream
from limpet.core.ports import Process
from limpet.guard.redaction.stream import RedactingStream

PAUSE = 0.25  # seconds of silence after which a prompt that waits for input is shown
_MARK_EVERY = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedChunk(Chunk):
    """Redacted bytes. `restart` is the raw offset up to which they tell all and from which an empty screen would go on with the same;
    None where the screen holds something back or looks at what came before."""

    restart: int | None


def restart_of(chunk: Chunk) -> int | None:
    """The raw offset from which another process may go on reading behind this chunk with an empty screen; None where it may not."""
    return chunk.restart if isinstance(chunk, RedactedChunk) else chunk.end


def raw_end(process: Process | None, stream: Stream, *, read: int | None) -> int | None:
    """Where a stream ends that was read to its end, in raw bytes; `read` is how many bytes were read of it."""
    return process.read_to(stream) if isinstance(process, RedactedProcess) else read


@dataclass(slots=True)
class _RestartPoints:
    """Places of one stream where a screen holds nothing back, as raw and screened offsets, growing; a reader may begin at any. And the
    raw offsets where a pause let go."""

    places: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    pauses: list[int] = field(default_factory=list)
    furthest: int = 0
    shown: int = 0

    def before(self, screened: int) -> tuple[int, int]:
        """The last place at or before that offset of redacted output."""
        return next(place for place in reversed(self.places) if place[1] <= screened)

    def add(self, raw: int, screened: int) -> None:
        if raw - self.places[-1][0] >= _MARK_EVERY:
            self.places.append((raw, screened))

    def pause(self, raw: int) -> None:
        if not self.paused_at(raw):
            self.pauses.append(raw)

    def paused_at(self, raw: int) -> bool:
        at = bisect_left(self.pauses, raw)
        return at < len(self.pauses) and self.pauses[at] == raw

    def pauses_within(self, after: int, until: int) -> list[int]:
        """The pauses behind the first offset, up to and with the second."""
        return self.pauses[bisect_right(self.pauses, after) : bisect_right(self.pauses, until)]


class _Reading:
    """One reader's way through one stream: feeds a screen and counts on both sides."""

    def __init__(self, stream: Stream, screen: RedactingStream, marks: _RestartPoints, since: int) -> None:
        self._stream = stream
        self._screen = screen
        self._marks = marks
        self.raw, self._screened = marks.before(since)
        self._since = since
        self._let_go_at = self.raw

    @property
    def holds_back(self) -> bool:
        """Whether a pause would let something go."""
        return self._screen.holds > 0 and self._let_go_at != self.raw

    def take(self, data: bytes) -> Chunk | None:
        """What these raw bytes let through."""
        out = self._let_go() if self._marks.paused_at(self.raw) else b""
        for piece, paused in self._pieces(data):
            out += self._screen.feed(piece)
            self.raw += len(piece)
            if paused:
                out += self._let_go()
        self._marks.furthest = max(self._marks.furthest, self.raw)
        return self._shown(out)

    def pause(self) -> Chunk | None:
        """Release what is held back, since the output has ended; not where another reader has seen that more came."""
        if self.raw < self._marks.furthest and not self._marks.paused_at(self.raw):
            return None
        self._marks.pause(self.raw)
        return self._shown(self._let_go())

    def end(self) -> Chunk | None:
        return self._shown(self._screen.end(), is_end=True)

    def _pieces(self, data: bytes) -> list[tuple[bytes, bool]]:
        """The bytes, cut where an earlier reader paused."""
        pieces, at = [], 0
        for pause in self._marks.pauses_within(self.raw, self.raw + len(data)):
            pieces.append((data[at : pause - self.raw], True))
            at = pause - self.raw
        if at < len(data):
            pieces.append((data[at:], False))
        return pieces

    def _let_go(self) -> bytes:
        """Flush the screen, once at each place."""
        if self._let_go_at == self.raw:
            return b""
        self._let_go_at = self.raw
        return self._screen.flush()

    def _shown(self, out: bytes, *, is_end: bool = False) -> Chunk | None:
        offset = self._screened
        self._screened += len(out)
        self._marks.shown = max(self._marks.shown, self._screened)
        is_empty = self._screen.empty
        if is_empty:
            self._marks.add(self.raw, self._screened)
        skipped = max(0, self._since - offset)
        if skipped >= len(out):
            return None
        return RedactedChunk(
            stream=self._stream,
            offset=offset + skipped,
            data=out[skipped:],
            restart=self.raw if is_empty or is_end else None,
        )


class RedactedProcess:
    """`core.ports.Process` around another; `screen` makes a fresh screen for one stream.

    After PAUSE without output, what is no part of a secret so far is let go, so that a prompt shows (`guard.screen.Screen.flush`).
    """

    def __init__(self, process: Process, screen: Callable[[], RedactingStream]) -> None:
        self._process = process
        self._screen = screen
        self._marks: dict[Stream, _RestartPoints] = {stream: _RestartPoints() for stream in STREAMS}

    @property
    def exec_id(self) -> str:
        return self._process.exec_id

    def resume_at(self, raw: Position) -> None:
        """Read on where another process has stopped, at places where an empty screen may begin (`RedactedChunk.restart`). Positions then
        count from there on as raw bytes do."""
        for stream in STREAMS:
            if at := raw.of(stream):
                self._marks[stream] = _RestartPoints(places=[(0, 0), (at, at)], furthest=at, shown=at)

    async def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        readings = {
            stream: _Reading(stream, self._screen(), self._marks[stream], since.of(stream)) for stream in STREAMS
        }
        while True:
            paused = False
            async with AsyncExitStack() as stack:
                chunks = aiter(self._process.output(_position(readings)))
                if isinstance(chunks, AsyncGenerator):
                    await stack.enter_async_context(aclosing(chunks))
                while not paused:
                    chunk: Chunk | None = None
                    with anyio.move_on_after(PAUSE if _holds_back(readings) else float("inf")) as silence:
                        chunk = await anext(chunks, None)
                    if chunk is not None:
                        shown = readings[chunk.stream].take(chunk.data)
                        if shown is not None:
                            yield shown
                    elif silence.cancelled_caught:
                        paused = True  # asking was broken off: the next asking goes on where this one was
                    else:
                        break
            for reading in readings.values():
                rest = reading.pause() if paused else reading.end()
                if rest is not None:
                    yield rest
            if not paused:
                return

    async def extent(self) -> tuple[Position, Position]:
        """From the beginning to what has been redacted so far."""
        return START, Position(stdout=self._marks["stdout"].shown, stderr=self._marks["stderr"].shown)

    def read_to(self, stream: Stream) -> int:
        """How many raw bytes of a stream have been redacted so far."""
        return self._marks[stream].furthest

    async def wait(self) -> Outcome:
        return await self._process.wait()

    def notes(self) -> Sequence[str]:
        return self._process.notes()

    async def write(self, data: bytes) -> None:
        await self._process.write(data)

    async def close_stdin(self) -> None:
        await self._process.close_stdin()

    async def resize(self, columns: int, rows: int) -> None:
        await self._process.resize(columns, rows)

    async def signal(self, number: int) -> None:
        await self._process.signal(number)

    async def abort(self) -> None:
        await self._process.abort()

    async def forget(self) -> None:
        await self._process.forget()


def _holds_back(readings: dict[Stream, _Reading]) -> bool:
    return any(reading.holds_back for reading in readings.values())


def _position(readings: dict[Stream, _Reading]) -> Position:
    return Position(stdout=readings["stdout"].raw, stderr=readings["stderr"].raw)

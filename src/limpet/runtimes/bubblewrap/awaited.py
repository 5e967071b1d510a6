"""What a connection to an agent waits for: replies to requests, and a command's output. Sends nothing."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from limpet.core.command import START, Chunk, Position
from limpet.runtimes.bubblewrap.inside import wire


@dataclass(slots=True)
class Reading:
    """One reader of a process's output. `position` is what has arrived, `credit` what may still come.

    One that goes `ahead` comes with a start, unasked, and slows the command down only once more is granted. `has_all`: nothing comes
    any more; `was_dropped`: what should come next was let go of.
    """

    number: int
    position: Position = START
    credit: int = wire.WINDOW
    ahead: bool = False
    has_all: bool = False
    was_dropped: bool = False
    chunks: deque[Chunk] = field(default_factory=deque)
    arrived: anyio.Event | None = None  # where somebody waits

    def wake(self) -> None:
        if self.arrived is not None:
            self.arrived.set()

    def take(self, stream: int, offset: int, data: bytes) -> None:
        """What comes next. BadFrame where it was not asked for, or is not next."""
        if stream not in (1, 2) or not data or len(data) > self.credit:
            raise wire.BadFrame("output that was not asked for")
        chunk = Chunk(stream="stdout" if stream == 1 else "stderr", offset=offset, data=data)
        if offset != self.position.of(chunk.stream):
            raise wire.BadFrame("output out of order")
        self.position = self.position.after(chunk)
        self.credit -= len(data)
        self.chunks.append(chunk)
        self.wake()


@dataclass(slots=True)
class Pouring:
    """Much output, handed on as it comes: for which reading, of which stream, where the next byte lies, and how many are to come."""

    reader: int
    stream: int
    offset: int
    left: int


@dataclass(slots=True)
class Reply:
    """What came back for one request: values, or the refusal's values. `heard` is called with it before any later frame is looked at.

    `ahead` is for the output of what it starts.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    refused: bool = False
    arrived: anyio.Event = field(default_factory=anyio.Event)
    heard: Callable[["Reply"], None] | None = None
    ahead: Reading | None = None

"""What a connection to an agent waits for: answers to requests, and a command's output. Sends nothing."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from limpet.core.command import Chunk, Stream
from limpet.runtimes.agent_client.events import Answer

_MANY = 256  # chunks that are kept as they came


class AnswerOverdue(Exception):
    """The caller has given up on the answer."""


@dataclass(slots=True, eq=False)
class OutputSubscription:
    """One reader of a process's output: what has come for it and was not taken yet.

    One that goes `ahead` comes with a start, unasked, and slows the command down only once more is granted. `has_all`: nothing comes
    any more; `was_dropped`: what should come next was let go of.
    """

    number: int
    ahead: bool = False
    has_all: bool = False
    was_dropped: bool = False
    chunks: deque[Chunk] = field(default_factory=deque)
    arrived: anyio.Event | None = None  # made by the reader when it waits
    # Behind the chunks, by stream: output that came in very many small pieces. Each of those costs a hundred times its byte.
    _joined: dict[Stream, tuple[int, bytearray]] = field(default_factory=dict)

    def wake(self) -> None:
        if self.arrived is not None:
            self.arrived.set()

    def put(self, chunk: Chunk) -> None:
        """The next of its stream."""
        if not self._joined and len(self.chunks) < _MANY:
            self.chunks.append(chunk)
        elif chunk.stream in self._joined:
            self._joined[chunk.stream][1].extend(chunk.data)
        else:
            self._joined[chunk.stream] = (chunk.offset, bytearray(chunk.data))
        self.wake()

    def put_all(self, stdout: bytes, stderr: bytes) -> None:
        """All that there is."""
        if stdout:
            self.put(Chunk(stream="stdout", offset=0, data=stdout))
        if stderr:
            self.put(Chunk(stream="stderr", offset=0, data=stderr))
        self.has_all = True

    def take(self) -> Chunk | None:
        """What was put first of what is there."""
        if self.chunks:
            return self.chunks.popleft()
        if not self._joined:
            return None
        stream = next(iter(self._joined))
        offset, data = self._joined.pop(stream)
        return Chunk(stream=stream, offset=offset, data=bytes(data))


@dataclass(slots=True)
class Pending:
    """A request that waits for its answer; None once the connection is gone. `heard` is called with the answer before any later
    event is looked at, also where `give_up` has ended the waiting."""

    heard: Callable[[Answer], None] | None = None
    answer: Answer | None = None
    arrived: anyio.Event = field(default_factory=anyio.Event)
    is_given_up: bool = False

    def give_up(self) -> None:
        """Stop waiting for it."""
        self.is_given_up = True
        self.arrived.set()

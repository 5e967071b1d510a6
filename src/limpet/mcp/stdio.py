"""One client over standard input and output. End of file on standard input ends the session; so does SIGTERM, even while input comes."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import BinaryIO, Self, cast

import anyio
from anyio.lowlevel import EventLoopToken, current_token
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.stdio import stdio_server

from limpet.mcp.session import SessionOptions, session
from limpet.mcp.signals import stopped_by_signal

LONGEST = 64 << 20  # bytes of one message; a longer one is answered like one that cannot be read


async def serve(offering: SessionOptions) -> None:
    """Serve until the client leaves or a signal comes. Raises what opening a workspace raises, before anything is served."""
    async with stopped_by_signal(), session(offering) as server:
        with _standard_streams() as (lines, out):
            # What stdio_server asks of a file: lines to iterate over, write and flush.
            stdin, stdout = cast("anyio.AsyncFile[str]", lines), cast("anyio.AsyncFile[str]", out)
            async with stdio_server(stdin, stdout) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())


class Lines:
    """The lines of a stream, read by a thread of its own, so that waiting for one can be cancelled and holds up no exit."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._received: MemoryObjectReceiveStream[str] | None = None

    def __aiter__(self) -> Self:
        sending, self._received = anyio.create_memory_object_stream[str](0)
        threading.Thread(target=self._read, args=(sending, current_token()), name="limpet-stdin", daemon=True).start()
        return self

    async def __anext__(self) -> str:
        if self._received is None:
            raise StopAsyncIteration
        try:
            return await self._received.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def _read(self, sending: MemoryObjectSendStream[str], token: EventLoopToken) -> None:
        # The session, and the loop with it, may have ended: then the line can be dropped.
        with suppress(RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, ValueError):
            for line in _bounded(self._stream):
                anyio.from_thread.run(sending.send, line, token=token)
        with suppress(RuntimeError):
            anyio.from_thread.run_sync(sending.close, token=token)


class Output:
    """Where messages go, by a thread of its own: a client that does not read makes them wait, and holds up no exit either."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: SimpleQueue[tuple[bytes, anyio.Event]] = SimpleQueue()
        self._problem: OSError | None = None
        self._thread: threading.Thread | None = None

    async def write(self, text: str) -> None:
        """Returns when all of it is on its way. Raises OSError where the reader is gone."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._write, args=(current_token(),), name="limpet-stdout", daemon=True
            )
            self._thread.start()
        written = anyio.Event()
        self._waiting.put((text.encode(), written))
        await written.wait()
        if self._problem is not None:
            raise self._problem

    async def flush(self) -> None:
        """Nothing is held back."""

    def _write(self, token: EventLoopToken) -> None:
        while True:
            data, written = self._waiting.get()
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError as problem:
                self._problem = problem
            try:
                anyio.from_thread.run_sync(written.set, token=token)
            except RuntimeError:
                return  # the loop has ended


def _bounded(stream: BinaryIO) -> Iterator[str]:
    """Its lines as text. Of one that is too long only the beginning, which is no message."""
    is_rest = False
    while line := stream.readline(LONGEST):
        if not is_rest:
            yield line.decode("utf-8", errors="replace")
        is_rest = not line.endswith(b"\n")


@contextmanager
def _standard_streams() -> Iterator[tuple[Lines, Output]]:
    """The client's streams. Meanwhile descriptors 0 and 1 are /dev/null and standard error, so that no stray print or child of ours
    speaks into the protocol."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    # Threads may wait on them to the end: they are never closed under one, where another file could take their number.
    yield Lines(os.fdopen(incoming, "rb", closefd=False)), Output(outgoing)

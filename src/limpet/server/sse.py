"""Server-sent events: `event:` and `data:` lines as OpenAI writes them, no frame torn apart, comments while nothing happens."""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence

import anyio
import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from limpet.core import events as ev
from limpet.core.errors import LimpetError
from limpet.responses.event_payloads import StreamError
from limpet.responses.replay import DecodedEvent, StreamEvent

KEEP_ALIVE_SECONDS = 15.0
FRAMES_AT_ONCE = 32
BYTES_AT_ONCE = 64 * 1024  # one frame may have more
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
PADDED_TO = 64  # bytes, of which the length of an obfuscated delta is a multiple
_PADDED = b',"obfuscation":"%b"}'
_END = b"data: [DONE]\n\n"
log = structlog.get_logger()


def frame(told: StreamEvent, *, obfuscated: bool = False) -> bytes:
    """One event on the wire. `obfuscated` deltas are padded to a few lengths, so that their lengths alone say little of the text."""
    payload = told.payload()
    if obfuscated and told.type.endswith(".delta"):
        missing = -(len(payload) + len(_PADDED) - 3) % PADDED_TO
        payload = payload[:-1] + _PADDED % secrets.token_hex(PADDED_TO)[:missing].encode()
    return b"event: " + told.type.encode() + b"\ndata: " + payload + b"\n\n"


def pieces(batch: Sequence[StreamEvent], *, obfuscated: bool = False) -> Iterator[bytes]:
    """What is written at once: a few frames, so that a client that reads slowly is not handed a whole journal in one piece."""
    some: list[bytes] = []
    size = 0
    for told in batch:
        some.append(frame(told, obfuscated=obfuscated))
        size += len(some[-1])
        if len(some) == FRAMES_AT_ONCE or size > BYTES_AT_ONCE:
            yield b"".join(some)
            some, size = [], 0
    if some:
        yield b"".join(some)


class FrameStream:
    """Writes frames until they end or the client leaves; either way `release` is awaited last.

    `keep_alive` is in seconds: after that much silence a comment line is written, so that proxies do not close the connection.
    """

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        *,
        release: Callable[[], Awaitable[None]],
        keep_alive: float = KEEP_ALIVE_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._frames = frames
        self._release = release
        self._keep_alive = keep_alive
        self._headers = [
            *_HEADERS,
            *((name.encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()),
        ]
        # Without a checkpoint: it is taken for every write.
        self._lock = anyio.Lock(fast_acquire=True)
        self._spoken_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            self._spoken_at = anyio.current_time()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                tasks.start_soon(self._comment, send)
                await self._pump(send)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._frames.aclose()
                await self._release()

    async def _pump(self, send: Send) -> None:
        async for data in self._frames:
            await self._write(send, data)
        await self._write(send, _END)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send, data: bytes) -> None:
        self._spoken_at = anyio.current_time()
        async with self._lock:
            await send({"type": "http.response.body", "body": data, "more_body": True})

    async def _comment(self, send: Send) -> None:
        while True:
            await anyio.sleep_until(self._spoken_at + self._keep_alive)
            if anyio.current_time() >= self._spoken_at + self._keep_alive:
                await self._write(send, b": keep-alive\n\n")


class EventStream(FrameStream):
    """The events of a response."""

    def __init__(
        self,
        events: AsyncGenerator[Sequence[StreamEvent], None],
        *,
        release: Callable[[], Awaitable[None]],
        keep_alive: float = KEEP_ALIVE_SECONDS,
        headers: Mapping[str, str] | None = None,
        obfuscated: bool = False,
    ) -> None:
        frames = _event_frames(events, obfuscated=obfuscated)
        super().__init__(frames, release=release, keep_alive=keep_alive, headers=headers)


async def _event_frames(
    events: AsyncGenerator[Sequence[StreamEvent], None], *, obfuscated: bool
) -> AsyncGenerator[bytes, None]:
    last = -1
    try:
        async for batch in events:
            last = batch[-1].seq
            for piece in pieces(batch, obfuscated=obfuscated):
                yield piece
    except LimpetError as problem:
        # Too late for a status: the stream itself says what happened.
        log.warning("stream_broke", reason=problem.message)
        event = msgspec.to_builtins(StreamError(code="server_error", message=problem.message, param=None))
        yield frame(DecodedEvent(seq=last + 1, type=ev.ERROR, data=event))
    finally:
        with anyio.CancelScope(shield=True):
            await events.aclose()

"""A provider on a free port that follows a script: one turn for each request, in order. What it is asked is kept for the test.

HTTP is spoken by hand, so that an answer can be cut in the middle of a frame and a client that leaves is noticed at once.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Self

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.stapled import MultiListener

from tests.support.providers.turns import Drop, Faults, Refuse, Reply, Turn

GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent. Header names are lower case; `body` is the JSON value, of a form its text."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


Scripted = Turn | Callable[[Request], Turn]


class ScriptedServer:
    """`async with ScriptedServer(turns=[…]) as server:`; then `server.base_url`, `server.requests`.

    A turn may be a function of the request. `release` lets held answers go on; `left` is set when a client closes the connection in
    the middle of an answer. More requests than turns get status 400. The wire is what a subclass says in `path`, `prefix`, `frames`
    and `error_body`.
    """

    path = "/"
    prefix = "/v1"
    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, turns: Sequence[Scripted] = ()) -> None:
        self.turns: list[Scripted] = list(turns)
        self.requests: list[Request] = []
        self.connections = 0
        self.base_url = ""
        self.more_paths: tuple[str, ...] = ()  # that are served beside `path`
        self.release = anyio.Event()
        self.left = anyio.Event()
        self.holding = anyio.Event()
        self._stack = AsyncExitStack()

    def frames(self, request: Request, reply: Reply) -> Iterator[bytes]:
        """The answer's frames, each whole with its blank line."""
        raise NotImplementedError

    def serves(self, path: str) -> bool:
        """Whether turns are sent there; the query is no part of it."""
        return path == self.prefix + self.path or path in [self.prefix + each for each in self.more_paths]

    def error_headers(self, refusal: Refuse) -> Mapping[str, str]:
        """What a provider says of an error in headers."""
        return {}

    def error_body(self, refusal: Refuse) -> bytes:
        """The body of an HTTP error, in the provider's shape."""
        kind = "invalid_request_error" if refusal.status < 500 else "server_error"
        error = {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}
        return json.dumps({"error": error}).encode()

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        port = listener.listeners[0].extra(SocketAttribute.local_port)
        self.base_url = f"http://127.0.0.1:{port}{self.prefix}"
        tasks.start_soon(self._listen, listener)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def _listen(self, listener: MultiListener[SocketStream]) -> None:
        async with listener:
            await listener.serve(self._serve)

    async def _serve(self, stream: SocketStream) -> None:
        self.connections += 1
        reader = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                while request := await _read_request(reader):
                    self.requests.append(request)
                    if not await self._answer(stream, request):
                        return
            except GONE:
                return

    async def _answer(self, stream: SocketStream, request: Request) -> bool:
        """Whether the connection goes on."""
        match self._next(request):
            case Refuse() as refusal:
                body = self.error_body(refusal) if refusal.body is None else refusal.body
                await stream.send(self._error_head(refusal, len(body)) + body)
                return True
            case Drop(after_head):
                if after_head:
                    await stream.send(_head(200, {"content-type": "text/event-stream", "content-length": "1000"}))
                return False
            case Reply() as answer:
                kind = {"content-type": self.content_type, "transfer-encoding": "chunked"}
                await stream.send(_head(200, kind))
                return await self._send_frames(stream, list(self.frames(request, answer)), answer.faults)

    def _error_head(self, refusal: Refuse, length: int) -> bytes:
        given = {"content-length": str(length), **self.error_headers(refusal), **refusal.headers}
        return _head(refusal.status, given)

    def _next(self, request: Request) -> Turn:
        if request.method != "POST" or not self.serves(request.path.partition("?")[0]):
            return Refuse(404, f"No such address: {request.method} {request.path}.")
        if not self.turns:
            return Refuse(400, "The script has no more turns.")
        turn = self.turns.pop(0)
        return turn(request) if callable(turn) else turn

    async def _send_frames(self, stream: SocketStream, frames: Sequence[bytes], faults: Faults) -> bool:
        frames = frames[: len(frames) - faults.leave_out]
        if faults.chunk:
            whole = b"".join(frames)
            frames = [whole[at : at + faults.chunk] for at in range(0, len(whole), faults.chunk)]
        try:
            for at, frame in enumerate(frames):
                if at == faults.cut_after:
                    await stream.send(_chunk(frame[: len(frame) // 2]))
                    return False
                if at == faults.hold_after:
                    await self._hold(stream)
                if faults.pace:
                    await anyio.sleep(faults.pace)
                await stream.send(_chunk(frame))
            await stream.send(_chunk(b""))
        except GONE:
            self.left.set()
            raise
        return True

    async def _hold(self, stream: SocketStream) -> None:
        """Wait for `release`, or for the client to leave."""
        self.holding.set()
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                try:
                    await stream.receive(1)
                except GONE:
                    self.left.set()
                    self.release.set()

            tasks.start_soon(watch)
            await self.release.wait()
            tasks.cancel_scope.cancel()


async def _read_request(reader: BufferedByteReceiveStream) -> Request | None:
    head = await reader.receive_until(b"\r\n\r\n", 64 * 1024)
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.receive_exactly(int(headers.get("content-length", "0")))
    is_form = headers.get("content-type", "").startswith(("application/x-www-form-urlencoded", "multipart/form-data"))
    return Request(method, path, headers, body.decode() if is_form else json.loads(body) if body else None)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    given = {"content-type": "application/json"} | dict(headers)
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in given.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def frame(data: Mapping[str, Any], *, event: str | None = None) -> bytes:
    """One server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()

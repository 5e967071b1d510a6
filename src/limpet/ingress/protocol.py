"""uvicorn's HTTP/1 connection with bounds: on heads, on bodies that trickle, on answers that are not read, on pipelining.

uvicorn has none of these (0.54). httptools collects a header's value until its end and calls nothing meanwhile, so bytes are counted as
they are fed; the rest hangs on the parser's callbacks. Nothing here runs for each event of an answer.
`tests/ingress/test_protocol.py` tries each bound over real sockets.
"""

import asyncio
from enum import Enum, auto
from functools import partial
from typing import Any, NoReturn

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from limpet.ingress.connections import source_of
from limpet.ingress.refusals import Ingress, Refusal
from limpet.ingress.takeover import EXTENSION, ConnectionControl, RawConnection
from limpet.ingress.unread import UnreadAnswer

HEALTH = frozenset({"/livez"})  # paths that wait behind no other request
MAX_URL_BYTES = 16 * 1024
# Requests that may wait behind the one that is answered; their heads together are held to the bound of one.
MAX_PIPELINED = 32
# What chunked framing may take beyond the body itself: extensions, trailers, chunks of a byte or two.
MAX_FRAMING_BYTES = 64 * 1024
# After a refusal the client is given so long, and may send so much, until its connection is cut: closing at once would reset it,
# and the answer would be lost.
LINGER_SECONDS = 2.0
MAX_LINGER_BYTES = 4 * 1024 * 1024
MAX_LINGERING = 64
# Deadlines are looked at every second. Where a look comes so late, this process was held up, not the client.
LATE_LOOK_SECONDS = 2.0

_INVALID = Refusal(400, "invalid_http", "This is not a valid HTTP/1.1 request.")


class _Phase(Enum):
    """What the connection waits for from its client."""

    IDLE = auto()  # the first byte of a request
    HEAD = auto()  # the rest of its head
    BODY = auto()  # the rest of its body
    NOTHING = auto()  # the request is whole
    REFUSED = auto()  # the client's end of the connection


class _StopParsing(Exception):
    """The request passes a bound: leaves the parser's callback, and feed_data with it."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        ingress: Ingress,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.source = "unknown"
        self._ingress = ingress
        self._limits = ingress.table.limits
        self._phase = _Phase.IDLE
        self._since = 0.0  # when the phase began; of a body, its present window
        self._looked_at = 0.0
        self._answered: RequestResponseCycle | None = None
        self._refusal = _INVALID
        self._is_fresh = True  # no request's head has come
        self._head_bytes = 0
        self._header_count = 0
        self._queued_bytes = 0  # of the heads of pipelined requests
        self._body_bytes = 0
        self._all_body_bytes = 0  # over all requests: one piece of data may begin the next request
        self._window_bytes = 0
        self._framing_bytes = 0
        self._silent_bytes = 0  # of the body's framing, since the last byte of the body itself
        self._drained_bytes = 0
        self._unread: UnreadAnswer | None = None
        self._upgrading: RawConnection | None = (
            None  # what came after the head of a request that asks for another protocol
        )

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.source = source_of(self.client[0] if self.client else None)
        self._unread = UnreadAnswer(transport, self._ingress, self.source)
        self._since = self._looked_at = self.loop.time()
        if not self._ingress.table.add(self):
            self._refuse(
                Refusal(503, "too_many_connections", "Too many connections are open. Close some, or try again later.")
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._ingress.table.remove(self)
        if self._unread is not None:
            self._unread.end()
        self._unset_keepalive_if_required()  # uvicorn does so only where no error ended the connection
        self._ingress.pacer.run(partial(self._end, exc))

    def _end(self, exc: Exception | None) -> None:
        self._leave()
        if self._upgrading is not None:
            self._upgrading.feed_end(is_gone=True)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio.Protocol has it
        """Whether the connection stays open for what is written: only one that was taken over, in which either end may stop first."""
        if self._upgrading is None or not self.cycle.response_complete:
            return False
        self._ingress.pacer.run(self._upgrading.feed_end)
        return True

    def _leave(self) -> None:
        """The application of the request that is being answered learns that its client has gone. uvicorn tells only the newest request,
        which behind others on a connection is one that was never begun."""
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        start = partial(super()._start_asgi_task, cycle, app)
        if cycle.scope["path"] in HEALTH:
            start()  # a look at whether the gateway lives is answered in a burst too
        else:
            self._ingress.pacer.run(start)

    def make_room(self) -> None:
        """See `Connection`."""
        self._ingress.notice("connection_closed", reason="idle, and another needed its place", address=self.source)
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is not None:
            self._unread.begin(self.loop.time())

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.end()

    def data_received(self, data: bytes) -> None:
        if self._phase is _Phase.REFUSED:
            self._linger(len(data))
            return
        if self._upgrading is not None:
            self._upgrading.feed(data)
            return
        self._unset_keepalive_if_required()
        if self._phase is _Phase.IDLE:
            self._begin(_Phase.HEAD, since=self._since if self._is_fresh else None)
        all_bodies = self._all_body_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # It is answered as a request without the wish, as RFC 9110 (7.8) allows, where the application does not take it over.
            self.cycle.keep_alive = False
            self._upgrading = RawConnection(self.transport, self.flow, set_idle=self._set_idle)
            if rest := data[upgrade.args[0] :]:
                self._upgrading.feed(rest)
        except httptools.HttpParserError:
            self._refuse(self._refusal)
        else:
            self._count(len(data), self._all_body_bytes - all_bodies)

    def _count(self, fed: int, body: int) -> None:
        """Hold what the parser keeps to itself to its bounds: `fed` bytes went in, `body` bytes of a body came out."""
        if self._phase is _Phase.HEAD:
            self._head_bytes += fed
            if self._head_bytes > self._limits.max_header_bytes:
                self._refuse(self._head_too_large())
            return
        self._framing_bytes += fed - body
        self._silent_bytes = 0 if body else self._silent_bytes + fed
        if self._silent_bytes > MAX_FRAMING_BYTES or self._framing_bytes > MAX_FRAMING_BYTES + self._body_bytes:
            self._refuse(
                Refusal(400, "invalid_http", "The body has chunks too small, or extensions or trailers too long.")
            )

    # The parser's callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if len(self.pipeline) >= MAX_PIPELINED or self._queued_bytes > self._limits.max_header_bytes:
            self._stop(Refusal(503, "too_many_requests", f"At most {MAX_PIPELINED} requests may wait on a connection."))
        if self._phase is not _Phase.HEAD:
            self._begin(_Phase.HEAD)
        self._head_bytes = self._header_count = 0

    def on_url(self, url: bytes) -> None:
        if len(self.url) + len(url) > MAX_URL_BYTES:
            self._stop(Refusal(414, "url_too_long", f"The URL is longer than {MAX_URL_BYTES} bytes."))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        self._head_bytes += len(name) + len(value) + len(": \r\n")
        if self._header_count > self._limits.max_headers or self._head_bytes > self._limits.max_header_bytes:
            self._stop(self._head_too_large())
        # A trailer would be added to the headers of a request that was let in without it.
        if self._phase is _Phase.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._ingress.table.set_busy(self)
        super().on_headers_complete()
        control: Any = ConnectionControl(abort=self._abort, take=self._take)
        self.scope["extensions"] = {EXTENSION: control}
        self._is_fresh = False
        self._queued_bytes = self._queued_bytes + self._head_bytes if self.pipeline else 0
        self._body_bytes = self._window_bytes = self._framing_bytes = self._silent_bytes = 0
        self._begin(_Phase.BODY)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._all_body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._begin(_Phase.NOTHING)
        self._wait_for_next()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._phase is _Phase.BODY:
            self._begin(_Phase.BODY)  # what is left of it is read for nothing, and not for long
        self._wait_for_next()

    def _wait_for_next(self) -> None:
        if self._phase is _Phase.NOTHING and self.cycle.response_complete and not self.pipeline:
            self._begin(_Phase.IDLE)
            self._ingress.table.set_idle(self)

    def _abort(self) -> None:
        self.cycle.disconnected = True
        self.transport.abort()

    def _take(self) -> RawConnection | None:
        """The answer is the application's own from here on; uvicorn's is over."""
        if self._upgrading is None or self.pipeline:
            return None
        self.cycle.response_started = self.cycle.response_complete = True
        self._begin(_Phase.NOTHING)
        return self._upgrading

    def _set_idle(self, is_idle: bool) -> None:
        """Of a connection that was taken over: whether it may make room for another."""
        if not self.transport.is_closing():
            (self._ingress.table.set_idle if is_idle else self._ingress.table.set_busy)(self)

    # Bounds

    def check_deadlines(self, now: float) -> None:
        """See `Connection`."""
        elapsed, self._looked_at = now - self._looked_at, now
        if elapsed > LATE_LOOK_SECONDS or (self._phase is _Phase.BODY and self.flow.read_paused):
            self._since += elapsed
        waited = now - self._since
        if self._unread is not None:
            self._unread.check_deadline(now)
        match self._phase:
            case _Phase.IDLE if self._is_fresh and waited > self._limits.header_timeout_secs:
                self.transport.close()
            case _Phase.HEAD if waited > self._limits.header_timeout_secs:
                limit = f"{self._limits.header_timeout_secs:g} s"
                self._refuse(Refusal(408, "request_timeout", f"The request's head did not arrive within {limit}."))
            case _Phase.BODY if waited > self._limits.body_timeout_secs:
                self._check_rate(now, waited)
            case _Phase.REFUSED if waited > LINGER_SECONDS:
                self.transport.abort()

    def _check_rate(self, now: float, waited: float) -> None:
        """Once for each window of a body."""
        least = self._limits.min_bytes_per_sec
        if self.cycle.response_complete or self._body_bytes - self._window_bytes < waited * least:
            self._refuse(
                Refusal(408, "request_timeout", f"The body came too slowly: {least} bytes a second are needed.")
            )
            return
        self._since, self._window_bytes = now, self._body_bytes

    def _begin(self, phase: _Phase, *, since: float | None = None) -> None:
        self._phase = phase
        self._since = self.loop.time() if since is None else since

    def _head_too_large(self) -> Refusal:
        most, count = self._limits.max_header_bytes, self._limits.max_headers
        return Refusal(431, "headers_too_large", f"The request's head may have {most} bytes and {count} headers.")

    def _stop(self, refusal: Refusal) -> NoReturn:
        self._refusal = refusal
        raise _StopParsing

    def _refuse(self, refusal: Refusal) -> None:
        """Answer where no answer is under way, and close in either case."""
        if self._phase is _Phase.REFUSED or self.transport.is_closing():
            return
        self._begin(_Phase.REFUSED)
        self._ingress.table.set_busy(self)
        self._ingress.notice("request_cut", status=refusal.status, reason=refusal.message, address=self.source)
        if not self._is_fresh and not self.cycle.response_complete:
            if self.cycle.response_started or self.pipeline:
                self.transport.abort()
                return
            self._leave()
        self.transport.write(_answer(refusal, self._ingress.render(refusal)))
        if self._ingress.table.surplus > MAX_LINGERING:
            self.transport.close()
            return
        self.flow.resume_reading()
        self.transport.write_eof()

    def _linger(self, size: int) -> None:
        self._drained_bytes += size
        if self._drained_bytes > MAX_LINGER_BYTES:
            self.transport.abort()


def _answer(refusal: Refusal, body: bytes) -> bytes:
    lines = [
        b"content-type: application/json\r\n",
        b"content-length: %d\r\n" % len(body),
        b"connection: close\r\n",
    ]
    return b"".join([STATUS_LINE[refusal.status], *lines, b"\r\n", body])

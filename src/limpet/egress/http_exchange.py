"""HTTP/1.1 that a door carries request by request: each is read whole, decided, and written anew to a connection of that host.

Nothing of the client's framing is passed on, so that what was decided is what the other side reads (no smuggling). The box's
connection may go on to another host; the door's connection to a host is never used for another one.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import anyio

from limpet.egress.http_heads import (
    CHUNKED,
    TO_THE_END,
    Field,
    MalformedHttp,
    RequestHead,
    ResponseHead,
    read_request,
    read_response,
    write_head,
)
from limpet.egress.policy import Admitted, Decision, Reason, Refused
from limpet.egress.refusals import response
from limpet.egress.streams import PIECE, ReadAhead, relay
from limpet.egress.upstream_dialer import NotConnected

ANSWER_WITHIN = 900.0
MOST_INFORMED = 16  # answers with a status of 1xx, before the one that counts
_MOST_CHUNK_DIGITS = 8
_OF_ONE_HOP = frozenset(
    b"connection proxy-connection keep-alive proxy-authorization proxy-authenticate te trailer transfer-encoding content-length "
    b"upgrade http2-settings alt-svc".split()
)
_NEVER_DROPPED = frozenset({b"host", b"content-type", b"authorization", b"cookie", b"content-encoding"})
_WITHOUT_BODY = frozenset({204, 304})


class RequestRewriter(Protocol):
    """Changes what passes: a request's head with its whole body, where that has `most_body` bytes at most (else None), and the bytes of
    other bodies piece by piece; one that may change its length that way has become CHUNKED in the head. The `_end` of a body gives
    what was held back. `request` and `sent` raise MalformedHttp for what would become too long."""

    @property
    def most_body(self) -> int: ...

    def request(self, head: RequestHead, body: bytes | None) -> tuple[RequestHead, bytes | None] | Refused: ...

    def response(self, head: ResponseHead) -> ResponseHead: ...

    def sent(self, piece: bytes) -> bytes: ...

    def sent_end(self) -> bytes: ...

    def received(self, piece: bytes) -> bytes: ...

    def received_end(self) -> bytes: ...


class Exchange(Protocol):
    """What the door does for a request: the decision on it, the connection, and the record."""

    def decide(self, head: RequestHead) -> Decision: ...

    def rewriting(self, admitted: Admitted, head: RequestHead) -> RequestRewriter | Refused | None: ...

    async def connect(self, admitted: Admitted) -> ReadAhead: ...

    def note(self, decision: Decision) -> None: ...

    def moved(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _RequestBody:
    """As the box sends it: its length in bytes, or CHUNKED; `whole` where it was read."""

    length: int
    whole: bytes | None = None


class HttpCarrier:
    """Carries the requests of one connection of a box until either side ends it. `head_within` seconds a request's head may take, and
    the time before it."""

    def __init__(self, box: ReadAhead, exchange: Exchange, *, head_within: float = 15.0) -> None:
        self._box = box
        self._exchange = exchange
        self._head_within = head_within
        self._upstream: ReadAhead | None = None
        self._reached: tuple[str, int] | None = None

    async def run(self, first: RequestHead | None = None) -> None:
        """Until the end; `first` was read already. What is malformed or refused is answered and ends the connection."""
        try:
            head = first or await self._next()
            while head is not None and await self._carry(head):
                head = await self._next()
        except MalformedHttp:
            refused = Refused(host="", port=0, reason=Reason.MALFORMED)
            self._exchange.note(refused)
            await self._refuse(refused)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
            pass
        finally:
            await self._leave()

    async def _next(self) -> RequestHead | None:
        try:
            with anyio.fail_after(self._head_within):
                head = await self._box.head()
        except TimeoutError:
            return None
        return None if head is None else read_request(head)

    async def _refuse(self, refused: Refused) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._box.send(response(refused))
            await self._box.send_eof()

    async def _carry(self, head: RequestHead) -> bool:
        """One request and its response. Returns whether the connection goes on."""
        decision = self._exchange.decide(head)
        rewriting, body = None, _RequestBody(length=head.length)
        if isinstance(decision, Admitted):
            decision, rewriting, head, whole = await self._rewritten(decision, head)
            body = replace(body, whole=whole)
        self._exchange.note(decision)
        if isinstance(decision, Refused):
            await self._refuse(decision)
            return False
        try:
            return await self._asked(head, body, decision, rewriting)
        except NotConnected as error:
            self._exchange.note(error.refused)
            await self._refuse(error.refused)
            return False

    async def _rewritten(
        self, admitted: Admitted, head: RequestHead
    ) -> tuple[Decision, RequestRewriter | None, RequestHead, bytes | None]:
        """The decision, and what is asked for; a body where it was read whole."""
        made = self._exchange.rewriting(admitted, head)
        if made is None or isinstance(made, Refused):
            return made or admitted, None, head, None
        changed = made.request(head, await self._whole_body(head, made.most_body))
        if isinstance(changed, Refused):
            return changed, None, head, None
        return admitted, made, *changed

    async def _whole_body(self, head: RequestHead, most: int) -> bytes | None:
        if not 0 < head.length <= most:
            return None
        if head.values(b"expect"):  # its program waits for leave to send it (RFC 9110, 10.1.1)
            await self._box.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        async for piece in _counted(self._box, head.length):
            self._exchange.moved()
            body += piece
        return bytes(body)

    async def _asked(
        self, head: RequestHead, body: _RequestBody, admitted: Admitted, rewriting: RequestRewriter | None
    ) -> bool:
        """Ask for it, and give back the answer. A connection that its host closed meanwhile is replaced, once, where the request can be
        asked again: it has no body, and no byte of an answer has come."""
        was_open = self._upstream is not None and self._reached == (admitted.host, admitted.port)
        upstream = await self._connection(admitted)
        before = upstream.received
        try:
            await upstream.send(_request_bytes(head, admitted))
            return await self._answered(head, body, upstream, rewriting)
        except anyio.BrokenResourceError:
            if not was_open or head.length or upstream.received != before:
                raise
        await self._leave()
        upstream = await self._connection(admitted)
        await upstream.send(_request_bytes(head, admitted))
        return await self._answered(head, body, upstream, rewriting)

    async def _connection(self, admitted: Admitted) -> ReadAhead:
        if self._upstream is not None and self._reached == (admitted.host, admitted.port):
            return self._upstream
        await self._leave()
        self._upstream = await self._exchange.connect(admitted)
        self._reached = (admitted.host, admitted.port)
        return self._upstream

    async def _leave(self) -> None:
        if self._upstream is not None:
            with anyio.move_on_after(1, shield=True):
                await self._upstream.aclose()
        self._upstream = self._reached = None

    async def _answered(
        self, head: RequestHead, body: _RequestBody, upstream: ReadAhead, rewriting: RequestRewriter | None
    ) -> bool:
        goes_on = False
        sending = anyio.CancelScope()

        async def send_body() -> None:
            change, end = (rewriting.sent, rewriting.sent_end) if rewriting else (None, None)
            with sending:
                if body.whole is not None:
                    await upstream.send(body.whole)
                    return
                pieces = _pieces(self._box, body.length)
                await self._body(pieces, upstream, change, end, is_chunked=head.length == CHUNKED)

        try:
            async with anyio.create_task_group() as tasks:
                if head.length:
                    tasks.start_soon(send_body)
                goes_on = await self._give_back(head, upstream, rewriting)
                if not goes_on:
                    sending.cancel()
        except ExceptionGroup as group:
            error: BaseException = group
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            raise error from None
        return goes_on

    async def _give_back(self, asked: RequestHead, upstream: ReadAhead, rewriting: RequestRewriter | None) -> bool:
        for _ in range(MOST_INFORMED):
            with anyio.fail_after(ANSWER_WITHIN):
                raw = await upstream.head()
            if raw is None:
                raise anyio.BrokenResourceError
            answer = read_response(raw)
            if rewriting is not None:
                answer = rewriting.response(answer)
                if asked.method != b"HEAD" and any(
                    value.lower() != b"identity" for value in answer.values(b"content-encoding")
                ):
                    refused = Refused(host=asked.host, port=asked.port or 443, reason=Reason.ENCODED)
                    self._exchange.note(refused)
                    await self._refuse(refused)
                    return False
            if answer.status == 101:
                await self._box.send(write_head(_status_line(answer), list(answer.fields)))
                await self._switched(upstream, rewriting)
                return False
            if answer.status >= 200:
                break
            await self._box.send(write_head(_status_line(answer), _end_to_end(answer.fields)))
        else:
            raise MalformedHttp("too many informational answers")
        has_body = asked.method != b"HEAD" and answer.status not in _WITHOUT_BODY
        closes = (has_body and answer.length == TO_THE_END) or _closes(asked) or _closes(answer)
        await self._box.send(_response_bytes(answer, has_body=has_body, closes=closes, minor=asked.minor))
        if has_body:
            change, end = (rewriting.received, rewriting.received_end) if rewriting else (None, None)
            pieces = _pieces(upstream, answer.length)
            await self._body(pieces, self._box, change, end, is_chunked=answer.length == CHUNKED)
        if closes:
            await self._box.send_eof()
        return not closes

    async def _switched(self, upstream: ReadAhead, rewriting: RequestRewriter | None) -> None:
        """After 101 bytes go both ways as they are, those to the box through the rewriting."""
        if rewriting is None:
            await relay(self._box, upstream, self._exchange.moved)
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._box.give_to, upstream, self._exchange.moved)
            while piece := await upstream.some(PIECE):
                self._exchange.moved()
                await self._box.send(rewriting.received(piece))
            await self._box.send(rewriting.received_end())
            tasks.cancel_scope.cancel()

    async def _body(
        self,
        pieces: AsyncIterator[bytes],
        target: ReadAhead,
        change: Callable[[bytes], bytes] | None,
        end: Callable[[], bytes] | None,
        *,
        is_chunked: bool,
    ) -> None:
        """A body from one side to the other. A rewriting keeps its length, where it is written with one."""
        write = _chunk_writer(target) if is_chunked else target.send
        async for piece in pieces:
            self._exchange.moved()
            if changed := change(piece) if change else piece:
                await write(changed)
        if end is not None and (rest := end()):
            await write(rest)
        if is_chunked:
            await target.send(b"0\r\n\r\n")


def _chunk_writer(target: ReadAhead) -> Callable[[bytes], Awaitable[None]]:
    async def write(piece: bytes) -> None:
        await target.send(b"%x\r\n" % len(piece) + piece + b"\r\n")

    return write


def _pieces(source: ReadAhead, length: int) -> AsyncIterator[bytes]:
    return _chunks(source) if length == CHUNKED else _counted(source, length)


async def _counted(source: ReadAhead, length: int) -> AsyncIterator[bytes]:
    left = length
    while left:
        piece = await source.some(PIECE if left < 0 else min(left, PIECE))
        if not piece:
            if left < 0:
                return
            raise anyio.BrokenResourceError
        left -= len(piece) if left > 0 else 0
        yield piece


async def _chunks(source: ReadAhead) -> AsyncIterator[bytes]:
    while True:
        digits = (await source.line()).partition(b";")[0].strip(b" \t")
        if not 0 < len(digits) <= _MOST_CHUNK_DIGITS or digits.strip(b"0123456789abcdefABCDEF"):
            raise MalformedHttp("chunk")
        left = int(digits, 16)
        if left == 0:
            for _ in range(200):  # trailers, which are not used here
                if not await source.line():
                    return
            raise MalformedHttp("trailers")
        async for piece in _counted(source, left):
            yield piece
        if await source.line():
            raise MalformedHttp("chunk's end")


def _closes(head: RequestHead | ResponseHead) -> bool:
    words = {word.strip().lower() for value in head.values(b"connection") for word in value.split(b",")}
    return b"close" in words or (head.minor == 0 and b"keep-alive" not in words)


def _end_to_end(fields: tuple[Field, ...]) -> list[Field]:
    named = {
        word.strip().lower() for key, value in fields if key.lower() == b"connection" for word in value.split(b",")
    }
    dropped = _OF_ONE_HOP | (named - _NEVER_DROPPED)
    return [(key, value) for key, value in fields if key.lower() not in dropped]


def _request_bytes(head: RequestHead, admitted: Admitted) -> bytes:
    fields = [(key, value) for key, value in _end_to_end(head.fields) if key.lower() != b"host"]
    fields.insert(0, (b"Host", next(iter(head.values(b"host")))))
    upgrade = head.values(b"upgrade")
    if (
        upgrade
        and upgrade[0].lower() == b"websocket"
        and any(b"upgrade" in value.lower() for value in head.values(b"connection"))
    ):
        fields += [(b"Connection", b"Upgrade"), (b"Upgrade", upgrade[0])]
    elif _closes(head):
        fields.append((b"Connection", b"close"))
    if head.length == CHUNKED:
        fields.append((b"Transfer-Encoding", b"chunked"))
    elif head.length or head.values(b"content-length"):
        fields.append((b"Content-Length", b"%d" % head.length))
    return write_head(b"%s %s HTTP/1.%d" % (head.method, head.target, head.minor), fields)


def _status_line(head: ResponseHead) -> bytes:
    return b"HTTP/1.1 %d %s" % (head.status, head.phrase)


def _response_bytes(head: ResponseHead, *, has_body: bool, closes: bool, minor: int) -> bytes:
    fields = _end_to_end(head.fields)
    if head.length == CHUNKED and has_body:
        if minor == 0:
            raise MalformedHttp("chunked answer to HTTP/1.0")
        fields.append((b"Transfer-Encoding", b"chunked"))
    elif head.length >= 0 and head.values(b"content-length"):
        fields.append((b"Content-Length", b"%d" % head.length))
    fields.append((b"Connection", b"close" if closes else b"keep-alive"))
    return write_head(_status_line(head), fields)


def fixed(head: RequestHead, host: str, port: int) -> bool:
    """Whether a request on a connection to that host and port is for these (no fronting)."""
    return head.host == host and head.port in (None, port) and not head.is_absolute

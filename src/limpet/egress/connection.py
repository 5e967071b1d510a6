"""One connection of a box through its door, from its first byte to its end: what it is for, the decision, and what is carried.

Whatever port it came to: TLS is passed through by the name in its first message; a request is one to a proxy (CONNECT, or with an
absolute target) or plain HTTP. The name of the tunnel, of TLS and of the request must be one, and that name is what is dialed.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import anyio

from limpet.egress.client_hello import HANDSHAKE, ClientHello, NotTls, read_client_hello
from limpet.egress.http_exchange import HttpCarrier, RequestRewriter, fixed
from limpet.egress.http_heads import MalformedHttp, RequestHead, read_request
from limpet.egress.policy import SECRET_RULE, Admitted, Decision, Reason, Refused
from limpet.egress.records import EgressRecord, record_of
from limpet.egress.refusals import response, tunnel_response
from limpet.egress.streams import ReadAhead, relay
from limpet.egress.upstream_dialer import NotConnected

PLAIN_PORT = 80
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_NOT_ALLOWED = b"\x15\x03\x03\x00\x02\x02\x31"  # the TLS alert access_denied (RFC 8446, 6.2)


class DoorView(Protocol):
    """What a connection needs of its door."""

    box: str

    @property
    def beginning(self) -> float: ...

    def on_record(self, record: EgressRecord) -> None: ...

    def decide(self, host: str, port: int) -> Decision: ...

    async def dial(self, admitted: Admitted) -> ReadAhead: ...

    def intercepts(self, host: str) -> bool: ...

    def carries_secret(self, head: RequestHead) -> bool: ...

    async def intercept(self, connection: "BoxConnection", admitted: Admitted) -> None: ...


class BoxConnection:
    """`port` is the one that the program believes it connects to. `admitted` is the decision that it lives by, once there is one."""

    def __init__(
        self, door: DoorView, stream: ReadAhead, port: int, *, clock: Callable[[], float] = anyio.current_time
    ) -> None:
        self.door = door
        self.stream = stream
        self.port = port
        self.admitted: Admitted | None = None
        self.scope = anyio.CancelScope()
        self.active_at = clock()
        self._clock = clock
        self._begun = clock()
        self._open: EgressRecord | None = None
        self._is_tunnel_asked = False
        self._secrets: Callable[[], tuple[str, ...]] = tuple
        self._before = (0, 0)

    async def run(self) -> None:
        """Carry it until it ends, is refused, or its scope is cancelled."""
        try:
            with self.scope:
                try:
                    await self._begin()
                except NotConnected as error:
                    await self.refuse(error.refused)
                except MalformedHttp:
                    await self.refuse(self._refused(Reason.MALFORMED))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
                    pass
        finally:
            self._close_record()  # also where all of the door is closed

    async def serve_service(self, name: str) -> None:
        """Carry a connection to a service of the host."""
        try:
            with self.scope:
                try:
                    decision = self.door.decide(name, self.port)
                    self.note(decision)
                    if isinstance(decision, Admitted) and decision.address is not None:
                        await self._tunnel(await self.door.dial(decision))
                except NotConnected as error:
                    self.note(error.refused)
        finally:
            self._close_record()

    def moved(self) -> None:
        """Something was carried: it is not idle."""
        self.active_at = self._clock()

    def note(self, decision: Decision, *, secrets: Callable[[], tuple[str, ...]] = tuple) -> None:
        """Begin the record of this decision; the one before it is complete. `secrets` gives the names of those that were put in until
        now: one may stand far back in a body."""
        self._close_record()
        self._secrets = secrets
        self._begun, self._before = self._clock(), (self.stream.received, self.stream.sent)
        self.admitted = decision if isinstance(decision, Admitted) else None
        self._open = record_of(self.door.box, decision)

    def record_so_far(self) -> EgressRecord | None:
        """The record of what is carried now, as if it ended now."""
        if self._open is None:
            return None
        sent, received = self.stream.received - self._before[0], self.stream.sent - self._before[1]
        duration = self._clock() - self._begun
        return self._open.ended(sent=sent, received=received, duration=duration, secrets=self._secrets())

    def _close_record(self) -> None:
        if (record := self.record_so_far()) is not None:
            self._open = None
            self.door.on_record(record)

    async def _begin(self) -> None:
        with anyio.fail_after(self.door.beginning):
            first = await self.stream.peek(1)
            if not first:
                return
            hello = await self._hello() if first[0] == HANDSHAKE else None
            head = None if hello is not None else await self.stream.head()
        if hello is not None:
            await self._tls(hello, None, self.port)
        elif head is not None:
            request = read_request(head)
            if request.method == b"CONNECT":
                await self._connect(request)
            else:
                await self.carry_http(request, None, self.port)

    async def _hello(self) -> ClientHello | Refused:
        count = 1
        while True:
            data = await self.stream.peek(count)
            try:
                hello = read_client_hello(data)
            except NotTls:
                return self._refused(Reason.NOT_TLS)
            if hello is not None:
                return hello
            if len(data) < count:  # it has ended
                return self._refused(Reason.NOT_TLS)
            count = len(data) + 1

    async def _connect(self, request: RequestHead) -> None:
        self._is_tunnel_asked = True
        decision = self.door.decide(request.host, request.port or 0)
        if isinstance(decision, Refused):
            await self.refuse(decision)
            return
        self.admitted = decision  # so that a policy that changes ends it while it is dialed, too
        upstream = None
        if not self.door.intercepts(decision.host):
            upstream = await self.door.dial(decision)
        try:
            await self.stream.send(_ESTABLISHED)
            self._is_tunnel_asked = False
            await self._tunnelled(decision, upstream)
        finally:
            if upstream is not None:
                with anyio.CancelScope(shield=True):
                    await upstream.aclose()

    async def _tunnelled(self, decision: Admitted, upstream: ReadAhead | None) -> None:
        if decision.address is not None and upstream is not None:
            self.note(decision)
            await self._tunnel(upstream)
            return
        with anyio.fail_after(self.door.beginning):
            first = await self.stream.peek(1)
            if not first:
                self.note(decision)  # it was dialed, or would have been
                return
            is_tls = first[0] == HANDSHAKE
            head = None if is_tls or decision.port != PLAIN_PORT else await self.stream.head()
            hello = await self._hello() if is_tls else self._refused(Reason.NOT_TLS, decision)
        if head is not None:
            await self.carry_http(read_request(head), decision.host, decision.port)
        else:
            await self._tls(hello, decision, decision.port, upstream)

    async def _tls(
        self, hello: ClientHello | Refused, expected: Admitted | None, port: int, upstream: ReadAhead | None = None
    ) -> None:
        decision = self._decided(hello, expected, port)
        if isinstance(decision, Refused):
            self.note(decision)
            await self.stream.send(_NOT_ALLOWED)
            await self.stream.send_eof()
            return
        self.admitted = decision
        if self.door.intercepts(decision.host):
            await self.door.intercept(self, decision)
            return
        try:
            upstream = upstream or await self.door.dial(decision)
        except NotConnected as error:
            self.note(error.refused)
            await self.stream.send_eof()
            return
        self.note(decision)
        await self._tunnel(upstream)

    def _decided(self, hello: ClientHello | Refused, expected: Admitted | None, port: int) -> Decision:
        if isinstance(hello, Refused):
            return hello
        host = hello.name or (expected.host if expected else "")
        if hello.name is None or (expected is not None and expected.host != hello.name):
            return Refused(host=host, port=port, reason=Reason.NAMES_DISAGREE)
        if hello.is_encrypted and not self.door.intercepts(hello.name):
            return Refused(host=host, port=port, reason=Reason.ENCRYPTED_NAME)
        return self.door.decide(hello.name, port)

    async def _tunnel(self, upstream: ReadAhead) -> None:
        try:
            await relay(self.stream, upstream, self.moved)
        finally:
            with anyio.CancelScope(shield=True):
                await upstream.aclose()

    async def carry_http(self, first: RequestHead, host: str | None, port: int) -> None:
        """Carry plain HTTP; with `host`, only for that one."""
        exchange = PlainExchange(self, host, port)
        await HttpCarrier(self.stream, exchange, head_within=self.door.beginning).run(first)

    async def refuse(self, refused: Refused) -> None:
        """Note it, and answer it as HTTP."""
        self.note(refused)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.stream.send((tunnel_response if self._is_tunnel_asked else response)(refused))
            await self.stream.send_eof()

    def _refused(self, reason: Reason, admitted: Admitted | None = None) -> Refused:
        if admitted is None:
            return Refused(host="", port=self.port, reason=reason)
        return Refused(host=admitted.host, port=admitted.port, reason=reason)


class PlainExchange:
    """http_exchange.Exchange over plain connections; `host` is the only one, where a tunnel was asked for."""

    def __init__(self, connection: BoxConnection, host: str | None, port: int) -> None:
        self._connection = connection
        self._host = host
        self._port = port

    def decide(self, head: RequestHead) -> Decision:
        if head.method in (b"CONNECT", b"TRACE"):
            return Refused(host=head.host, port=head.port or 0, reason=Reason.MALFORMED)
        if self._host is not None and not fixed(head, self._host, self._port):
            return Refused(host=head.host, port=self._port, reason=Reason.NAMES_DISAGREE)
        port = head.port or (PLAIN_PORT if head.is_absolute else self._port)
        if self._host is None and not head.is_absolute and port != self._port:
            return Refused(host=head.host, port=port, reason=Reason.NAMES_DISAGREE)
        door = self._connection.door
        decision = door.decide(head.host, port)
        if door.carries_secret(head):
            return Refused(host=head.host, port=port, reason=Reason.SECRET_ELSEWHERE)
        if isinstance(decision, Admitted) and decision.rule == SECRET_RULE:
            return Refused(host=head.host, port=port, reason=Reason.HOST_NOT_ALLOWED)
        return decision

    def rewriting(self, admitted: Admitted, head: RequestHead) -> RequestRewriter | Refused | None:
        return None

    async def connect(self, admitted: Admitted) -> ReadAhead:
        return await self._connection.door.dial(admitted)

    def note(self, decision: Decision) -> None:
        self._connection.note(decision)

    def moved(self) -> None:
        self._connection.moved()

"""TLS to the hosts of a box's secrets is ended at the door and begun anew, verified, towards the host: between the two the secrets are
put in. Every other host's TLS passes unread."""

import ssl
from collections.abc import Callable, Sequence

import anyio
from anyio.streams.tls import TLSStream

from limpet.egress.authority import Authority
from limpet.egress.connection import BoxConnection, DoorView
from limpet.egress.http_exchange import HttpCarrier, fixed
from limpet.egress.http_heads import RequestHead
from limpet.egress.network import Network
from limpet.egress.policy import SECRET_RULE, Admitted, Decision, Reason, Refused
from limpet.egress.secrets import PlacedSecret, SecretRewriter, rewriting_for
from limpet.egress.streams import ReadAhead
from limpet.egress.upstream_dialer import NotConnected


def verifying_context() -> ssl.SSLContext:
    """The trust towards hosts: the system's store, SSL_CERT_FILE honoured. Share it: loading a store takes 20 ms."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Interceptor:
    """The secrets of one box, as `read` gives them at each request. `authority` vouches for their hosts towards the box; `tls` is the
    trust towards the hosts."""

    def __init__(
        self, read: Callable[[], Sequence[PlacedSecret]], authority: Authority, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._read = read
        self.authority = authority
        self._tls = tls or verifying_context()

    @property
    def secrets(self) -> Sequence[PlacedSecret]:
        return self._read()

    @property
    def certificate(self) -> bytes:
        return self.authority.certificate

    def intercepts(self, host: str) -> bool:
        """Whether a secret is for that canonical name."""
        return any(secret.is_for(host) for secret in self.secrets)

    async def carry(self, connection: BoxConnection, admitted: Admitted) -> None:
        """Carry the requests of a connection that begins with TLS for an admitted host."""
        try:
            with anyio.fail_after(connection.door.beginning):
                inner = await TLSStream.wrap(
                    connection.stream,
                    server_side=True,
                    ssl_context=self.authority.context_for(admitted.host),
                    standard_compatible=False,
                )
        except (ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError):
            return  # the program does not trust the box's authority, or has left
        exchange = SecretExchange(self, connection, admitted)
        await HttpCarrier(ReadAhead(inner), exchange, head_within=connection.door.beginning).run()

    async def connect(self, door: DoorView, admitted: Admitted) -> ReadAhead:
        """A verified connection to the host. Raises NotConnected."""
        plain = await door.dial(admitted)
        try:
            with anyio.fail_after(door.beginning):
                return ReadAhead(
                    await TLSStream.wrap(
                        plain, hostname=admitted.host, ssl_context=self._tls, standard_compatible=False
                    )
                )
        except (
            OSError,
            anyio.EndOfStream,
            anyio.BrokenResourceError,
        ) as error:  # ssl.SSLError and TimeoutError are OSErrors
            with anyio.CancelScope(shield=True):
                await plain.aclose()
            is_untrusted = isinstance(error, ssl.SSLCertVerificationError)
            reason = Reason.NOT_TRUSTED if is_untrusted else Reason.UNREACHABLE
            raise NotConnected(Refused(host=admitted.host, port=admitted.port, reason=reason)) from error


class SecretExchange:
    """http_exchange.Exchange inside an intercepted connection: every request is for its one host."""

    def __init__(self, interceptor: Interceptor, connection: BoxConnection, admitted: Admitted) -> None:
        self._interceptor = interceptor
        self._connection = connection
        self._admitted = admitted
        self._made: SecretRewriter | None = None

    def decide(self, head: RequestHead) -> Decision:
        host, port = self._admitted.host, self._admitted.port
        self._made = None
        if head.method in (b"CONNECT", b"TRACE"):
            return Refused(host=host, port=port, reason=Reason.MALFORMED)
        if not fixed(head, host, port):
            return Refused(host=head.host, port=port, reason=Reason.NAMES_DISAGREE)
        return self._connection.door.decide(host, port)

    def rewriting(self, admitted: Admitted, head: RequestHead) -> SecretRewriter | Refused | None:
        made = rewriting_for(
            head,
            admitted.host,
            admitted.port,
            self._interceptor.secrets,
            needs_one=admitted.rule == SECRET_RULE,
        )
        self._made = made if isinstance(made, SecretRewriter) else None
        return made

    async def connect(self, admitted: Admitted) -> ReadAhead:
        return await self._interceptor.connect(self._connection.door, admitted)

    def note(self, decision: Decision) -> None:
        made = self._made
        self._connection.note(decision, secrets=tuple if made is None else lambda: made.used)

    def moved(self) -> None:
        self._connection.moved()


def interceptor(network: Network, secrets: Sequence[PlacedSecret]) -> Interceptor:
    """For a box of the library."""
    placed = tuple(secrets)
    authority = Authority.for_hosts([pattern for secret in placed for pattern in secret.hosts])
    return Interceptor(lambda: placed, authority, tls=network.tls)

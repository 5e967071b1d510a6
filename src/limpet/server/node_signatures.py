"""Requests between the gateways of one database: who sends them for which tenant, signed with a key that all of them have. Pure.

A signature names its caller, the request's method and address, the gateway that it is for, and its moment. It is worth nothing for another
request, at another gateway, a second time, or later than WINDOW seconds. A client's key is never passed on. The body is not covered: where
others can write to the network between gateways, they are to be reached over one that cannot be written to (docs/threat-model.md).
`tests/server/test_node_signatures.py` attacks it.
"""

import base64
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from limpet.core.clock import MICROSECONDS
from limpet.store.keys import SCOPES, Scope
from limpet.store.sealing import Sealer

HEADER = "limpet-forwarded"
WINDOW = 30  # seconds in which a signature may arrive
_ROW = "requests between nodes"
_NONCE_BYTES = 16
LONGEST = 4096  # characters of a signature


class ForwardRefused(Exception):
    """A signature does not let its request in; the text says why, and quotes nothing of it."""


class ForwardedCaller(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a request is passed on. `key_id` is that of the client's key; `prefix` the path of the link that admitted it; `scheme` is
    that of the client's own request. `holds`: the answer is a response's id, and the response lives by this connection."""

    tenant: str
    scopes: tuple[Scope, ...]
    key_id: str | None = None
    prefix: str | None = None
    scheme: str = "http"
    holds: bool = False


class _Claim(msgspec.Struct, frozen=True, kw_only=True):
    caller: ForwardedCaller
    to: str
    at: int
    nonce: str


@dataclass(slots=True)
class _Seen:
    """The nonces that came within two windows: older signatures are refused by their moment."""

    nonces: set[str]
    order: deque[tuple[int, str]]

    def admits(self, nonce: str, *, now: int) -> bool:
        while self.order and self.order[0][0] < now - 2 * WINDOW * MICROSECONDS:
            self.nonces.discard(self.order.popleft()[1])
        if nonce in self.nonces:
            return False
        self.nonces.add(nonce)
        self.order.append((now, nonce))
        return True


class NodeSigner:
    """Signs and checks for the gateway of `home`. `now` is the time that all of them share, in microseconds."""

    def __init__(self, sealer: Sealer, *, home: str, now: Callable[[], int]) -> None:
        self._sealer = sealer
        self._home = home
        self._now = now
        self._seen = _Seen(set(), deque())

    def sign(self, caller: ForwardedCaller, *, to: str, method: str, target: bytes) -> str:
        """The value of HEADER for one request to the gateway of the home `to`."""
        claim = _Claim(caller=caller, to=to, at=self._now(), nonce=secrets.token_hex(_NONCE_BYTES))
        text = base64.urlsafe_b64encode(msgspec.json.encode(claim)).rstrip(b"=")
        return f"{text.decode()}.{self._sealer.digest(_signed(text, method, target), row=_ROW)}"

    def check(self, value: str, *, method: str, target: bytes) -> ForwardedCaller:
        """Raises ForwardRefused."""
        encoded, _, digest = value.partition(".")
        text = encoded.encode()
        if len(value) > LONGEST or not self._sealer.is_digest(digest, _signed(text, method, target), row=_ROW):
            raise ForwardRefused("it is not signed with this gateway's server.secret_key for this request")
        claim = msgspec.json.decode(base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)), type=_Claim)
        now = self._now()
        if claim.to != self._home:
            raise ForwardRefused("it is for another gateway")
        if abs(now - claim.at) > WINDOW * MICROSECONDS:
            raise ForwardRefused(f"it was signed more than {WINDOW} s ago, or the gateways' clocks differ")
        if not claim.caller.tenant or not set(claim.caller.scopes) <= set(SCOPES):
            raise ForwardRefused("it names no caller that this gateway knows")
        if not self._seen.admits(claim.nonce, now=now):
            raise ForwardRefused("it came before")
        return claim.caller


def _signed(text: bytes, method: str, target: bytes) -> bytes:
    return text + b"\n" + method.encode() + b"\n" + target

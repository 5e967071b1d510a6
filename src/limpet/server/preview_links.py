"""Links that let their holder use one port of one container for some time: the path itself carries the permission, signed.

`/v1/containers/ID/ports/PORT/~TOKEN/…`. Signed by a key of this process: a restart of the gateway ends all links. Gateways that share a
database share a key, so that each admits the links of all. A token says its tenant and its end; it is worth nothing at any other address
(`tests/server/test_preview_links.py`).
"""

import base64
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from limpet.core.clock import Clock, seconds
from limpet.server.callers import Caller, admit
from limpet.server.errors import error_response

LEAST_SECONDS, MOST_SECONDS, DEFAULT_SECONDS = 10, 86_400, 3600
_LINK = re.compile(
    rb"(/v1/containers/([A-Za-z0-9_-]{1,64})/ports/([1-9][0-9]{0,4})/)~([A-Za-z0-9_-]{1,512})\.([0-9a-f]{64})/"
)
_LINKED = "limpet.preview_prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    tenant: str
    expires_at: int  # seconds since 1970

    def text(self) -> bytes:
        return base64.urlsafe_b64encode(f"{self.expires_at}:{self.tenant}".encode()).rstrip(b"=")


class PreviewLinks:
    """Makes and checks the links of one gateway, or of all that have the same `key`."""

    def __init__(self, clock: Clock, *, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._clock = clock

    def path(self, tenant: str, container_id: str, port: int, *, expires_at: int) -> str:
        """The path of a link, ending with a slash. `expires_at` is in seconds since 1970."""
        root = f"/v1/containers/{container_id}/ports/{port}/"
        claim = _Claim(tenant=tenant, expires_at=expires_at).text()
        return f"{root}~{claim.decode()}.{self._signature(root.encode(), claim)}/"

    def is_link(self, scope: Any) -> bool:
        """Whether a request's path is shaped as a link, valid or not."""
        return _LINK.match(scope.get("raw_path", b"")) is not None

    def admit(self, scope: Any) -> Caller | None:
        """The caller that a request's own path admits, None where it is no link, or none that is valid. The token is taken out of the
        path in either case, so that it is neither routed nor logged."""
        raw = scope.get("raw_path", b"")
        found = _LINK.match(raw)
        if found is None:
            return None
        # The link has no character that is escaped, so the decoded path begins with the same bytes.
        start, end = len(found[1]), found.end()
        scope["raw_path"] = raw[:start] + raw[end:]
        scope["path"] = scope["path"][:start] + scope["path"][end:]
        if not hmac.compare_digest(self._signature(found[1], found[4]).encode(), found[5]):
            return None
        expires_at, _, tenant = base64.urlsafe_b64decode(found[4] + b"=" * (-len(found[4]) % 4)).decode().partition(":")
        if int(expires_at) <= seconds(self._clock.now()):
            return None
        scope[_LINKED] = found[0]
        return Caller(tenant=tenant, scopes=frozenset({"containers"}))

    def _signature(self, root: bytes, claim: bytes) -> str:
        return hmac.digest(self._key, root + b"~" + claim, "sha256").hex()


async def admit_link(app: ASGIApp, links: PreviewLinks, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request whose path is shaped as a link, as the link says, or 403. Its other headers permit nothing and forbid nothing."""
    if (caller := links.admit(scope)) is None:
        message = "This link is not valid, or not any more. Make a new one with POST /v1/containers/{id}/ports/{port}."
        await error_response(403, message, code="link_invalid")(scope, receive, send)
        return
    admit(scope, caller)
    await app(scope, receive, send)


def note_link(scope: Any, prefix: bytes) -> None:
    """A request that another gateway passes on was admitted there by the link of that path."""
    scope[_LINKED] = prefix


def link_prefix(scope: Any) -> bytes | None:
    """The path of the link by which a request was admitted; None where it was not."""
    found: bytes | None = scope.get(_LINKED)
    return found

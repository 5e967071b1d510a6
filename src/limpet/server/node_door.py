"""Lets in what other gateways of the database pass on; every other request goes on to the door of clients.

Only addresses that are passed on are open this way, and the caller's scopes hold as at the client's own door.
"""

import structlog
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from limpet.core.errors import Forbidden
from limpet.ingress.notices import RateLimitedLog
from limpet.server.callers import Caller, admit, refused
from limpet.server.errors import response_of
from limpet.server.node_signatures import HEADER, ForwardedCaller, ForwardRefused, NodeSigner
from limpet.server.preview_links import note_link

_FORWARDED = "limpet.forwarded"
log = structlog.get_logger()


class NodeDoor:
    """In front of `door`, which lets clients in."""

    def __init__(self, app: ASGIApp, *, signer: NodeSigner, door: Middleware) -> None:
        self._app = app
        self._door = door.cls(app, *door.args, **door.kwargs)
        self._signer = signer
        self._refused = RateLimitedLog(log.warning)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).getlist(HEADER) if scope["type"] == "http" else []
        if not given:
            await self._door(scope, receive, send)
            return
        try:
            caller = self._caller(scope, given)
        except ForwardRefused as problem:
            self._refused(
                "forwarded_request_refused", address=(scope.get("client") or ("unknown",))[0], reason=str(problem)
            )
            text = f"The header {HEADER} is of other gateways alone, and this one is not valid: {problem}."
            await response_of(Forbidden(text, code="forward_refused"))(scope, receive, send)
            return
        admitted = Caller(tenant=caller.tenant, scopes=frozenset(caller.scopes), key_id=caller.key_id)
        admit(scope, admitted)
        scope[_FORWARDED] = caller
        # It has done its work, and what is behind the door may hand headers on to programs of a tenant.
        scope["headers"] = [each for each in scope["headers"] if each[0].lower() != HEADER.encode()]
        scope["scheme"] = caller.scheme
        if caller.prefix is not None:
            note_link(scope, caller.prefix.encode())
        if (problem_of_scope := refused(admitted, scope["path"])) is not None:
            await response_of(problem_of_scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _caller(self, scope: Scope, given: list[str]) -> ForwardedCaller:
        path: str = scope["path"]
        if len(given) != 1:
            raise ForwardRefused("it came more than once")
        if path != "/v1/responses" and not path.startswith("/v1/containers/"):
            raise ForwardRefused("nothing is passed on to this address")
        return self._signer.check(given[0], method=scope["method"], target=target_of(scope))


def target_of(scope: Scope) -> bytes:
    """The path and the query, as they are asked for."""
    query: bytes = scope["query_string"]
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path + (b"?" + query if query else b"")


def forwarded_by(scope: Scope) -> ForwardedCaller | None:
    """For whom another gateway passed this request on; None where its client sent it here."""
    found: ForwardedCaller | None = scope.get(_FORWARDED)
    return found

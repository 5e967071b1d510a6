"""Authentication with `[auth] mode = "keys"`: a key in `Authorization: Bearer`, its tenant, its scopes and its limits.

A key is sent by a program and by no browser on its own, so that no web page can borrow it: Host and Origin need no look here.
Plain ASGI: it touches no byte of a stream. `tests/wire/test_keys.py` tries it.
"""

import math

import anyio
import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from limpet.core.clock import Clock
from limpet.ingress.notices import RateLimitedLog
from limpet.server.callers import OPEN, STRANGER, Caller, admit, refused
from limpet.server.errors import error_response, response_of
from limpet.server.preview_links import PreviewLinks, admit_link
from limpet.server.rates import Failures, RateExceeded, Rates
from limpet.store.keys import ApiKeys, KeyRecord

# So many wrong keys are held back at once; further ones are answered at once, and say nothing.
MOST_WAITING = 256
INVALID_KEY = "This key is not valid: it was never made, was revoked, or has expired."

log = structlog.get_logger()


class KeyHolders:
    """Admits requests with a key that is valid now. A revoked key is refused from the next request on."""

    def __init__(self, app: ASGIApp, *, keys: ApiKeys, clock: Clock, links: PreviewLinks) -> None:
        self._app = app
        self._links = links
        self._keys = keys
        self._clock = clock
        self.rates = Rates(clock)
        self._failures = Failures(clock)
        self._waiting = 0
        self._wrong_key = RateLimitedLog(log.warning)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._links.is_link(scope):
            await admit_link(self._app, self._links, scope, receive, send)
            return
        record = await self.holder(scope)
        if record is None:
            answer = self._app if self._is_open(scope) else await self._turned_away(scope)
            await answer(scope, receive, send)
            return
        caller = Caller(tenant=record.tenant, scopes=frozenset(record.scopes), key_id=record.id)
        admit(scope, caller, work=_KeyWork(self, scope, record))
        if (problem := refused(caller, scope["path"])) is not None:
            await response_of(problem)(scope, receive, send)
            return
        limits = {"per_minute": record.requests_per_minute, "concurrent": record.concurrent}
        if (exhausted := self.rates.begin(record.id, **limits)) is not None:
            await _too_many(exhausted)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self.rates.end(record.id)

    async def holder(self, scope: Scope) -> KeyRecord | None:
        """Whose key a request shows, if it is valid now."""
        given = Headers(scope=scope).getlist("authorization")
        if len(given) != 1:  # where there are two, none of them is the one that a proxy in front has seen
            return None
        kind, _, token = given[0].partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            return None
        return await self._keys.find(token.strip(), now=self._clock.now())

    def _is_open(self, scope: Scope) -> bool:
        if scope["path"] not in OPEN:
            return False
        admit(scope, STRANGER)
        return True

    async def _turned_away(self, scope: Scope) -> Response:
        """401, later each time. A missing key is no guess and waits for nothing."""
        if "authorization" not in Headers(scope=scope):
            return _unauthorized("No key was sent. Send one as `Authorization: Bearer sk-limpet-…`.")
        address = (scope.get("client") or ("unknown", 0))[0]
        delay = self._failures.count(address)
        self._wrong_key("wrong_key", address=address, path=scope["path"][:256], delay=delay)
        if self._waiting < MOST_WAITING:
            self._waiting += 1
            try:
                await anyio.sleep(delay)
            finally:
                self._waiting -= 1
        return _unauthorized(INVALID_KEY)


class _KeyWork:
    """Work on one connection: a request a minute each, and a place among the concurrent ones for each beside the first, whose place is
    the connection's own."""

    def __init__(self, door: KeyHolders, scope: Scope, record: KeyRecord) -> None:
        self._door = door
        self._scope = scope
        self._key = record.id
        self._open = 0

    async def begin(self) -> Response | None:
        record = await self._door.holder(self._scope)
        if record is None or record.id != self._key:
            return _unauthorized(INVALID_KEY)
        concurrent = record.concurrent if self._open else None
        exhausted = self._door.rates.begin(record.id, per_minute=record.requests_per_minute, concurrent=concurrent)
        if exhausted is not None:
            return _too_many(exhausted)
        if not self._open:
            self._door.rates.end(record.id)
        self._open += 1
        return None

    def end(self) -> None:
        self._open -= 1
        if self._open:
            self._door.rates.end(self._key)


def _unauthorized(message: str) -> Response:
    return error_response(
        401,
        f"{message} The operator makes keys with `limpet keys create`.",
        code="invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    )


def _too_many(exhausted: RateExceeded) -> Response:
    if exhausted.seconds is None:
        message = f"This key may have {exhausted.limit} requests open at once. Wait until one of them has ended."
        wait = 1
    else:
        wait = math.ceil(exhausted.seconds)
        message = f"This key may ask {exhausted.limit} times a minute. Ask again in {wait} s."
    return error_response(
        429, message, type="rate_limit_error", code="rate_limit_exceeded", headers={"retry-after": str(wait)}
    )

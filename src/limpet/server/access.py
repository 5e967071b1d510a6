"""One log line for each request: method, path, tenant, response, status and duration. Never a body, a query or a key."""

import logging
from collections.abc import Mapping
from time import monotonic

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from limpet.ingress.notices import RateLimitedLog
from limpet.ingress.settings import AccessLevel
from limpet.ingress.takeover import control_of
from limpet.server.callers import OPEN, tenant_in

LONGEST_PATH = 256  # characters
_RESPONSE = "limpet.response_id"
_LEVELS: Mapping[str, int] = {"debug": logging.DEBUG, "info": logging.INFO}

log = structlog.get_logger()


def note_response(scope: Scope, response_id: str) -> None:
    """Write down in the ASGI scope which response a request made."""
    scope[_RESPONSE] = response_id


class AccessLog:
    """Writes a line when a request has ended; a stream's is written at its end. Lines of requests that no key or door let in are at most
    one a second, since strangers could fill the disk with them; those of OPEN paths are for level debug."""

    def __init__(self, app: ASGIApp, *, level: AccessLevel) -> None:
        self._app = app
        self._level = _LEVELS.get(level)
        self._of_strangers = RateLimitedLog(lambda event, **facts: log.log(self._level, event, **facts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._level is None:
            await self._app(scope, receive, send)
            return
        began, status = monotonic(), 0

        async def watching(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watching)
        finally:
            if (control := control_of(scope)) is not None and control.is_taken:
                status = 101
            self._write(scope, status, monotonic() - began)

    def _write(self, scope: Scope, status: int, duration: float) -> None:
        tenant, response_id = tenant_in(scope), scope.get(_RESPONSE) or scope.get("path_params", {}).get("response_id")
        facts = {"method": scope["method"], "path": scope["path"][:LONGEST_PATH], "status": status}
        facts |= {"ms": round(duration * 1000, 1)}
        facts |= {"tenant": tenant} if tenant else {}
        facts |= {"response": response_id[:LONGEST_PATH]} if response_id else {}
        if scope["path"] in OPEN:
            log.debug("request", **facts)
        elif tenant:
            log.log(self._level, "request", **facts)
        else:
            self._of_strangers("request", **facts)

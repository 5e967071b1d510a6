"""Who may use the server over HTTP: clients with the token; without a token, programs of this machine and no web page.

Plain ASGI: it touches no byte of a stream. `tests/mcp/test_door.py` tries it.
"""

import hmac

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from limpet.core.loopback import is_loopback_host
from limpet.core.secret import Secret

SHORTEST = 16  # characters of a token


class HttpGuard:
    """A web page never passes: it sends an Origin. Without a token the Host must be loopback, which DNS rebinding cannot give."""

    def __init__(self, app: ASGIApp, *, token: Secret | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None if scope["type"] != "http" else self._refuse(Headers(scope=scope))
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, message = refusal
        headers = {"www-authenticate": "Bearer"} if status == 401 else None
        body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
        await JSONResponse(body, status_code=status, headers=headers)(scope, receive, send)

    def _refuse(self, headers: Headers) -> tuple[int, str] | None:
        if "origin" in headers or any(site.strip().lower() != "none" for site in headers.getlist("sec-fetch-site")):
            return 403, "Web pages may not use this server: it answers no request with an Origin."
        if self._token is not None:
            return None if self._knows(headers) else (401, "Send the token as `Authorization: Bearer …`.")
        if len(headers.getlist("host")) != 1 or not is_loopback_host(headers["host"]):
            return 403, "Without a token the server answers only at 127.0.0.1, ::1 and localhost."
        return None

    def _knows(self, headers: Headers) -> bool:
        if len(headers.getlist("authorization")) != 1:
            return False
        kind, _, given = headers["authorization"].partition(" ")
        known = self._token.reveal() if self._token is not None else ""
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), known.encode())

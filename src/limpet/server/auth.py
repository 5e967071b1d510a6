"""Authentication with `[auth] mode = "none"`: only programs of this machine, and no web page that the user visits.

So a request needs a loopback Host (which DNS rebinding cannot give), no foreign Origin, no word of the browser that another
site sends it, and a JSON or multipart body. Plain ASGI: it touches no byte of a stream. `tests/wire/test_attacks.py` tries it.
"""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from limpet.core.loopback import is_loopback_host
from limpet.server.callers import LOCAL_OPERATOR, admit
from limpet.server.errors import error_response
from limpet.server.preview_links import PreviewLinks, admit_link

# What a browser says of a page of ours, or of an address that its user typed. All else, also what no browser says yet, is another site.
_OWN_SITES = frozenset({"same-origin", "none"})
_ORIGIN = re.compile(r"https?://([^/?#@\s]+)", re.IGNORECASE)
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class LoopbackOnly:
    """The door of `[auth] mode = "none"`."""

    def __init__(self, app: ASGIApp, *, links: PreviewLinks) -> None:
        self._app = app
        self._links = links

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._links.is_link(scope):
            if _refuse_host(Headers(scope=scope)) is None:
                await admit_link(self._app, self._links, scope, receive, send)
                return
            self._links.admit(scope)  # takes the token out of the path, which is logged
        refusal = refuse(scope["method"], Headers(scope=scope))
        if refusal is None:
            admit(scope, LOCAL_OPERATOR)
            await self._app(scope, receive, send)
            return
        status, code, message = refusal
        await error_response(status, message, code=code)(scope, receive, send)


def refuse(method: str, headers: Headers) -> tuple[int, str, str] | None:
    """Why a request may not pass: status, code, sentence. None lets it pass."""
    if (wrong := _refuse_host(headers)) is not None:
        return wrong
    host = headers["host"]
    # A browser sends one of each; where there are more, none of them may hide behind another.
    for origin in headers.getlist("origin"):
        if not _same_place(origin, host):
            return (
                403,
                "origin_not_allowed",
                f"The Origin {origin[:256]!r} may not use this gateway: auth mode none serves no other web page.",
            )
    if any(site.strip().lower() not in _OWN_SITES for site in headers.getlist("sec-fetch-site")):
        return (
            403,
            "origin_not_allowed",
            "The browser says that another site sends this (Sec-Fetch-Site); auth mode none serves no other site.",
        )
    given = headers.getlist("content-type")
    if method in _WITH_BODY and _has_body(headers) and (len(given) != 1 or not _is_accepted(given[0])):
        return (
            415,
            "unsupported_content_type",
            f"The body must be JSON: send Content-Type: application/json (got {', '.join(given)[:256]!r}).",
        )
    return None


def _refuse_host(headers: Headers) -> tuple[int, str, str] | None:
    host = headers.get("host", "")
    if len(headers.getlist("host")) == 1 and is_loopback_host(host):
        return None
    return (
        403,
        "host_not_allowed",
        f"The Host {host!r} is not this machine's loopback. With auth mode none the gateway answers only at 127.0.0.1, ::1 and localhost.",
    )


def _same_place(origin: str, host: str) -> bool:
    """Whether an Origin is this gateway's own page, which only a loopback Host can have."""
    found = _ORIGIN.fullmatch(origin.strip())
    return found is not None and found[1].lower() == host.lower()


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _is_accepted(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("application/json", "multipart/form-data") or (
        kind.startswith("application/") and kind.endswith("+json")
    )

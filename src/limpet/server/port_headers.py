"""Which headers pass between a client and a server in a container, and what is added so that its pages act for themselves alone. Pure.

Neither side sees what is the gateway's: a client's key and cookies stay out of the box, and a box sets no cookie, asks for no password
and stores nothing in a browser under the gateway's name.
"""

import re
from collections.abc import Iterable, Sequence

Header = tuple[bytes, bytes]
# RFC 9110, 7.6.1; each connection has its own.
_HOP_BY_HOP = frozenset(
    (
        b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization proxy-authentication-info te trailer"
        b" transfer-encoding upgrade http2-settings expect"
    ).split()
)
_NOT_INTO_THE_BOX = _HOP_BY_HOP | frozenset(
    b"authorization cookie cookie2 host origin referer forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port"
    b" x-real-ip x-api-key api-key openai-organization openai-project content-length limpet-forwarded".split()
)
# What proxies in front of the gateway say of the viewer, credentials among it.
_OF_A_PROXY = (
    b"x-forwarded-",
    b"x-auth-request-",
    b"cf-access-",
    b"x-amzn-oidc-",
    b"x-goog-iap-",
    b"x-goog-authenticated-user-",
    b"x-ms-token-",
    b"x-ms-client-principal",
    b"ssl-client-",
    b"x-ssl-client-",
    b"x-client-cert",
)
_NOT_OUT_OF_THE_BOX = _HOP_BY_HOP | frozenset(
    b"set-cookie set-cookie2 www-authenticate authorization authentication-info clear-site-data strict-transport-security alt-svc"
    b" service-worker-allowed public-key-pins expect-ct nel report-to reporting-endpoints content-security-policy-report-only"
    b" x-content-type-options referrer-policy content-length origin-agent-cluster sourcemap date server accept-ch critical-ch"
    b" x-accel-redirect x-accel-buffering x-sendfile refresh".split()
)
_CROSS_ORIGIN = b"access-control-"
# An origin of its own for each page: it reads nothing of the gateway's, has no storage and no cookies (HTML, "sandboxing").
_SANDBOX = b"sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-pointer-lock"
_LOCATION = re.compile(rb"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?(/.*)?", re.IGNORECASE)


def request_headers(given: Iterable[Header], port: int) -> list[Header]:
    """For the server in the box, whose name is localhost. The body's framing and an upgrade are the caller's to add."""
    given = list(given)
    dropped = _NOT_INTO_THE_BOX | _named_by_connection(given)
    own = b"localhost:%d" % port
    passed = (each for each in given if each[0] not in dropped and not each[0].startswith(_OF_A_PROXY))
    found = [(b"host", own), *passed]
    if any(name == b"origin" for name, _ in given):
        found.append((b"origin", b"http://" + own))  # servers compare it with Host
    return found


def response_headers(given: Iterable[Header], *, port: int, prefix: bytes, is_link: bool) -> list[Header]:
    """For the client. `prefix` is the path under which the server's own `/` lies; `is_link` where the address itself is the permission:
    then the page, whose origin is like no other, may ask its server again."""
    given = [(name.lower(), value) for name, value in given]
    dropped = _NOT_OUT_OF_THE_BOX | _named_by_connection(given)
    found = [
        (name, _moved(value, port, prefix) if name in (b"location", b"content-location") else value)
        for name, value in given
        if name not in dropped and not name.startswith(_CROSS_ORIGIN)
    ]
    found += [
        (b"content-security-policy", _SANDBOX),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    ]
    return found + (cross_origin_headers() if is_link else [])


def cross_origin_headers() -> list[Header]:
    """Who has the link may use it from any page; without credentials, of which there are none."""
    return [
        (b"access-control-allow-origin", b"*"),
        (b"access-control-allow-methods", b"*"),
        (b"access-control-allow-headers", b"*"),
        (b"access-control-expose-headers", b"*"),
    ]


def hop_by_hop(given: Sequence[Header]) -> frozenset[bytes]:
    """The names of those that are of one connection only (RFC 9110, 7.6.1)."""
    return _HOP_BY_HOP | _named_by_connection(given)


def _named_by_connection(headers: Sequence[Header]) -> frozenset[bytes]:
    """Headers that a Connection header declares to be of this hop only."""
    words = [word for name, value in headers if name == b"connection" for word in value.split(b",")]
    return frozenset(word.strip().lower() for word in words)


def _moved(location: bytes, port: int, prefix: bytes) -> bytes:
    """A redirect within the server, as the client must follow it; `prefix` ends with a slash. Others stay."""
    if location.startswith(b"/") and not location.startswith((b"//", b"/\\")):
        return prefix + location[1:]
    found = _LOCATION.fullmatch(location)
    if found is not None and int(found[1] or 80) == port:
        return prefix + (found[2] or b"/")[1:]
    return location

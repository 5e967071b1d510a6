"""What a box is told of a connection that is refused: which host, which rule, and that trying again changes nothing. Pure."""

from limpet.egress.policy import Reason, Refused

HEADER = "X-Limpet-Refused"
_MOST_NAMED = 12
_STATUS = {
    Reason.MALFORMED: 400,
    Reason.TOO_MANY: 503,
    Reason.UNREACHABLE: 502,
    Reason.NOT_TRUSTED: 502,
    Reason.ENCODED: 502,
}
_WHY = {
    Reason.NOT_A_NAME: "{host} is not the name of a host: addresses cannot be reached, only names",
    Reason.HOST_NOT_ALLOWED: "{host} is not a host that this container may reach",
    Reason.PORT_NOT_ALLOWED: "port {port} of {host} may not be reached",
    Reason.NOT_PUBLIC: "{host} does not lead to the public internet",
    Reason.NOT_TLS: "what was sent to {host}:{port} is not TLS",
    Reason.NAMES_DISAGREE: "the names of the request and of the connection to {host} disagree",
    Reason.ENCRYPTED_NAME: "the TLS handshake with {host} encrypts its name (ECH): turn that off",
    Reason.MALFORMED: "the request to {host} is malformed",
    Reason.SECRET_ELSEWHERE: "the request carries the placeholder of a secret that is not for {host}",
    Reason.TOO_MANY: "this container has too many open connections",
    Reason.UNREACHABLE: "{host}:{port} is allowed and could not be reached",
    Reason.NOT_TRUSTED: "the certificate of {host} is not trusted, so no secret is sent there",
    Reason.ENCODED: "{host} sent an encoded answer, which cannot be searched for the secret",
}


def status_of(refused: Refused) -> int:
    """The HTTP status of the refusal."""
    return _STATUS.get(refused.reason, 403)


def sentence(refused: Refused) -> str:
    """The refusal in one line of ASCII, without control characters, also where the host was hostile."""
    host = "".join(letter if "!" <= letter <= "~" else "?" for letter in refused.host) or "(none)"
    why = _WHY[refused.reason].format(host=host, port=refused.port)
    if refused.reason in (Reason.UNREACHABLE, Reason.TOO_MANY, Reason.NOT_TRUSTED, Reason.ENCODED):
        return f"Network: {why}."
    return f"Blocked by network policy: {why}. {_allowed(refused)}Do not retry: the answer will be the same."


def _allowed(refused: Refused) -> str:
    if refused.reason not in (Reason.HOST_NOT_ALLOWED, Reason.NOT_A_NAME, Reason.PORT_NOT_ALLOWED):
        return ""
    if not refused.allowed:
        return "No host is allowed here. "
    more = len(refused.allowed) - _MOST_NAMED
    return f"Allowed: {', '.join(refused.allowed[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''}. "


def response(refused: Refused) -> bytes:
    """The HTTP response to a request, after which the connection is closed. Its body never ends as one should: curl takes any status for
    success, and fails with a transfer that was cut short. The sentence stands where the size of a chunk belongs too, since libraries
    quote what they find there in their error."""
    text = sentence(refused)
    return _head(refused, "Transfer-Encoding: chunked") + f"{len(text) + 1:x}\r\n{text}\n\r\n{text}\r\n".encode()


def tunnel_response(refused: Refused) -> bytes:
    """The whole HTTP response to a CONNECT, whose status every client takes for a failure. Its reason phrase says why too: some clients
    show nothing else of a tunnel that was refused."""
    body = f"{sentence(refused)}\n".encode()
    return _head(refused, f"Content-Length: {len(body)}") + body


def _head(refused: Refused, framing: str) -> bytes:
    return (
        f"HTTP/1.1 {status_of(refused)} {sentence(refused)}\r\n{HEADER}: {refused.reason.value}\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\n{framing}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode()

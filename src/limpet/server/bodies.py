"""Reads request bodies and query parameters, and says what is wrong with them. 400s and 413s of form end here."""

import re
from typing import Any

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request

from limpet.core.errors import Overloaded, RequestInvalid, RequestTooLarge
from limpet.ingress.memory import MemoryBudget
from limpet.server.callers import tenant_of

MAX_JSON_BYTES = 64 * 1024 * 1024
# Objects and arrays in one body: 64 MiB of empty ones would become gigabytes, and block all other requests for seconds.
MAX_JSON_CONTAINERS = 1_000_000
# Digits of ASCII, and no more of them than any number of ours has.
_NUMBER = re.compile(r"-?[0-9]{1,19}")


def is_json(request: Request) -> bool:
    """Whether the body says that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def has_body(request: Request) -> bool:
    """Whether a body comes with it."""
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


async def json_body(request: Request, *, limit: int = MAX_JSON_BYTES) -> Any:
    """The body as JSON values. Raises RequestTooLarge past `limit` bytes or MAX_JSON_CONTAINERS, RequestInvalid for what is
    not JSON, or comes as a form: that type a web page may send without asking first; Overloaded where too many bodies arrive."""
    if request.headers.get("content-type", "").lower().lstrip().startswith("multipart/"):
        raise RequestInvalid(
            "The body must be JSON: send Content-Type: application/json.", code="unsupported_content_type"
        )
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(int(announced), limit)
    return decoded(await _collected(request, limit))


def decoded(body: bytes) -> Any:
    """JSON values. Raises RequestInvalid for what is not JSON, RequestTooLarge past MAX_JSON_CONTAINERS."""
    # Brackets within texts count too; no request that means something comes near.
    if body.count(b"{") + body.count(b"[") > MAX_JSON_CONTAINERS:
        raise RequestTooLarge(
            f"The body has more than {MAX_JSON_CONTAINERS} objects and arrays.", code="request_too_large"
        )
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise RequestInvalid(f"The body is not valid JSON: {problem}.", code="invalid_json") from problem


async def _collected(request: Request, limit: int) -> bytes:
    """The whole body. While it arrives its bytes count for the tenant in the memory that all bodies share."""
    memory: MemoryBudget = request.app.state.body_memory
    pieces: list[bytes] = []
    with anyio.CancelScope() as arriving:
        holding = memory.hold(tenant_of(request), arriving.cancel)
        try:
            async for piece in request.stream():
                pieces.append(piece)
                holding.add(len(piece))
                if holding.size > limit:
                    raise _too_large(holding.size, limit)
            return b"".join(pieces)
        except ClientDisconnect as gone:
            raise RequestInvalid("The body broke off.") from gone
        finally:
            holding.release()
    raise Overloaded(
        "Too many large bodies arrive at once, and this one has been arriving for longest. Send it again when less is going on.",
        code="too_many_bodies",
    )


def _too_large(size: int, limit: int) -> RequestTooLarge:
    return RequestTooLarge(f"The body has {size} bytes or more; the limit is {limit}.", code="request_too_large")


def whole_number(request: Request, name: str, *, default: int, least: int, most: int) -> int:
    """A query parameter as a number within bounds. Raises RequestInvalid."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not _NUMBER.fullmatch(given) or not least <= int(given) <= most:
        raise RequestInvalid(f"{name}: must be a whole number from {least} to {most} (got {given[:40]!r}).", param=name)
    return int(given)


def one_of(request: Request, name: str, *, default: str, allowed: tuple[str, ...]) -> str:
    """A query parameter that is one of a few words. Raises RequestInvalid."""
    given = request.query_params.get(name, default)
    if given not in allowed:
        raise RequestInvalid(f"{name}: must be {' or '.join(allowed)} (got {given[:40]!r}).", param=name)
    return given


def truth(request: Request, name: str) -> bool:
    """A query parameter that is true or false; absent is false. Raises RequestInvalid."""
    return one_of(request, name, default="false", allowed=("true", "false")) == "true"

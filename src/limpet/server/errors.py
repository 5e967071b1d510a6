"""Every error in the shape that OpenAI's clients read: a status and `{"error": {message, type, param, code}}`. Never a traceback."""

import math
from collections.abc import Mapping
from typing import Any

import structlog
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ExceptionHandler

from limpet.core import ids
from limpet.core.errors import (
    FileError,
    GatewayStopping,
    LimpetError,
    RequestError,
    RuntimeUnavailable,
    SandboxError,
    StoreError,
    UpstreamError,
    UpstreamRefused,
)
from limpet.core.resources import WireObject, or_unset
from limpet.ingress.refusals import Refusal
from limpet.server.answers import json_answer

log = structlog.get_logger()

# The provider's statuses that are the client's own doing; all others are between the gateway and the provider.
_PASSED_ON = frozenset({400, 404, 409, 413, 422, 429})


class ErrorBody(WireObject, frozen=True, kw_only=True):
    message: str
    type: str
    param: str | None
    code: str | None
    misalignment: dict[str, Any] | UnsetType = UNSET


class ErrorAnswer(WireObject, frozen=True, kw_only=True):
    error: ErrorBody


def error_response(
    status: int,
    message: str,
    *,
    type: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
    misalignment: dict[str, Any] | None = None,
) -> Response:
    """An error in OpenAI's shape, all four keys; `misalignment` only where a provider says it."""
    body = ErrorAnswer(
        error=ErrorBody(message=message, type=type, param=param, code=code, misalignment=or_unset(misalignment))
    )
    return json_answer(body, status=status, headers=headers)


def error_body(refusal: Refusal) -> bytes:
    """The same for a request that never became one (`limpet.ingress`)."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return bytes(error_response(refusal.status, refusal.message, type=kind, code=refusal.code).body)


def response_of(problem: LimpetError) -> Response:
    """What a client gets for one of our errors."""
    match problem:
        case RequestError():
            return error_response(
                problem.status, problem.message, type=problem.type, param=problem.param, code=problem.code
            )
        case UpstreamRefused(status=int(status)) if status in _PASSED_ON:
            kind = "rate_limit_error" if status == 429 else "invalid_request_error"
            code = problem.code or ("rate_limit_exceeded" if status == 429 else None)
            return error_response(
                status,
                problem.message,
                type=kind,
                param=problem.param,
                code=code,
                headers=_when_again(problem),
                misalignment=problem.misalignment,
            )
        case UpstreamRefused(status=503, retry_after=float()):
            return error_response(
                503, problem.message, type="server_error", code="provider_error", headers=_when_again(problem)
            )
        case UpstreamError():
            return error_response(502, problem.message, type="server_error", code="provider_error")
        case FileError():
            # A link, a directory or a fifo where a file was expected: a command of the container has put it there.
            return error_response(400, problem.message, param="file", code="file_not_usable")
        case GatewayStopping():
            return error_response(503, problem.message, type="server_error", code="gateway_stopping")
        case StoreError():
            return error_response(500, problem.message, type="server_error", code="store_failed")
        case SandboxError() | RuntimeUnavailable():
            return error_response(503, problem.message, type="server_error", code="sandbox_unavailable")
        case _:
            return error_response(500, problem.message, type="server_error", code="server_error")


def _when_again(problem: UpstreamRefused) -> dict[str, str] | None:
    return None if problem.retry_after is None else {"retry-after": str(math.ceil(problem.retry_after))}


async def _ours(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, LimpetError)
    if not isinstance(problem, RequestError):
        log.warning("request_failed", path=request.url.path, reason=problem.message)
    return response_of(problem)


async def _starlettes(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    if problem.status_code == 404:
        return error_response(
            404, f"There is nothing at {request.method} {request.url.path[:256]}.", code="unknown_url"
        )
    if problem.status_code == 405:
        allowed = ", ".join(_methods_at(request))
        message = f"{request.url.path} does not take {request.method}; it takes {allowed}."
        return error_response(405, message, code="method_not_allowed", headers={"allow": allowed})
    return error_response(problem.status_code, str(problem.detail))


def _methods_at(request: Request) -> list[str]:
    """What the address takes, over all routes that it has."""
    here = [
        route for route in request.app.routes if isinstance(route, Route) and route.path_regex.match(request.url.path)
    ]
    return sorted({method for route in here for method in route.methods or ()} - {"HEAD"})


async def _unforeseen(request: Request, problem: Exception) -> Response:
    request_id = ids.new_id(ids.REQUEST)
    log.error("request_broke", path=request.url.path, request_id=request_id, exc_info=problem)
    message = f"The gateway failed in a way that it did not foresee; its log says more under {request_id}."
    return error_response(500, message, type="server_error", code="server_error")


HANDLERS: dict[type[Exception] | int, ExceptionHandler] = {
    LimpetError: _ours,
    HTTPException: _starlettes,
    Exception: _unforeseen,
}

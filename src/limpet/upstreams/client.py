"""The HTTP client that every provider is reached with: it asks again, with back-off, until the first byte of an answer has arrived,
and never after it.
"""

import ssl
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2

from limpet.core.clock import MICROSECONDS, Clock
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings

CLOSING_SECONDS = 2.0
ERROR_BODY_BYTES = 64 * 1024

# Failures of a connection after which nothing can have been answered, or nothing was. Silence is none of them: it may be long work.
AGAIN = (httpx2.NetworkError, httpx2.ConnectTimeout, httpx2.RemoteProtocolError)


class ProviderClient(httpx2.AsyncClient):
    """httpx2's client with the retries of a provider on streamed requests. A redirect is an answer like any other: a key follows none.

    A streamed success that `send` returns has its first byte, or is the whole answer to a GET, which may be empty; what fails later is the
    caller's to name.
    """

    def __init__(self, settings: ProviderSettings, *, retries: RetryBudget | None, clock: Clock) -> None:
        first_byte, idle = settings.first_byte_timeout_secs, settings.idle_timeout_secs
        super().__init__(
            # The system's certificates, not a bundled list; SSL_CERT_FILE is honoured.
            verify=ssl.create_default_context(),
            timeout=httpx2.Timeout(max(first_byte, idle), connect=settings.connect_timeout_secs, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            follow_redirects=False,
        )
        self._retries = retries or RetryBudget(most=settings.max_retries, budget=settings.retry_budget_secs)
        self._clock = clock
        self._first_byte = first_byte
        # Where the client's own limit holds silence already, each chunk passes without another clock.
        self._idle = idle if idle < first_byte else None

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """See httpx2. Raises the last attempt's error; an error status of the last attempt is returned."""
        if not stream:
            return await super().send(request, **options)
        attempt, first_failure = 0, None
        while True:
            wait = await self._attempt(request, attempt, first_failure, options)
            if isinstance(wait, httpx2.Response):
                return wait
            first_failure = self._clock.monotonic() if first_failure is None else first_failure
            await anyio.sleep(wait)
            attempt += 1

    async def send_once(self, request: httpx2.Request) -> httpx2.Response:
        """A streamed answer, without another attempt."""
        return await super().send(request, stream=True)

    async def _attempt(
        self, request: httpx2.Request, attempt: int, first_failure: float | None, options: dict[str, Any]
    ) -> httpx2.Response | float:
        """The answer to return, or the seconds to wait before the next attempt."""
        try:
            response = await self._answer(request, options)
        except AGAIN:
            wait = self._retries.wait_after_failure(attempt, spent=self._since(first_failure))
            if wait is None:
                raise
            return wait
        if response.is_success:
            return response
        now, spent = self._clock.now() / MICROSECONDS, self._since(first_failure)
        told = self._retries.wait_after_status(attempt, response.status_code, response.headers, now=now, spent=spent)
        if told is None:
            return response
        await close(response)
        return told

    async def _answer(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """An answer; a success has its first byte. Raises ReadTimeout where that does not come in time."""
        response: httpx2.Response | None = None
        with anyio.move_on_after(self._first_byte):
            try:
                response = await super().send(request, stream=True, **options)
                if response.is_success:
                    await _wait_for_first_byte(response, idle=self._idle, may_be_empty=request.method == "GET")
            except BaseException:
                if response is not None:
                    await close(response)
                raise
            return response
        raise httpx2.ReadTimeout(f"no byte of an answer came within {self._first_byte:g} s (first_byte_timeout_secs)")

    def _since(self, moment: float | None) -> float:
        return 0.0 if moment is None else self._clock.monotonic() - moment


class _StartedResponse(httpx2.AsyncByteStream):
    """A body whose first chunk was read already; it is None where there is none. `idle` is the most seconds between two chunks, None where
    that is held elsewhere."""

    def __init__(
        self, first: bytes | None, rest: AsyncIterator[bytes], body: httpx2.AsyncByteStream, *, idle: float | None
    ) -> None:
        self._idle = idle
        self._first = first
        self._rest = rest
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._first is None:
            return
        yield self._first
        if self._idle is None:
            async for chunk in self._rest:
                yield chunk
            return
        while (following := await self._next(self._idle)) is not None:
            yield following

    async def _next(self, idle: float) -> bytes | None:
        with anyio.move_on_after(idle):
            return await anext(self._rest, None)
        raise httpx2.ReadTimeout(f"nothing more came for {idle:g} s (idle_timeout_secs)")

    async def aclose(self) -> None:
        await self._body.aclose()


async def _wait_for_first_byte(response: httpx2.Response, *, idle: float | None, may_be_empty: bool) -> None:
    body = response.stream
    if not isinstance(body, httpx2.AsyncByteStream):
        raise TypeError("A streamed answer has an asynchronous body.")
    rest = aiter(body)
    first = await anext(rest, None)
    if first is None and not may_be_empty:
        raise httpx2.RemoteProtocolError("The answer was empty.")
    response.stream = _StartedResponse(first, rest, body, idle=idle)


async def close(response: httpx2.Response) -> None:
    """Close the connection, also when cancelled: the provider must learn at once that its answer is no longer read."""
    with anyio.move_on_after(CLOSING_SECONDS, shield=True):
        await response.aclose()


async def beginning_of(response: httpx2.Response) -> bytes:
    """The body of an error, as much of it as is worth reading; it may break off."""
    body = b""
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= ERROR_BODY_BYTES:
                break
    except httpx2.TransportError:
        return body[:ERROR_BODY_BYTES]  # The status says that it failed; what has arrived says why.
    return body[:ERROR_BODY_BYTES]


def reason_of(error: BaseException) -> str:
    """What a failure of the connection says; the client's own time-outs have no words."""
    if isinstance(error, httpx2.ReadTimeout) and not str(error):
        return "nothing more came within idle_timeout_secs"
    return str(error) or type(error).__name__

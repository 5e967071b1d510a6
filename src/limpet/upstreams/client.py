"""The HTTP client that every provider is reached with: it asks again, with back-off, until the first byte of an answer has arrived,
and never after it.
"""

import ssl
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2

from limpet.core.clock import MICROSECONDS, Clock
from limpet.upstreams.retries import Retries
from limpet.upstreams.routing import ProviderSettings

CLOSING_SECONDS = 2.0

# Failures of a connection after which nothing can have been answered, or nothing was. Silence is none of them: it may be long work.
AGAIN = (httpx2.NetworkError, httpx2.ConnectTimeout, httpx2.RemoteProtocolError)


class ProviderClient(httpx2.AsyncClient):
    """httpx2's client with the retries of a provider on streamed requests. A redirect is an answer like any other: a key follows none.

    A streamed success that `send` returns has its first byte; what fails later is the caller's to name.
    """

    def __init__(self, settings: ProviderSettings, *, retries: Retries, clock: Clock) -> None:
        super().__init__(
            # The system's certificates, not a bundled list; SSL_CERT_FILE is honoured.
            verify=ssl.create_default_context(),
            timeout=httpx2.Timeout(settings.timeout, connect=settings.connect_timeout, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            follow_redirects=False,
        )
        self._retries = retries
        self._clock = clock

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """See httpx2. Raises the last attempt's error; an error status of the last attempt is returned."""
        if not stream:
            return await super().send(request, **options)
        attempt = 0
        while True:
            wait = await self._attempt(request, attempt, options)
            if isinstance(wait, httpx2.Response):
                return wait
            await anyio.sleep(wait)
            attempt += 1

    async def _attempt(self, request: httpx2.Request, attempt: int, options: dict[str, Any]) -> httpx2.Response | float:
        """The answer to return, or the seconds to wait before the next attempt."""
        response: httpx2.Response | None = None
        try:
            response = await super().send(request, stream=True, **options)
            if response.is_success:
                await _wait_for_first_byte(response)
                return response
        except BaseException as error:
            if response is not None:
                await close(response)
            wait = self._retries.wait_after_failure(attempt) if isinstance(error, AGAIN) else None
            if wait is None:
                raise
            return wait
        now = self._clock.now() / MICROSECONDS
        told = self._retries.wait_after_status(attempt, response.status_code, response.headers, now=now)
        if told is None:
            return response
        await close(response)
        return told


class _Begun(httpx2.AsyncByteStream):
    """A body whose first chunk was read already."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes], body: httpx2.AsyncByteStream) -> None:
        self._first = first
        self._rest = rest
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._first
        async for chunk in self._rest:
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


async def _wait_for_first_byte(response: httpx2.Response) -> None:
    body = response.stream
    if not isinstance(body, httpx2.AsyncByteStream):
        raise TypeError("A streamed answer has an asynchronous body.")
    rest = aiter(body)
    first = await anext(rest, None)
    if first is None:
        raise httpx2.RemoteProtocolError("The answer was empty.")
    response.stream = _Begun(first, rest, body)


async def close(response: httpx2.Response) -> None:
    """Close the connection, also when cancelled: the provider must learn at once that nobody listens any more."""
    with anyio.move_on_after(CLOSING_SECONDS, shield=True):
        await response.aclose()

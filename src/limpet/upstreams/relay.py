"""Provider type `openai`: a server that speaks the Responses API. Its events pass with the least decoding that renumbering allows.

It must never show the provider's key, and never ask again once the first byte of an answer has arrived.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Self

import anyio
import httpx2
import msgspec

from limpet.core.clock import MICROSECONDS, Clock, SystemClock
from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.core.secret import HIDDEN
from limpet.upstreams.refusals import header_value, hidden_key, hide_key, refusal
from limpet.upstreams.relay_events import Reader
from limpet.upstreams.relay_request import request_body
from limpet.upstreams.retries import Retries
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.sse import Frames, FrameTooLarge
from limpet.upstreams.upstream import Turn, TurnEvent

OPENAI = "https://api.openai.com/v1"
ERROR_BODY_BYTES = 64 * 1024
CLOSING_SECONDS = 2.0
DRAINING_SECONDS = 0.25
MASK = HIDDEN.encode()

# Failures of a connection after which nothing can have been answered, or nothing was.
AGAIN = (httpx2.NetworkError, httpx2.ConnectTimeout, httpx2.RemoteProtocolError)

_decode = msgspec.json.Decoder().decode


class RelayUpstream:
    """One Responses-native provider. `base_url` is what stands before `/responses`."""

    type = "openai"

    def __init__(
        self, settings: ProviderSettings, *, retries: Retries | None = None, clock: Clock | None = None
    ) -> None:
        self.name = settings.name
        self.has_native_shell = settings.native_shell
        self._settings = settings
        self._retries = retries or Retries()
        self._clock = clock or SystemClock()
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        settings = self._settings
        self._client = httpx2.AsyncClient(
            # The system's certificates, not a bundled list; SSL_CERT_FILE is honoured.
            verify=ssl.create_default_context(),
            timeout=httpx2.Timeout(settings.timeout, connect=settings.connect_timeout, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """See `Upstream.stream`. A provider's `error` or `response.failed` event ends the turn as failed; it is not raised."""
        body = request_body(turn, native_shell=self.has_native_shell, provider=self.name)
        reader = Reader(function_shell=turn.shell is not None and not self.has_native_shell)
        key = hidden_key(self._settings.api_key)
        async with aclosing(self._frames(msgspec.json.encode(body))) as frames:
            async for data in frames:
                if data == b"[DONE]":
                    continue
                for event in reader.read(self._event(data, key)):
                    yield event
                if reader.ended:
                    await _drain(frames)
                    return
        raise UpstreamBroken(self.name, "the connection closed before the response had ended.")

    def _event(self, data: bytes, key: bytes | None) -> dict[str, Any]:
        if key is not None and key in data:
            data = data.replace(key, MASK)
        try:
            event = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UpstreamBroken(self.name, "an event is not JSON; it was cut or garbled.") from error
        if not isinstance(event, dict):
            raise UpstreamBroken(self.name, "an event is not a JSON object.")
        return event

    async def _frames(self, content: bytes) -> AsyncGenerator[bytes, None]:
        """The data of each event of the answer. The connection is closed with this iterator."""
        response, first, rest = await self._open(content)
        frames = Frames()
        try:
            for data in frames.feed(first):
                yield data
            async for chunk in rest:
                for data in frames.feed(chunk):
                    yield data
            for data in frames.finish():
                yield data
        except (httpx2.HTTPError, httpx2.StreamError, FrameTooLarge) as error:
            raise UpstreamBroken(self.name, self._said(error)) from error
        finally:
            await _close(response)

    async def _open(self, content: bytes) -> tuple[httpx2.Response, bytes, AsyncIterator[bytes]]:
        """An answer whose first byte has arrived, and the way to the others; asked for again as the retries allow."""
        attempt = 0
        while True:
            opened = await self._ask(content, attempt)
            if not isinstance(opened, float):
                return opened
            await anyio.sleep(opened)
            attempt += 1

    async def _ask(self, content: bytes, attempt: int) -> tuple[httpx2.Response, bytes, AsyncIterator[bytes]] | float:
        """One attempt: the answer, or the seconds to wait before the next. Raises UpstreamRefused when there should be none."""
        response: httpx2.Response | None = None
        kept = False
        try:
            response = await self._send(content)
            if not response.is_success:
                return await self._refused(response, attempt)
            self._check_kind(response)
            chunks = response.aiter_bytes()
            first = await anext(chunks, None)
            if first is None:
                raise httpx2.RemoteProtocolError("The answer was empty.")
            kept = True
            return response, first, chunks
        except httpx2.TransportError as error:
            wait = self._retries.wait_after_failure(attempt) if isinstance(error, AGAIN) else None
            if wait is None:
                raise UpstreamRefused(self.name, None, f"it cannot be reached: {self._said(error)}") from error
            return wait
        finally:
            if response is not None and not kept:
                await _close(response)

    async def _send(self, content: bytes) -> httpx2.Response:
        if self._client is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        settings = self._settings
        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
        }
        if settings.api_key:
            headers["authorization"] = f"Bearer {header_value(self.name, settings.api_key)}"
        url = f"{(settings.base_url or OPENAI).rstrip('/')}/responses"
        request = self._client.build_request("POST", url, content=content, headers=headers)
        return await self._client.send(request, stream=True)

    async def _refused(self, response: httpx2.Response, attempt: int) -> float:
        """Seconds to wait after an error answer, or that answer as UpstreamRefused."""
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= ERROR_BODY_BYTES:
                break
        now = self._clock.now() / MICROSECONDS
        wait = self._retries.wait_after_status(attempt, response.status_code, response.headers, now=now)
        if wait is None:
            raise refusal(self.name, response.status_code, body[:ERROR_BODY_BYTES], self._settings.api_key)
        return wait

    def _check_kind(self, response: httpx2.Response) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in {"application/json", "text/html"}:
            raise UpstreamRefused(
                self.name, None, f"it answered with {kind} where an event stream was asked for. Check its base_url."
            )

    def _said(self, error: Exception) -> str:
        return hide_key(str(error) or type(error).__name__, self._settings.api_key)


async def _close(response: httpx2.Response) -> None:
    # Also when cancelled: the provider must learn at once that nobody listens any more.
    with anyio.move_on_after(CLOSING_SECONDS, shield=True):
        await response.aclose()


async def _drain(frames: AsyncIterator[bytes]) -> None:
    """Read what follows the last event, which is next to nothing, so that the connection serves the next turn too."""
    with anyio.move_on_after(DRAINING_SECONDS):
        try:
            async for _ in frames:
                continue
        except UpstreamBroken:
            return  # The response had ended; what happens to the connection then changes nothing.

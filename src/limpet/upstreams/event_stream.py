"""A turn's request to a provider that answers with server-sent events, and the data of these events as they come.

It must never show the provider's key, and never ask again once the first byte of an answer has arrived.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import anyio
import httpx2
import msgspec

from limpet.core.clock import MICROSECONDS, Clock
from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.upstreams.client import ProviderClient, beginning_of, close, reason_of
from limpet.upstreams.endpoints import Access
from limpet.upstreams.key_filter import KeyFilter, hide_key
from limpet.upstreams.refusals import refusal
from limpet.upstreams.retries import told_wait
from limpet.upstreams.sse import Frames, FrameTooLarge

DONE = b"[DONE]"  # what some wires send after their last event
DRAINING_SECONDS = 0.25
_STREAMED = {"accept": "text/event-stream", "accept-encoding": "identity", "content-type": "application/json"}

_decode = msgspec.json.Decoder().decode


class EventStreams:
    """The streamed answers of the provider `name`."""

    def __init__(self, name: str, client: ProviderClient, clock: Clock) -> None:
        self._name = name
        self._client = client
        self._clock = clock

    async def frames(self, url: str, content: bytes, access: Access) -> AsyncGenerator[bytes, None]:
        """The data of each event of the answer. The connection is closed with this iterator. Raises UpstreamRefused before, and
        UpstreamBroken after the first byte of a success."""
        response = await self._open(url, content, access)
        frames = Frames()
        try:
            async for chunk in _body(response):
                for data in frames.feed(chunk):
                    yield data
            for data in frames.finish():
                yield data
        except (httpx2.HTTPError, httpx2.StreamError, FrameTooLarge) as error:
            raise UpstreamBroken(self._name, hide_key(reason_of(error), access.secret)) from error
        finally:
            await close(response)

    def encoded(self, body: Mapping[str, Any]) -> bytes:
        """A request's body. Raises UpstreamRefused (400) for what JSON cannot carry."""
        try:
            return msgspec.json.encode(body)
        except UnicodeEncodeError as error:
            raise UpstreamRefused(
                self._name, 400, "the input has half of a surrogate pair. Send whole characters."
            ) from error

    def event(self, data: bytes, keys: KeyFilter) -> dict[str, Any]:
        """One event, without the key. Raises UpstreamBroken."""
        try:
            event = _decode(data)
            if not isinstance(event, dict):
                raise UpstreamBroken(self._name, "an event is not a JSON object.")
            return keys.hide(event) if keys.may_hold_key(data) else event
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UpstreamBroken(self._name, "an event is not JSON; it was cut or garbled.") from error

    async def _open(self, url: str, content: bytes, access: Access) -> httpx2.Response:
        """An answer whose first byte has arrived. Raises UpstreamRefused."""
        request = self._client.build_request("POST", url, content=content, headers={**_STREAMED, **access.headers})
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.TransportError as error:
            said = hide_key(reason_of(error), access.secret)
            raise UpstreamRefused(self._name, None, f"it cannot be reached: {said}") from error
        try:
            await self._check(response, access)
        except BaseException:
            await close(response)
            raise
        return response

    async def _check(self, response: httpx2.Response, access: Access) -> None:
        """Raises UpstreamRefused for an error status, and for an answer that is no stream."""
        if not response.is_success:
            body = await beginning_of(response)
            now = self._clock.now() / MICROSECONDS
            wait = told_wait(response.headers, now=now)
            raise refusal(self._name, response.status_code, body, access.secret, retry_after=wait)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in {"application/json", "text/html"}:
            raise UpstreamRefused(
                self._name, None, f"it answered with {kind} where an event stream was asked for. Check its base_url."
            )


async def drain(frames: AsyncIterator[bytes]) -> None:
    """Read what follows the last event, which is next to nothing, so that the connection serves the next turn too."""
    with anyio.move_on_after(DRAINING_SECONDS):
        try:
            async for _ in frames:
                continue
        except UpstreamBroken:
            return  # The response had ended; what happens to the connection then changes nothing.


def _body(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The bytes of an answer as they come; each layer that has nothing to do costs as much as an event."""
    if "content-encoding" not in response.headers and isinstance(response.stream, httpx2.AsyncByteStream):
        return aiter(response.stream)
    return response.aiter_bytes()

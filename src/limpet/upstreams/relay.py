"""Provider types `openai` and `azure_openai`: a server that speaks the Responses API. Its events pass with the least decoding that
renumbering allows.

It must never show the provider's key, and never ask again once the first byte of an answer has arrived.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Self

import anyio
import httpx2
import msgspec

from limpet.core.clock import MICROSECONDS, Clock, SystemClock
from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.upstreams.client import ProviderClient, close, reason_of
from limpet.upstreams.endpoints import Access, endpoint_of
from limpet.upstreams.key_filter import KeyFilter, hide_key
from limpet.upstreams.key_pieces import SplitEvents
from limpet.upstreams.known_models import ModelListing, listed_models
from limpet.upstreams.refusals import refusal
from limpet.upstreams.relay_compaction import RelayCompaction
from limpet.upstreams.relay_events import RelayEventReader
from limpet.upstreams.relay_request import request_body
from limpet.upstreams.retries import RetryBudget, told_wait
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.sse import Frames, FrameTooLarge
from limpet.upstreams.token_counts import asked_of_provider
from limpet.upstreams.upstream import Turn, TurnEvent

ERROR_BODY_BYTES = 64 * 1024
DRAINING_SECONDS = 0.25
_STREAMED = {"accept": "text/event-stream", "accept-encoding": "identity", "content-type": "application/json"}

_decode = msgspec.json.Decoder().decode


class RelayUpstream:
    """One Responses-native provider. `base_url` is what stands before `/responses`; at Azure, what stands before `/openai`."""

    tool_types = None

    def __init__(
        self, settings: ProviderSettings, *, retries: RetryBudget | None = None, clock: Clock | None = None
    ) -> None:
        self.name = settings.name
        self.type = settings.type
        self.has_native_shell = settings.native_shell
        self._settings = settings
        self._endpoint = endpoint_of(settings)
        self._retries = retries
        self._clock = clock or SystemClock()
        self._client: ProviderClient | None = None
        self.compaction = self._compaction() if settings.native_compaction else None

    def _compaction(self) -> RelayCompaction:
        return RelayCompaction(
            self.name, self._endpoint, native_shell=self.has_native_shell, client=lambda: self._client
        )

    async def __aenter__(self) -> Self:
        self._client = ProviderClient(self._settings, retries=self._retries, clock=self._clock)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """See `Upstream.stream`. A provider's `error` or `response.failed` event ends the turn as failed; it is not raised."""
        named = replace(turn, model=self._endpoint.model_name(turn.model))
        body = request_body(named, native_shell=self.has_native_shell, provider=self.name)
        reader = RelayEventReader(function_shell=turn.shell is not None and not self.has_native_shell)
        try:
            content = msgspec.json.encode(body)
        except UnicodeEncodeError as error:
            raise UpstreamRefused(
                self.name, 400, "the input has half of a surrogate pair. Send whole characters."
            ) from error
        access = await self._endpoint.access()
        split = SplitEvents(KeyFilter(access.secret))
        async with aclosing(self._frames(content, access)) as frames:
            async for data in frames:
                if data == b"[DONE]":
                    continue
                for part in self._events(data, split):
                    for event in self._read(reader, part):
                        yield event
                if reader.ended:
                    await _drain(frames)
                    return
        raise UpstreamBroken(self.name, "the connection closed before the response had ended.")

    async def model_names(self) -> Sequence[str]:
        """See `Upstream.model_names`."""
        if self._client is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        headers = {"accept": "application/json", **(await self._endpoint.access()).headers}
        return await listed_models(self._client, ModelListing(self._endpoint.models, headers))

    async def input_tokens(self, turn: Turn) -> int | None:
        """See `TokenCounter.input_tokens`."""
        if self._client is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        named = replace(turn, model=self._endpoint.model_name(turn.model))
        body = request_body(named, native_shell=self.has_native_shell, provider=self.name)
        access = await self._endpoint.access()
        return await asked_of_provider(self._client, self._endpoint.responses, body, access=access, provider=self.name)

    def _events(self, data: bytes, split: SplitEvents) -> list[dict[str, Any]]:
        """What an event says, without the key; nothing as long as it may be the key's beginning."""
        try:
            event = _decode(data)
            if not isinstance(event, dict):
                raise UpstreamBroken(self.name, "an event is not a JSON object.")
            keys = split.keys
            return [*split.feed(keys.hide(event) if keys.may_hold_key(data) else event)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UpstreamBroken(self.name, "an event is not JSON; it was cut or garbled.") from error

    def _read(self, reader: RelayEventReader, event: dict[str, Any]) -> list[TurnEvent]:
        try:
            return list(reader.read(event))
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            # Values of other kinds than the Responses API has: what they were meant to say cannot be known.
            raise UpstreamBroken(self.name, "an event is not of the form that the Responses API gives it.") from error

    async def _frames(self, content: bytes, access: Access) -> AsyncGenerator[bytes, None]:
        """The data of each event of the answer. The connection is closed with this iterator."""
        response = await self._open(content, access)
        frames = Frames()
        try:
            async for chunk in _body(response):
                for data in frames.feed(chunk):
                    yield data
            for data in frames.finish():
                yield data
        except (httpx2.HTTPError, httpx2.StreamError, FrameTooLarge) as error:
            raise UpstreamBroken(self.name, hide_key(reason_of(error), access.secret)) from error
        finally:
            await close(response)

    async def _open(self, content: bytes, access: Access) -> httpx2.Response:
        """An answer whose first byte has arrived. Raises UpstreamRefused."""
        if self._client is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        request = self._client.build_request(
            "POST", self._endpoint.responses, content=content, headers={**_STREAMED, **access.headers}
        )
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.TransportError as error:
            said = hide_key(reason_of(error), access.secret)
            raise UpstreamRefused(self.name, None, f"it cannot be reached: {said}") from error
        try:
            await self._check(response, access)
        except BaseException:
            await close(response)
            raise
        return response

    async def _check(self, response: httpx2.Response, access: Access) -> None:
        """Raises UpstreamRefused for an error status, and for an answer that is no stream."""
        if not response.is_success:
            body = await _beginning_of(response)
            now = self._clock.now() / MICROSECONDS
            wait = told_wait(response.headers, now=now)
            raise refusal(self.name, response.status_code, body, access.secret, retry_after=wait)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in {"application/json", "text/html"}:
            raise UpstreamRefused(
                self.name, None, f"it answered with {kind} where an event stream was asked for. Check its base_url."
            )


def _body(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The bytes of an answer as they come; each layer that has nothing to do costs as much as an event."""
    if "content-encoding" not in response.headers and isinstance(response.stream, httpx2.AsyncByteStream):
        return aiter(response.stream)
    return response.aiter_bytes()


async def _beginning_of(response: httpx2.Response) -> bytes:
    """The body of an error, as much of it as is worth reading; it may break off."""
    body = b""
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= ERROR_BODY_BYTES:
                break
    except httpx2.TransportError:
        return body  # The status says that it failed; what has arrived says why.
    return body[:ERROR_BODY_BYTES]


async def _drain(frames: AsyncIterator[bytes]) -> None:
    """Read what follows the last event, which is next to nothing, so that the connection serves the next turn too."""
    with anyio.move_on_after(DRAINING_SECONDS):
        try:
            async for _ in frames:
                continue
        except UpstreamBroken:
            return  # The response had ended; what happens to the connection then changes nothing.

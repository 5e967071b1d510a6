"""Provider types `openai` and `azure_openai`: a server that speaks the Responses API. Its events pass with the least decoding that
renumbering allows.

It must never show the provider's key, and never ask again once the first byte of an answer has arrived.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Self

from limpet.core.clock import Clock, SystemClock
from limpet.core.errors import UpstreamBroken
from limpet.upstreams.client import ProviderClient
from limpet.upstreams.endpoints import endpoint_of
from limpet.upstreams.event_stream import DONE, EventStreams, drain
from limpet.upstreams.key_filter import KeyFilter
from limpet.upstreams.key_pieces import SplitEvents
from limpet.upstreams.known_models import ModelListing, listed_models
from limpet.upstreams.patch_function import is_patch_tool
from limpet.upstreams.provider_containers import ContainerAnswer, ContainerRequest, asked_of_containers
from limpet.upstreams.relay_compaction import RelayCompaction
from limpet.upstreams.relay_events import RelayEventReader
from limpet.upstreams.relay_request import request_body
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.token_counts import asked_of_provider
from limpet.upstreams.upstream import Turn, TurnEvent


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
        self._streams: EventStreams | None = None
        self.compaction = self._compaction() if settings.native_compaction else None

    def _compaction(self) -> RelayCompaction:
        return RelayCompaction(
            self.name, self._endpoint, native_shell=self.has_native_shell, client=lambda: self._client
        )

    async def __aenter__(self) -> Self:
        self._client = ProviderClient(self._settings, retries=self._retries, clock=self._clock)
        self._streams = EventStreams(self.name, self._client, self._clock)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """See `Upstream.stream`. A provider's `error` or `response.failed` event ends the turn as failed; it is not raised."""
        named = replace(turn, model=self._endpoint.model_name(turn.model))
        body = request_body(named, native_shell=self.has_native_shell, provider=self.name)
        reader = RelayEventReader(
            function_shell=turn.shell is not None and not self.has_native_shell,
            own_shell=turn.provider_shell is not None,
            function_patch=not self.has_native_shell and any(map(is_patch_tool, turn.tools)),
        )
        streams = self._open_streams()
        content = streams.encoded(body)
        access = await self._endpoint.access()
        split = SplitEvents(KeyFilter(access.secret))
        async with aclosing(streams.frames(self._endpoint.responses, content, access)) as frames:
            async for data in frames:
                if data == DONE:
                    continue
                for part in self._parts(streams.event(data, split.keys), split):
                    for event in self._read(reader, part):
                        yield event
                if reader.ended:
                    await drain(frames)
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

    async def containers(self, request: ContainerRequest) -> ContainerAnswer:
        """See `ContainerProvider.containers`."""
        if self._client is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        return await asked_of_containers(self._client, self._endpoint, request, provider=self.name, clock=self._clock)

    def _open_streams(self) -> EventStreams:
        if self._streams is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        return self._streams

    def _parts(self, event: dict[str, Any], split: SplitEvents) -> list[dict[str, Any]]:
        """What an event says; nothing as long as it may be the key's beginning."""
        try:
            return [*split.feed(event)]
        except RecursionError as error:
            raise UpstreamBroken(self.name, "an event is not JSON; it was cut or garbled.") from error

    def _read(self, reader: RelayEventReader, event: dict[str, Any]) -> list[TurnEvent]:
        try:
            return list(reader.read(event))
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            # Values of other kinds than the Responses API has: what they were meant to say cannot be known.
            raise UpstreamBroken(self.name, "an event is not of the form that the Responses API gives it.") from error

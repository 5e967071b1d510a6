"""Providers that speak another wire than the Responses API, read directly: one turn in, events out. The wire is a `Translation`."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, Self

import msgspec

from limpet.core.clock import Clock, SystemClock
from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.upstreams.answer_reader import AnswerReader, StreamedError
from limpet.upstreams.client import ProviderClient
from limpet.upstreams.endpoints import Access
from limpet.upstreams.event_stream import DONE, EventStreams, drain
from limpet.upstreams.function_names import TOOL_TYPES, FunctionNames
from limpet.upstreams.item_writer import ItemWriter
from limpet.upstreams.key_filter import KeyFilter
from limpet.upstreams.known_models import ModelListing, listed_models
from limpet.upstreams.refusals import refusal
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.turn_request import names_of
from limpet.upstreams.upstream import Turn, TurnEvent

# How a reader stumbles over an event that is JSON and yet not of its wire.
UNREADABLE = (AttributeError, TypeError, LookupError, ValueError)


@dataclass(frozen=True, slots=True)
class TranslatedRequest:
    """Where a turn is sent, and as what."""

    url: str
    body: Mapping[str, Any]


class Translation(Protocol):
    """A wire: what a turn is in it, who asks, and how its answer is read."""

    @property
    def models_url(self) -> str | None:
        """What lists the models; None where nothing does."""
        ...

    def request(self, turn: Turn, names: FunctionNames) -> TranslatedRequest:
        """Raises UpstreamRefused (400) for what has no translation."""
        ...

    async def access(self) -> Access:
        """The headers that say who asks. Raises UpstreamRefused for a key that cannot be sent or credentials that cannot be had."""
        ...

    def reader(self, writer: ItemWriter) -> AnswerReader:
        """Reads one answer, and writes its items."""
        ...


class TranslatedUpstream:
    """One translated provider; its models know the shell as a function."""

    has_native_shell = False
    compaction = None
    tool_types = TOOL_TYPES

    def __init__(
        self,
        settings: ProviderSettings,
        translation: Translation,
        *,
        retries: RetryBudget | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = settings.name
        self.type = settings.type
        self._settings = settings
        self._translation = translation
        self._retries = retries
        self._clock = clock or SystemClock()
        self._client: ProviderClient | None = None

    async def __aenter__(self) -> Self:
        self._client = ProviderClient(self._settings, retries=self._retries, clock=self._clock)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def model_names(self) -> Sequence[str]:
        """See `Upstream.model_names`."""
        access = await self._translation.access()
        url = self._translation.models_url
        return () if url is None else await listed_models(self._open_client(), ModelListing(url, access.headers))

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """See `Upstream.stream`. What has no translation is refused with 400 before anything is sent."""
        streams = EventStreams(self.name, self._open_client(), self._clock)
        names = names_of(turn)
        request = self._translation.request(turn, names)
        content = streams.encoded(request.body)
        access = await self._translation.access()
        keys = KeyFilter(access.secret)
        writer = ItemWriter(provider=self.name, has_shell=turn.shell is not None, names=names, keys=keys)
        reader = self._translation.reader(writer)
        has_begun = has_finished = False
        async with aclosing(streams.frames(request.url, content, access)) as frames:
            try:
                async for data in frames:
                    if data.startswith(DONE):
                        has_finished = True
                        await drain(frames)
                        break
                    for event in reader.read(streams.event(data, keys)):
                        has_begun = True
                        yield event
                if not (has_finished or reader.has_finished):
                    raise UpstreamBroken(self.name, "the connection closed before the answer had ended.")
                ending = list(reader.end())
            except StreamedError as error:
                raise self._said(error.error, access, has_begun=has_begun) from error
            except UNREADABLE as error:
                raise UpstreamBroken(
                    self.name, "an event cannot be read. Check that its type and base_url belong together."
                ) from error
        for event in ending:
            yield event

    def _open_client(self) -> ProviderClient:
        if self._client is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        return self._client

    def _said(self, error: object, access: Access, *, has_begun: bool) -> UpstreamRefused | UpstreamBroken:
        """An error of the provider's in its stream. Before anything was said it is what an error status would have been."""
        code = error.get("code") if isinstance(error, Mapping) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        body = msgspec.json.encode({"error": error})
        refused = refusal(self.name, status or 500, body, access.secret)
        if has_begun:
            return UpstreamBroken(self.name, refused.detail)
        refused.status = status
        return refused

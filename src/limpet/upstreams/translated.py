"""Providers that speak another wire than the Responses API, read directly: one turn in, events out. The wire is a `Translation`."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
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
from limpet.upstreams.token_counts import counted_at
from limpet.upstreams.turn_request import names_of
from limpet.upstreams.upstream import Turn, TurnEvent

# How a reader stumbles over an event that is JSON and yet not of its wire.
UNREADABLE = (AttributeError, TypeError, LookupError, ValueError)


@dataclass(frozen=True, slots=True)
class TranslatedRequest:
    """Where a turn is sent, and as what; `headers` are beside those of the access."""

    url: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


class Translation(Protocol):
    """A wire: what a turn is in it, who asks, and how its answer is read."""

    @property
    def models_url(self) -> str | None:
        """What lists the models; None where nothing does."""
        ...

    def request(self, turn: Turn, names: FunctionNames) -> TranslatedRequest:
        """Raises UpstreamRefused (400) for what has no translation."""
        ...

    def other_request(self, request: TranslatedRequest, refused: UpstreamRefused) -> TranslatedRequest | None:
        """What to ask in place of a request that was refused, where that says what would be taken; None otherwise."""
        ...

    def count_request(self, request: TranslatedRequest) -> TranslatedRequest | None:
        """What counts the tokens of a turn's input, which is answered with `input_tokens`; None where nothing does."""
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

    async def input_tokens(self, turn: Turn) -> int | None:
        """See `TokenCounter.input_tokens`."""
        asked = self._translation.count_request(self._translation.request(turn, names_of(turn)))
        if asked is None:
            return None
        access = await self._translation.access()
        as_whom = replace(access, headers={**access.headers, **asked.headers})
        return await counted_at(self._open_client(), asked.url, asked.body, access=as_whom, provider=self.name)

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """See `Upstream.stream`. What has no translation is refused with 400 before anything is sent."""
        streams = EventStreams(self.name, self._open_client(), self._clock)
        names = names_of(turn)
        asked = self._translation.request(turn, names)
        access = await self._translation.access()
        keys = KeyFilter(access.secret)
        has_begun = is_again = False
        while True:
            writer = ItemWriter(provider=self.name, has_shell=turn.shell is not None, names=names, keys=keys)
            reader = self._translation.reader(writer)
            try:
                async with aclosing(self._sent(streams, asked, access)) as frames:
                    async for data in frames:
                        if data.startswith(DONE) and (has_begun or reader.has_finished):
                            await drain(frames)
                            break
                        for event in self._read(reader, streams.event(data, keys), access, has_begun=has_begun):
                            has_begun = True
                            yield event
                    else:
                        self._check_finished(reader)
            except UpstreamRefused as refused:
                other = None if is_again else self._translation.other_request(asked, refused)
                if other is None:
                    raise
                asked, is_again = other, True
                continue
            break
        for event in self._end(reader):
            yield event

    def _sent(self, streams: EventStreams, asked: TranslatedRequest, access: Access) -> AsyncGenerator[bytes, None]:
        as_whom = replace(access, headers={**access.headers, **asked.headers})
        return streams.frames(asked.url, streams.encoded(asked.body), as_whom)

    def _read(
        self, reader: AnswerReader, event: dict[str, Any], access: Access, *, has_begun: bool
    ) -> Iterable[TurnEvent]:
        try:
            said = reader.read(event)
            return said if isinstance(said, (list, tuple)) else [*said]
        except StreamedError as error:
            raise self._said(error, access, has_begun=has_begun) from error
        except UNREADABLE as error:
            raise self._unreadable() from error

    def _end(self, reader: AnswerReader) -> Iterable[TurnEvent]:
        try:
            return [*reader.end()]
        except UNREADABLE as error:
            raise self._unreadable() from error

    def _check_finished(self, reader: AnswerReader) -> None:
        """Without the mark of the end."""
        if not reader.has_finished:
            raise UpstreamBroken(self.name, "the connection closed before the answer had ended.")

    def _unreadable(self) -> UpstreamBroken:
        return UpstreamBroken(self.name, "an event cannot be read. Check that its type and base_url belong together.")

    def _open_client(self) -> ProviderClient:
        if self._client is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        return self._client

    def _said(self, said: StreamedError, access: Access, *, has_begun: bool) -> UpstreamRefused | UpstreamBroken:
        """An error of the provider's in its stream. Before anything was said it is what an error status would have been."""
        body = msgspec.json.encode({"error": said.error})
        refused = refusal(self.name, said.status or 500, body, access.secret)
        if has_begun:
            return UpstreamBroken(self.name, refused.detail)
        refused.status = said.status
        return refused

"""Providers that speak another wire than the Responses API, through pydantic-ai's direct interface: one turn in, events out.

`history` and `model_request` build what the model is sent, `model_events` translates what it answers; this file connects them. The
provider's own file gives a `Connect`, which decides the wire.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any, Self

import anyio
import httpx2
import msgspec
from anyio import to_thread
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, ModelAPIError, ModelHTTPError, UserError
from pydantic_ai.messages import ModelMessage, ModelResponseStreamEvent
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings

from limpet.core.clock import MICROSECONDS, Clock, SystemClock
from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams.client import ProviderClient, reason_of
from limpet.upstreams.function_names import TOOL_TYPES, FunctionNames
from limpet.upstreams.history import messages_of
from limpet.upstreams.key_filter import KeyFilter, hide_key
from limpet.upstreams.known_models import ModelListing, listed_models
from limpet.upstreams.model_events import ModelEventReader
from limpet.upstreams.model_request import names_of, request_parameters, settings
from limpet.upstreams.refusals import header_value, refusal
from limpet.upstreams.retries import RetryBudget, told_wait
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.token_counts import UNKNOWN
from limpet.upstreams.turn_request import instructions_of
from limpet.upstreams.upstream import Turn, TurnEvent

# A key for servers that want none: the official clients insist on some text.
NO_KEY = "none"
# How the libraries stumble over an event that is JSON and yet not of their wire.
UNREADABLE = (AttributeError, TypeError, LookupError, ValueError)


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire: its models by name, what it adds to a turn's settings, where they are listed (None: nowhere), whether it takes only plain
    letters in the ids of calls, what it sends in place of a key, which must be shown as little, and how its library says that there are
    no credentials."""

    model: Callable[[str], Model[Any]]
    settings: Callable[[Turn, ModelSettings], ModelSettings]
    listing: ModelListing | None
    plain_ids: bool = False
    token: Callable[[], Secret | None] | None = None
    unauthorized: tuple[type[Exception], ...] = ()


Connect = Callable[[ProviderSettings, ProviderClient, str], Wire]
"""Given the settings, the client and the key as text, "none" without one. It runs in a thread, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LibraryRequest:
    """A turn in the library's terms."""

    messages: list[ModelMessage]
    parameters: ModelRequestParameters
    settings: ModelSettings


class ModelsUpstream:
    """One translated provider; its models know the shell as a function."""

    has_native_shell = False
    compaction = None
    tool_types = TOOL_TYPES

    def __init__(
        self,
        given: ProviderSettings,
        *,
        connect: Connect,
        retries: RetryBudget | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = given.name
        self.type = given.type
        self._given = given
        self._connect = connect
        self._retries = retries
        self._clock = clock or SystemClock()
        self._client: ProviderClient | None = None
        self._wire: Wire | None = None
        self._connecting = anyio.Lock()

    async def __aenter__(self) -> Self:
        self._client = ProviderClient(self._given, retries=self._retries, clock=self._clock)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def model_names(self) -> Sequence[str]:
        """See `Upstream.model_names`."""
        wire = await self._connected()
        return () if self._client is None or wire.listing is None else await listed_models(self._client, wire.listing)

    async def input_tokens(self, turn: Turn) -> int | None:
        """See `TokenCounter.input_tokens`. A model that its provider does not count for has none."""
        names = names_of(turn)
        wire = await self._connected()
        asked = self._asked(wire, turn, names)
        try:
            counted = await wire.model(turn.model).count_tokens(asked.messages, asked.settings, asked.parameters)
        except NotImplementedError:
            return None
        except (AgentRunError, UserError, httpx2.HTTPError, httpx2.StreamError) as error:
            if isinstance(error, UserError) or getattr(error, "status_code", None) in UNKNOWN:
                return None
            raise self._translated(error, begun=False) from error
        except wire.unauthorized as error:
            raise UpstreamRefused(self.name, 401, f"its credentials do not serve: {self._reason(error)}") from error
        except ValueError as error:
            raise UpstreamRefused(self.name, 400, self._reason(error)) from error
        return counted.input_tokens or None

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """See `Upstream.stream`. What has no translation is refused with 400 before anything is sent."""
        names = names_of(turn)
        wire = await self._connected()
        answer = ModelEventReader(
            provider=self.name, has_shell=turn.shell is not None, names=names, keys=KeyFilter(self._secret())
        )
        road = self._road(wire, turn, names)
        begun = False
        try:
            async with road as stream, aclosing(self._events(stream)) as events:
                begun = True
                async for event in events:
                    for said in answer.read(event):
                        yield said
                ending = self._ending(answer, stream)
        except (AgentRunError, UserError, httpx2.HTTPError, httpx2.StreamError) as error:
            raise self._translated(error, begun=begun) from error
        except wire.unauthorized as error:
            reason = f"its credentials do not serve: {self._reason(error)}"
            raise (UpstreamBroken(self.name, reason) if begun else UpstreamRefused(self.name, 401, reason)) from error
        except ValueError as error:
            if begun:
                raise
            # Something in the request that no wire can carry: a schema without a type, half of a character.
            raise UpstreamRefused(self.name, 400, self._reason(error)) from error
        for said in ending:
            yield said

    async def _events(self, stream: StreamedResponse) -> AsyncGenerator[ModelResponseStreamEvent, None]:
        try:
            async for event in stream:
                yield event
        except UNREADABLE as error:
            raise UpstreamBroken(
                self.name, "an event cannot be read. Check that its type and base_url belong together."
            ) from error

    def _road(self, wire: Wire, turn: Turn, names: FunctionNames) -> AbstractAsyncContextManager[StreamedResponse]:
        """The request, not yet sent. Raises UpstreamRefused for what has no translation."""
        asked = self._asked(wire, turn, names)
        return model_request_stream(
            wire.model(turn.model),
            asked.messages,
            model_settings=asked.settings,
            model_request_parameters=asked.parameters,
        )

    def _asked(self, wire: Wire, turn: Turn, names: FunctionNames) -> _LibraryRequest:
        messages = messages_of(
            turn.input,
            provider=self.name,
            instructions=instructions_of(turn),
            functions=names,
            plain_ids=wire.plain_ids,
        )
        parameters = request_parameters(turn, names, provider=self.name)
        asked = settings(turn, names, provider=self.name)
        return _LibraryRequest(messages=list(messages), parameters=parameters, settings=wire.settings(turn, asked))

    async def _connected(self) -> Wire:
        """Raises UpstreamRefused for a key that no header can carry, and for credentials that cannot be had."""
        if self._client is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        async with self._connecting:
            if self._wire is None:
                key = header_value(self.name, self._given.api_key) if self._given.api_key else NO_KEY
                self._wire = await to_thread.run_sync(self._connect, self._given, self._client, key)
        return self._wire

    def _secret(self) -> Secret | None:
        """What stands in the requests and in no answer."""
        token = self._wire.token() if self._wire is not None and self._wire.token is not None else None
        return token or self._given.api_key

    def _ending(self, answer: ModelEventReader, stream: StreamedResponse) -> list[TurnEvent]:
        if stream.finish_reason is None:
            raise UpstreamBroken(self.name, "the connection closed before the answer had ended.")
        return list(
            answer.end(
                finish=stream.finish_reason,
                used=stream.usage,
                model=stream.model_name,
                details=stream.provider_details,
            )
        )

    def _translated(self, error: Exception, *, begun: bool) -> UpstreamRefused | UpstreamBroken:
        if begun:
            return UpstreamBroken(self.name, self._reason(error))
        if isinstance(error, ModelHTTPError):
            body = msgspec.json.encode(error.body) if error.body is not None else b""
            wait = told_wait(_headers_of(error), now=self._clock.now() / MICROSECONDS)
            return refusal(self.name, error.status_code, body, self._secret(), retry_after=wait)
        if isinstance(error, UserError):
            return UpstreamRefused(self.name, 400, self._reason(error))
        if isinstance(error, ModelAPIError):
            return UpstreamRefused(self.name, None, f"it cannot be reached: {self._reason(error)}")
        return UpstreamRefused(self.name, None, f"its answer cannot be read: {self._reason(error)}")

    def _reason(self, error: BaseException) -> str:
        """What the first of the chained errors says: the libraries' own wrap it in words of little use."""
        while error.__cause__ is not None and not isinstance(error, httpx2.ReadTimeout):
            error = error.__cause__
        return self._hide(reason_of(error))

    def _hide(self, text: str) -> str:
        return hide_key(text, self._secret())


def _headers_of(error: ModelHTTPError) -> Mapping[str, str]:
    """The headers of the answer that the provider's client refused."""
    response = getattr(error.__cause__, "response", None)
    return response.headers if isinstance(response, httpx2.Response) else error.headers or {}

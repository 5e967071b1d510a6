"""The models that providers say they have, for `GET /v1/models`: asked within a bound of time, remembered, and quiet where it fails."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import httpx2
import msgspec

from limpet.core.clock import Clock
from limpet.core.errors import LimpetError
from limpet.upstreams.client import ProviderClient
from limpet.upstreams.routing import Route

SECONDS = 2.0  # that all providers together may take
FRESH = 300.0  # seconds for which an answer is remembered
AGAIN = 15.0  # seconds after which one that did not answer is asked again
MOST = 2_000  # models of one provider
LONGEST = 256  # characters of a name
BODY_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ModelListing:
    """Where a provider lists its models, and the headers that it wants."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


class _Model(msgspec.Struct):
    id: str


class _Page(msgspec.Struct):
    data: list[_Model]


_decode = msgspec.json.Decoder(_Page).decode


async def listed_models(client: ProviderClient, listing: ModelListing) -> tuple[str, ...]:
    """The names that it lists; none where it fails, or answers with something else."""
    body = bytearray()
    try:
        async with client.stream("GET", listing.url, headers=dict(listing.headers)) as response:
            if not response.is_success:
                return ()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > BODY_BYTES:
                    return ()
        page = _decode(bytes(body))
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, msgspec.MsgspecError, UnicodeDecodeError):
        return ()
    return tuple(model.id for model in page.data[:MOST] if 0 < len(model.id) <= LONGEST and model.id.isprintable())


class KnownModels:
    """What was heard last, by the provider's name. Only providers whose models are not all named in the configuration are asked."""

    def __init__(self, routes: Sequence[Route], *, clock: Clock) -> None:
        self._routes = tuple(route for route in routes if route.is_open_ended)
        self._clock = clock
        self._asking = anyio.Lock()
        self._asks_at: dict[str, float] = {}
        self.names: dict[str, tuple[str, ...]] = {}

    async def refresh(self) -> None:
        """Ask those whose answers are old. A provider that does not answer in time keeps its earlier ones."""
        async with self._asking:
            now = self._clock.monotonic()
            due = [route for route in self._routes if now >= self._asks_at.get(route.upstream.name, -math.inf)]
            self._asks_at |= {route.upstream.name: now + AGAIN for route in due}
            if not due:
                return
            with anyio.move_on_after(SECONDS):
                async with anyio.create_task_group() as tasks:
                    for route in due:
                        tasks.start_soon(self._ask, route, now)

    async def _ask(self, route: Route, now: float) -> None:
        try:
            names = await route.upstream.model_names()
        except LimpetError:  # its key cannot be sent: each request says so
            return
        if names:
            self.names[route.upstream.name] = tuple(names)
            self._asks_at[route.upstream.name] = now + FRESH

"""A provider whose program is loaded by its first turn: the libraries of some take a second, which the start of a gateway need not."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Self

import anyio
from anyio import to_thread

from limpet.upstreams.function_names import TOOL_TYPES
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import Turn, TurnEvent, Upstream


class DeferredUpstream:
    """Stands for a translated provider. `load` gives it, not yet open; it runs in a thread, and may be given up and run again."""

    has_native_shell = False
    tool_types = TOOL_TYPES
    compaction = None

    def __init__(self, settings: ProviderSettings, load: Callable[[], Upstream]) -> None:
        self.name = settings.name
        self.type = settings.type
        self._load = load
        self._loading = anyio.Lock()
        self._loaded: Upstream | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def model_names(self) -> Sequence[str]:
        """See `Upstream.model_names`."""
        return await (await self._upstream()).model_names()

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """See `Upstream.stream`."""
        upstream = await self._upstream()
        async with aclosing(upstream.stream(turn)) as events:
            async for event in events:
                yield event

    async def _upstream(self) -> Upstream:
        async with self._loading:
            if self._loaded is None:
                loaded = await to_thread.run_sync(self._load, abandon_on_cancel=True)
                self._loaded = await self._stack.enter_async_context(loaded)
        return self._loaded

"""A provider whose program is loaded by its first turn: the libraries of some take a second, which the start of a gateway need not."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Self

import anyio
import structlog
from anyio import to_thread

from limpet.core.errors import LimpetError, UpstreamError
from limpet.upstreams.function_names import TOOL_TYPES
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.token_counts import TokenCounter
from limpet.upstreams.upstream import Turn, TurnEvent, Upstream

log = structlog.get_logger()


class UpstreamUnusable(UpstreamError):
    """The provider's own library cannot be loaded or set up; `reason` is the end of a sentence."""

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(f"The provider {provider} cannot be used: {reason}. The gateway's log says more.")


class DeferredUpstream:
    """Stands for a translated provider. `load` gives it, not yet open; it runs in a thread, and may be given up and run again. While it
    fails each turn raises UpstreamUnusable."""

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

    async def input_tokens(self, turn: Turn) -> int | None:
        """See `TokenCounter.input_tokens`."""
        upstream = await self._upstream()
        return await upstream.input_tokens(turn) if isinstance(upstream, TokenCounter) else None

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """See `Upstream.stream`."""
        upstream = await self._upstream()
        async with aclosing(upstream.stream(turn)) as events:
            async for event in events:
                yield event

    async def _upstream(self) -> Upstream:
        async with self._loading:
            if self._loaded is None:
                self._loaded = await self._opened()
        return self._loaded

    async def _opened(self) -> Upstream:
        try:
            loaded = await to_thread.run_sync(self._load, abandon_on_cancel=True)
            return await self._stack.enter_async_context(loaded)
        except LimpetError:
            raise
        except ImportError as error:
            log.error("provider_not_loaded", provider=self.name, type=self.type, exc_info=error)
            raise UpstreamUnusable(self.name, f"{error.name or 'a library'} cannot be imported") from error
        except Exception as error:  # of a library, at its import or as it reads its own settings
            log.error("provider_not_loaded", provider=self.name, type=self.type, exc_info=error)
            raise UpstreamUnusable(self.name, f"its library failed with {type(error).__name__}") from error

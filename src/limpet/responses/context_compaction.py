"""What compaction means for one request: who does it, how, and what a conversation with compactions in it says to a model."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog
from anyio import to_thread

from limpet.containers.manager import ContainerManager
from limpet.containers.wire_objects import shown
from limpet.core.box_directories import DATA
from limpet.core.errors import LimpetError
from limpet.responses.compaction.compacted import ContextSealer
from limpet.responses.compaction.compactor import CompactionOrder, Compactor, tokens_beside
from limpet.responses.compaction.expansion import COMPACTION, ExpandedInput, expanded_chain, expanded_input
from limpet.responses.compaction.marker import MOST_FILES_NAMED, ShellFacts
from limpet.responses.compaction.summary import Summariser
from limpet.responses.compaction_settings import CompactionSettings
from limpet.responses.history import History
from limpet.responses.placement import ShellTarget
from limpet.responses.request import ParsedRequest
from limpet.store.sealing import Sealer
from limpet.upstreams.routing import ChosenRoute
from limpet.upstreams.upstream import ShellOffer, Upstream

log = structlog.get_logger()
Json = dict[str, Any]
T = TypeVar("T")
NOT_FOLLOWED = (
    "`context_management` was not followed: the provider {provider} does not compact, and compaction by the gateway is switched off "
    "(features.responses.compaction.enabled)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompaction:
    """Knows what the operator chose, the key that seals and the containers whose files are told."""

    settings: CompactionSettings
    sealer: Sealer
    containers: ContainerManager
    directory: str = DATA

    def sealer_of(self, tenant: str) -> ContextSealer:
        return ContextSealer(self.sealer, tenant=tenant)

    async def chained(self, tenant: str, before: History, upstream: Upstream) -> History:
        """The earlier items as the model is told them."""
        sealer, takes_sealed = self.sealer_of(tenant), upstream.compaction is not None

        def expand() -> list[Json]:
            return expanded_chain(before.items, sealer, takes_sealed=takes_sealed)

        return replace(before, items=await _beside_the_loop(expand, before.items))

    async def expanded(
        self, tenant: str, items: Sequence[Json], *, earlier: Sequence[Json], upstream: Upstream
    ) -> ExpandedInput:
        """The items of a request behind the earlier ones, as the model is told them. Raises RequestInvalid (invalid_encrypted_content)."""
        sealer, takes_sealed = self.sealer_of(tenant), upstream.compaction is not None

        def expand() -> ExpandedInput:
            return expanded_input(items, sealer, earlier=earlier, takes_sealed=takes_sealed)

        return await _beside_the_loop(expand, items)

    def notes(self, asked: ParsedRequest, upstream: Upstream) -> list[str]:
        """What the client is told where its `context_management` has no effect; that is logged too."""
        if asked.body.context_management is None or upstream.compaction is not None or self.settings.enabled:
            return []
        log.warning("context_management_not_followed", provider=upstream.name)
        return [NOT_FOLLOWED.format(provider=upstream.name)]

    def compactor(
        self,
        asked: ParsedRequest,
        *,
        chosen: ChosenRoute,
        target: ShellTarget,
        shell: ShellOffer | None,
        tenant: str,
        response_id: str,
    ) -> Compactor | None:
        """What compacts the run's conversation; None where it stays as it is, or the provider sees to it."""
        if not self._is_ours(asked, chosen.upstream):
            return None
        return Compactor(
            order=self.order(asked),
            sealer=self.sealer_of(tenant),
            summariser=self.summariser(chosen, asked),
            facts=self._facts(tenant, target),
            fixed=tokens_beside(
                asked.body.instructions, asked.other_tools, None if shell is None else shell.description
            ),
            response_id=response_id,
        )

    def summariser(self, chosen: ChosenRoute, asked: ParsedRequest) -> Summariser:
        """By the request's prompt, else the operator's, else one of the gateway's own."""
        entry = next(iter(asked.body.context_management or ()), None)
        prompt = (entry.prompt if entry is not None else None) or self.settings.default_prompt
        return Summariser(upstream=chosen.upstream, model=chosen.model, prompt=prompt or None)

    def order(self, asked: ParsedRequest) -> CompactionOrder:
        """As the request says, else as the operator does."""
        entry = next(iter(asked.body.context_management or ()), None)
        threshold = None if entry is None else entry.compact_threshold
        strategy = None if entry is None else entry.strategy
        return CompactionOrder(
            strategy=strategy or self.settings.default_strategy,
            recent=self.settings.keep_recent_items,
            threshold=threshold or self.settings.default_threshold_tokens,
            is_triggered=asked.is_compaction,
        )

    async def facts(self, tenant: str, container_id: str | None) -> ShellFacts:
        """What holds of that container now; that it is there and no more, where its files cannot be looked at."""
        if container_id is None:
            return ShellFacts()
        try:
            page = await self.containers.files.list(tenant, container_id, limit=MOST_FILES_NAMED)
        except (LimpetError, OSError):
            return ShellFacts(container_id=container_id, directory=self.directory)
        return ShellFacts(
            container_id=container_id,
            directory=self.directory,
            files=tuple(shown(record.path) for record in page.records),
            more=page.has_more,
        )

    def _is_ours(self, asked: ParsedRequest, upstream: Upstream) -> bool:
        """Whether the gateway is to compact: on demand always (it asks a provider that can), by itself where it may."""
        is_managed = asked.body.context_management is not None and self.settings.enabled
        return asked.is_compaction or (is_managed and upstream.compaction is None)

    def _facts(self, tenant: str, target: ShellTarget) -> Callable[[Sequence[Json]], Awaitable[ShellFacts]]:
        async def facts(transcript: Sequence[Json]) -> ShellFacts:
            is_known = not target.is_new or any(item.get("type") == "shell_call" for item in transcript)
            is_ours = target.environment != {"type": "local"}
            return await self.facts(tenant, target.container_id if is_known and is_ours else None)

        return facts


async def _beside_the_loop(expand: Callable[[], T], items: Sequence[Json]) -> T:
    """In a thread where something is to be opened, which may take a second."""
    if any(item["type"] == COMPACTION for item in items):
        return await to_thread.run_sync(expand)
    return expand()

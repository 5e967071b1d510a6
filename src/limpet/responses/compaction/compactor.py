"""Compacts the conversation of one run between two of its model turns, and tells the client so with a `compaction` item.

It never stands between a call and its output: those of a turn are all there before the next turn is asked.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from anyio import to_thread

from limpet.core import events as ev
from limpet.core import ids
from limpet.responses.checkpoint import Checkpoint
from limpet.responses.compaction.compacted import (
    MAX_CHARACTERS,
    CompactedContext,
    ContextSealer,
    digests,
)
from limpet.responses.compaction.marker import ShellFacts, is_marker, marker, opening
from limpet.responses.compaction.plan import CompactionPlan, is_user_message, planned
from limpet.responses.compaction.provided import ProvidedCompaction
from limpet.responses.compaction.summary import Summariser, Summary
from limpet.responses.compaction_settings import Strategy
from limpet.responses.event_payloads import CompactionBegun
from limpet.responses.writer import Writer
from limpet.upstreams.token_estimate import estimated_tokens, tokens_of, tokens_of_item
from limpet.upstreams.upstream import LEFT_OUT
from limpet.upstreams.usage import Usage

log = structlog.get_logger()
Json = dict[str, Any]
COMPACTION = "compaction"
MOST_PLANS = 4  # until a marker fits
SAID_CHARACTERS = 2000  # of the user's messages in a marker


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOrder:
    """How a run is compacted: where its context crosses `threshold` tokens, or at once and nothing else (`is_triggered`). The newest
    `recent` items are left as they are."""

    strategy: Strategy
    recent: int
    threshold: int
    is_triggered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """`items` stand for a conversation now, of which `dropped` are gone."""

    items: list[Json]
    dropped: Sequence[Json]
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """`facts` looks up what holds of the shell of a transcript. `fixed` are the tokens of instructions and tools."""

    order: CompactionOrder
    sealer: ContextSealer
    summariser: Summariser
    facts: Callable[[Sequence[Json]], Awaitable[ShellFacts]]
    fixed: int
    response_id: str

    async def make(
        self, transcript: list[Json], progress: Checkpoint, writer: Writer, by_provider: ProvidedCompaction
    ) -> None:
        """The one compaction that was asked for: the provider's, where it has made one."""
        _charge(progress, by_provider.usage)
        if by_provider.item is None:
            await self.fit(transcript, progress, writer)
            return
        index = writer.snapshot.next_index
        await writer.tell(ev.ITEM_ADDED, output_index=index, item=by_provider.item)
        await writer.tell(ev.ITEM_DONE, output_index=index, item=by_provider.item)
        progress.next = writer.snapshot.next_index
        await writer.keep(progress.encoded())

    async def fit(self, transcript: list[Json], progress: Checkpoint, writer: Writer) -> list[Json]:
        """What the next turn is asked with: the transcript, or what stands for it now. What was done is told, and kept in `progress`.

        Raises CompactionTooLarge where it was asked for and cannot be.
        """
        begun = self._begun(writer)
        tokens = progress.context.tokens(transcript, fixed=self.fixed)
        if begun is None and not self.order.is_triggered and not progress.context.crosses(tokens, self.order.threshold):
            return transcript
        facts = await self.facts(transcript)
        plan = self._plan(transcript, tokens, facts)
        if (
            begun is None
            and not self.order.is_triggered
            and (plan is None or await to_thread.run_sync(_is_too_large, transcript, plan))
        ):
            return transcript
        index, item = begun or await self._begin(writer)
        replacement = await self._replaced(transcript, plan, facts, attempt_id=f"{self.response_id}.{item['id']}")
        left = self.estimate(replacement.items)
        sealed = await to_thread.run_sync(self._sealed, transcript, replacement)
        _charge(progress, replacement.summary.usage)
        await writer.tell(ev.ITEM_DONE, output_index=index, item={**item, "encrypted_content": sealed})
        progress.next = writer.snapshot.next_index
        progress.context.compact(left)
        await writer.keep(progress.encoded())
        log.info(
            "context_compacted",
            response_id=self.response_id,
            dropped=len(replacement.dropped),
            before=tokens,
            after=left,
        )
        return replacement.items

    def estimate(self, items: Sequence[Json]) -> int:
        """The tokens of a turn with these items."""
        return self.fixed + estimated_tokens(items)

    def _plan(self, transcript: Sequence[Json], tokens: int, facts: ShellFacts) -> CompactionPlan | None:
        """All that may go; to truncate, no more than it takes to get under the threshold with the marker."""
        if self.order.is_triggered or self.order.strategy == "llm":
            return planned(transcript, recent=self.order.recent, excess=None)
        excess = tokens - self.order.threshold
        plan = planned(transcript, recent=self.order.recent, excess=excess)
        for _ in range(MOST_PLANS):
            if plan is None:
                return None
            dropped = plan.of(transcript)
            cost = tokens_of_item(marked(transcript, plan, self.order, facts))
            if excess + cost <= estimated_tokens(dropped):
                return plan
            more = planned(transcript, recent=self.order.recent, excess=excess + cost)
            if more is None or more == plan:
                return plan
            plan = more
        return plan

    def _begun(self, writer: Writer) -> tuple[int, Json] | None:
        """A compaction that an earlier carrier of the run had begun, and its place."""
        for index in writer.snapshot.unfinished():
            if is_own(item := writer.snapshot.item(index)):
                return index, item
        return None

    async def _begin(self, writer: Writer) -> tuple[int, Json]:
        index = writer.snapshot.next_index
        item = {"id": ids.new_id(ids.COMPACTION), "type": COMPACTION, "encrypted_content": ""}
        await writer.tell(ev.ITEM_ADDED, output_index=index, item=item)
        if self.order.is_triggered and self.order.strategy == "llm":
            await writer.tell(ev.COMPACTING, CompactionBegun(item_id=item["id"], output_index=index))
        return index, item

    async def _replaced(
        self, transcript: list[Json], plan: CompactionPlan | None, facts: ShellFacts, *, attempt_id: str
    ) -> Replacement:
        if plan is None:
            return Replacement(items=transcript, dropped=(), summary=Summary(text=None))
        return await replaced(
            transcript, plan, order=self.order, summariser=self.summariser, facts=facts, attempt_id=attempt_id
        )

    def _sealed(self, transcript: Sequence[Json], replacement: Replacement) -> str:
        covered = self._covered(transcript, replacement.dropped)
        return self.sealer.seal(CompactedContext(items=replacement.items, covered=covered))

    def _covered(self, transcript: Sequence[Json], dropped: Sequence[Json]) -> list[str]:
        """A client that asked for the compaction may keep messages of the user beside it: those that it does not hold whole are told."""
        if not self.order.is_triggered:
            return digests(transcript)
        loose = {id(item) for item in dropped if is_user_message(item)}
        return digests([item for item in transcript if id(item) not in loose])


async def replaced(
    transcript: Sequence[Json],
    plan: CompactionPlan,
    *,
    order: CompactionOrder,
    summariser: Summariser,
    facts: ShellFacts,
    attempt_id: str,
    summarised: Sequence[Json] | None = None,
) -> Replacement:
    """Carry out a plan. `summarised` is what a summary is made of, where that is more than what is dropped."""
    dropped = plan.of(transcript)
    summary = Summary(text=None)
    if order.strategy == "llm":
        summary = await summariser.summarise(dropped if summarised is None else summarised, attempt_id=attempt_id)
    message = marked(transcript, plan, order, facts, summary=summary.text)
    before, after = plan.around(transcript)
    answers_first = not any(map(is_user_message, before)) and bool(after) and not is_user_message(after[0])
    begun = [opening()] if answers_first else []
    return Replacement(items=[*before, message, *begun, *after], dropped=dropped, summary=summary)


def marked(
    transcript: Sequence[Json],
    plan: CompactionPlan,
    order: CompactionOrder,
    facts: ShellFacts,
    *,
    summary: str | None = None,
) -> Json:
    """The marker for what the plan drops."""
    return marker(
        plan.of(transcript),
        summary=summary,
        facts=facts,
        since_user=_outputs_since_user(transcript, plan),
        room=min(SAID_CHARACTERS, order.threshold),
    )


def has_compacted(writer: Writer) -> bool:
    """Whether the run has made a compaction, also under an earlier carrier."""
    items, unfinished = writer.snapshot.items(), set(writer.snapshot.unfinished())
    return any(item.get("type") == COMPACTION and index not in unfinished for index, item in enumerate(items))


def _charge(progress: Checkpoint, usage: Usage | None) -> None:
    if usage is not None:
        progress.usage = usage if progress.usage is None else progress.usage + usage


def is_own(item: Json) -> bool:
    """Whether the output item is a compaction of the gateway's, not a provider's."""
    return item.get("type") == COMPACTION and ids.is_id(str(item.get("id")), prefix=ids.COMPACTION)


def tokens_beside(instructions: str | None, tools: Sequence[Json], shell: str | None) -> int:
    """Of what goes out with every turn beside its items."""
    return tokens_of(instructions) + sum(map(tokens_of_item, tools)) + tokens_of(shell)


def _outputs_since_user(transcript: Sequence[Json], plan: CompactionPlan) -> int:
    """How many shell outputs go that came after the newest message of the user."""
    newest = max((index for index, item in enumerate(transcript) if is_user_message(item)), default=-1)
    gone = [transcript[index] for index in plan.dropped if index > newest]
    return sum(
        item[LEFT_OUT].get("outputs", 0) if is_marker(item) else item.get("type") == "shell_call_output"
        for item in gone
    )


def _is_too_large(transcript: Sequence[Json], plan: CompactionPlan) -> bool:
    before, after = plan.around(transcript)
    return len(msgspec.json.encode([before, after])) * 3 // 4 * 2 > MAX_CHARACTERS

"""Takes a run up where its last carrier left it: by its journal, and by what the checkpoint says beside that.

A model turn that had ended is not asked again: its calls are carried out from the first one on that has no whole output. A turn that broke
off is asked again; its items that were told in part are closed as incomplete, and those that were told whole are not told twice
(`earlier_attempt.py`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio

from limpet.core import events as ev
from limpet.core.errors import LimpetError, StoreError
from limpet.responses import checkpoint as checkpoints
from limpet.responses.checkpoint import Checkpoint
from limpet.responses.compaction.compacted import ContextSealer
from limpet.responses.compaction.compactor import is_own
from limpet.responses.compaction.expansion import behind_newest
from limpet.responses.earlier_attempt import EarlierAttempt
from limpet.responses.failures import closed_item
from limpet.responses.history import as_input
from limpet.responses.loop import Run
from limpet.responses.prepare import Preparer
from limpet.responses.prepared_run import PreparedRun
from limpet.responses.replay import ReplayedJournal
from limpet.responses.snapshot import Snapshot
from limpet.responses.writer import Writer
from limpet.store.entries import Entry
from limpet.store.executions import Executions
from limpet.store.journal import Journal
from limpet.store.responses import FIRST_EPOCH, ResponseRecord
from limpet.store.runs import RunClaim

Json = dict[str, Any]
MOST_TAKEOVERS = 8  # of one run: one that ends each gateway which carries it must not do so for ever


class RunTakenUpTooOften(LimpetError):
    """Its gateway ended or was silent again and again while it carried the run, which may be through the run itself."""

    def __init__(self) -> None:
        super().__init__(
            f"This response was begun anew {MOST_TAKEOVERS} times behind a gateway that had ended or was silent, and did not come to its "
            "end. What it had said until then is kept."
        )


class RunUnreadable(LimpetError):
    """What a run's last carrier left cannot be read: it was of another version."""

    def __init__(self) -> None:
        super().__init__(
            "This response was begun by another version of the gateway, which left it in a form that this one cannot go on from. "
            "What it had said until then is kept; send the request again for the rest."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Knows everything that a run is made of."""

    preparer: Preparer
    journal: Journal
    executions: Executions

    async def writer(self, record: ResponseRecord, *, epoch: int | None = None) -> Writer:
        """The open journal behind all that it holds; without an epoch where the response is no run. Raises StoreError."""
        return self._writer(record, epoch, await self._entries(record.id), told_from=None)

    async def resume(
        self, record: ResponseRecord, claim: RunClaim, *, keeps_commands: Callable[[], bool]
    ) -> PreparedRun:
        """A run that goes on, with its writer. Raises RunUnreadable, RunTakenUpTooOften, or the RequestError of a request that could not
        be prepared again; then no journal is open."""
        if claim.epoch - FIRST_EPOCH > MOST_TAKEOVERS:
            raise RunTakenUpTooOften
        progress = checkpoints.read(claim.checkpoint)
        if progress is None:
            raise RunUnreadable
        begun = await self.executions.of_response(record.id)
        prepared = await self.preparer.restore(
            record, progress, begun=begun, sealed=claim.sealed, keeps_commands=keeps_commands
        )
        entries = await self._entries(record.id)
        turn = progress.turn
        writer = self._writer(record, claim.epoch, entries, told_from=None if turn is None else turn.seq)
        writer.step = progress.step if turn is None else turn.step
        prepared.writer = writer
        try:
            sealer = self.preparer.context.sealer_of(record.tenant)
            await self._restore(prepared.run(), writer.snapshot, progress, sealer)
            if turn is None and entries:
                await self._close_unfinished(prepared.run())
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(StoreError):
                await writer.close()
            raise
        return prepared

    async def _restore(self, run: Run, snapshot: Snapshot, progress: Checkpoint, sealer: ContextSealer) -> None:
        run.progress = progress
        run.calls_made = progress.calls_made
        if progress.turns and run.options.get("tool_choice") not in (None, "auto", "none"):
            run.options = {**run.options, "tool_choice": "auto"}
        was_compacted = _takes_in_compactions(snapshot, progress)
        for index in range(progress.next):
            if index in progress.skipped:
                continue
            item = snapshot.item(index)
            run.transcript.append(as_input(item, run.bounds.model_characters))
            if run.calls is not None:
                await run.calls.recall(item)
        run.transcript = behind_newest(run.transcript, sealer)
        if was_compacted and run.compactor is not None:
            progress.context.compact(run.compactor.estimate(run.transcript))

    async def _close_unfinished(self, run: Run) -> None:
        """What the turn that broke off had told in part ends here; what it had told whole may come again."""
        snapshot, progress = run.writer.snapshot, run.progress
        unfinished = [index for index in snapshot.unfinished() if not is_own(snapshot.item(index))]
        progress.skipped += [index for index in unfinished if index not in progress.skipped]
        if unfinished:
            await run.writer.keep(progress.encoded())
        for index in unfinished:
            await run.writer.tell(ev.ITEM_DONE, output_index=index, item=closed_item(snapshot.item(index)))
        whole = [
            (index, snapshot.item(index))
            for index in range(progress.next, snapshot.next_index)
            if index not in progress.skipped and not is_own(snapshot.item(index))
        ]
        run.earlier = EarlierAttempt(deque(whole)) if whole else None

    async def _entries(self, response_id: str) -> list[Entry]:
        return [entry async for entry in self.journal.read(response_id)]

    def _writer(
        self, record: ResponseRecord, epoch: int | None, entries: Sequence[Entry], *, told_from: int | None
    ) -> Writer:
        """With all that was told in its snapshot, or what came before number `told_from` and the rest to be told again."""
        kept = entries if told_from is None else entries[:told_from]
        state = ReplayedJournal()
        for entry in kept:
            state.take(entry)
        return Writer(
            self.journal.resume(record.id, tenant=record.tenant, next_seq=len(entries), epoch=epoch),
            next_seq=state.next_seq,
            step=state.last_step,
            snapshot=state.snapshot,
            told=entries[len(kept) :],
        )


def _takes_in_compactions(snapshot: Snapshot, progress: Checkpoint) -> bool:
    """A compaction that was told whole stands, also where the checkpoint behind it was not written, which is said; one that was not is made
    again."""
    before = progress.next
    while progress.turn is None and progress.next < snapshot.next_index and is_own(snapshot.item(progress.next)):
        if progress.next in snapshot.unfinished():
            break
        progress.next += 1
    return progress.next > before

"""The journal: each event of each response, numbered, on disk before any reader sees it, then delivered live to followers.

One writer commits for all open logs (group commit). When it is idle it commits at once; events that arrive during a commit form the
next batch, so there is no timer and the only wait is for the disk. Readers are woken; they never poll.
"""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import anyio
from anyio import to_thread
from sqlalchemy import delete

from limpet.core.errors import LimpetError, StoreFailed
from limpet.store.backend import TAKEN_OVER, JournalWriter, TakenOver
from limpet.store.database import Database
from limpet.store.entries import Entry, row_of
from limpet.store.open_journal import OpenJournal
from limpet.store.remote_journals import RemoteJournals, read_entries
from limpet.store.tables import journal

# Where `append` begins to wait. Together they also bound how long one batch keeps other writers waiting.
UNCOMMITTED_ENTRIES = 1000
UNCOMMITTED_BYTES = 4 * 1024 * 1024

__all__ = ["TAKEN_OVER", "Journal"]


@dataclass(slots=True)
class _Piece:
    """What one log has appended and not committed. `checkpoint` is the newest, None where there was none."""

    log: OpenJournal
    entries: list[Entry]
    checkpoint: bytes | None = None


class Journal:
    """All journals of one database. `async with` starts its writer; its end commits what was appended and closes open logs."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._logs: dict[str, OpenJournal] = {}
        self._pending: deque[_Piece] = deque()
        self._entries = 0
        self._bytes = 0
        self._work = anyio.Event()
        self._room = anyio.Event()
        self._ending = False
        self._thread = anyio.CapacityLimiter(1)
        self._writer: JournalWriter | None = None
        self._remote = RemoteJournals(db)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._writer = await to_thread.run_sync(self._connect)
        await self._stack.enter_async_context(self._remote)
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(self._write_batches)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        self._work.set()
        try:
            await self._stack.aclose()
        finally:
            for log in list(self._logs.values()):
                log.end()
                if not log.is_finished:
                    log.fail("The journal was closed before all of it was written.")
            self._logs.clear()
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def begin(self, response_id: str, *, tenant: str, stored: bool, epoch: int | None = None) -> OpenJournal:
        """Open a new log. A stored one needs its response's row to be there; the other kind is kept in memory, until `forget`."""
        return self._open(response_id, tenant=tenant, stored=stored, epoch=epoch, next_seq=0)

    def resume(self, response_id: str, *, tenant: str, next_seq: int, epoch: int | None = None) -> OpenJournal:
        """Go on with a stored one, whose last entry is number `next_seq - 1`."""
        return self._open(response_id, tenant=tenant, stored=True, epoch=epoch, next_seq=next_seq)

    def stop_following(self) -> None:
        """Tails of journals that other gateways write end, wherever they are."""
        self._remote.stop()

    def is_open(self, response_id: str) -> bool:
        """Whether a log of that response takes entries in this process."""
        log = self._logs.get(response_id)
        return log is not None and not log.closed

    async def read(self, response_id: str, *, after: int = -1) -> AsyncIterator[Entry]:
        """The committed entries behind number `after`, oldest first, read in pages."""
        log = self._logs.get(response_id)
        after = max(after, -1)
        while page := await self._committed(response_id, log, after):
            for entry in page:
                yield entry
            after = page[-1].seq

    async def tail(self, response_id: str, *, after: int = -1) -> AsyncIterator[Entry]:
        """The same, then each entry once it is committed, until the log is closed; ends at once behind the stored ones if none is
        open here. StoreFailed, behind the committed ones, if the store failed for this log."""
        async for batch in self.tail_batches(response_id, after=after):
            for entry in batch:
                yield entry

    async def tail_batches(
        self, response_id: str, *, after: int = -1, everywhere: bool = False
    ) -> AsyncIterator[list[Entry]]:
        """`tail`, in the pieces in which it comes: never empty ones. `everywhere`: where other gateways may carry the response, it goes on
        until that has ended, whichever process writes its events."""
        log = self._logs.get(response_id)
        after = max(after, -1)
        last: Entry | None = None
        everywhere = everywhere and self._db.is_shared and (log is None or log.stored)
        while log is not None:
            batch = await self._committed(response_id, log, after)
            if batch:
                last = batch[-1]
                after = last.seq
                yield batch
                continue
            if log.deleted:
                return
            if everywhere and log.failure == TAKEN_OVER:
                break
            log.raise_failure()
            if log.is_finished:
                break
            await log.changed()
        if log is not None and not everywhere:
            return
        async for batch in self._remote.tail_batches(response_id, after=after, last=last, follows=everywhere):
            yield batch

    async def forget(self, response_id: str) -> None:
        """Drop what is in memory and on disk. An open log ends: its tails end, and more entries are refused with StoreFailed."""
        log = self._logs.pop(response_id, None)
        if log is not None:
            log.delete()
            self._drop_pending(log)
        if log is None or log.stored:
            async with self._db.writing() as connection:
                await connection.execute(delete(journal).where(journal.c.response_id == response_id))

    async def _committed(self, response_id: str, log: OpenJournal | None, after: int) -> list[Entry]:
        """The next of them behind `after`, from memory or else a page from disk. When it returns none from memory, nothing was
        awaited since it looked, so that the caller misses no wake."""
        live = log.live(after) if log is not None else None
        if live is not None:
            return live
        page = await read_entries(self._db, response_id, after=after)
        return page if page or log is None else log.remembered()

    def _open(self, response_id: str, *, tenant: str, stored: bool, epoch: int | None, next_seq: int) -> OpenJournal:
        if response_id in self._logs:
            raise ValueError(f"the journal of {response_id} is open already")
        log = OpenJournal(
            response_id,
            tenant=tenant,
            stored=stored,
            epoch=epoch if stored else None,
            next_seq=next_seq,
            take_over=self._take_over,
            released=self._released,
        )
        self._logs[response_id] = log
        return log

    def _released(self, log: OpenJournal) -> None:
        if log.stored and self._logs.get(log.response_id) is log:
            del self._logs[log.response_id]

    async def _take_over(self, log: OpenJournal, entries: Sequence[Entry], checkpoint: bytes | None) -> None:
        if not log.stored:
            log.accept(entries)
            log.publish(entries)
            return
        while self._entries >= UNCOMMITTED_ENTRIES or self._bytes >= UNCOMMITTED_BYTES:
            await self._room.wait()
        log.accept(entries)
        if not self._pending or self._pending[-1].log is not log:
            self._pending.append(_Piece(log, []))
        # So that they are counted, stored and shown at one stroke.
        self._pending[-1].entries.extend(entries)
        self._pending[-1].checkpoint = checkpoint or self._pending[-1].checkpoint
        self._count(entries, 1)
        self._work.set()

    async def _write_batches(self) -> None:
        # Not cancelled: what was taken over is committed, and the writer ends by itself when the journal does.
        with anyio.CancelScope(shield=True):
            while self._pending or not self._ending:
                if not self._pending:
                    self._work = anyio.Event()
                    await self._work.wait()
                    continue
                async with self._db.turn:
                    batch = list(self._pending)
                    self._pending.clear()
                    failed = await to_thread.run_sync(self._commit, batch, limiter=self._thread)
                self._publish(batch, failed)

    def _commit(self, batch: list[_Piece]) -> dict[OpenJournal, str]:
        """Put it on disk; which logs failed, and why. In the writer's thread."""
        logs = list(dict.fromkeys(piece.log for piece in batch))
        assert self._writer is not None, "the journal is not open"
        try:
            self._insert(self._writer, batch, logs)
        except TakenOver:
            if len(logs) == 1:
                return {logs[0]: TAKEN_OVER}
        except self._writer.failures as error:
            if len(logs) == 1:
                return {logs[0]: self._db.backend.explain(error)}
            if self._db.backend.is_lost(error):
                return self._commit_fenced(batch, logs, self._db.backend.explain(error))
        else:
            return {}
        # One log must not take the others down with it: each in a transaction of its own.
        failed: dict[OpenJournal, str] = {}
        for log in logs:
            failed |= self._commit([piece for piece in batch if piece.log is log])
        return failed

    def _commit_fenced(self, batch: list[_Piece], logs: Sequence[OpenJournal], reason: str) -> dict[OpenJournal, str]:
        """The server is gone. The writer has waited for it, once for all logs, unless one of them was without a fence: that one fails, and
        the others are tried again without it."""
        fenced = [log for log in logs if log.epoch is not None]
        if len(fenced) == len(logs):
            return dict.fromkeys(logs, reason)
        failed = {log: reason for log in logs if log.epoch is None}
        return failed | self._commit([piece for piece in batch if piece.log.epoch is not None]) if fenced else failed

    def _insert(self, writer: JournalWriter, batch: list[_Piece], logs: Sequence[OpenJournal]) -> None:
        writer.commit(
            [row_of(piece.log.response_id, piece.log.tenant, entry) for piece in batch for entry in piece.entries],
            epochs={log.response_id: log.epoch for log in logs if log.epoch is not None},
            checkpoints=[(piece.log.response_id, piece.checkpoint) for piece in batch if piece.checkpoint is not None],
        )

    def _connect(self) -> JournalWriter:
        try:
            return self._db.backend.journal_writer()
        except Exception as error:
            if isinstance(error, LimpetError):
                raise
            raise StoreFailed(self._db.backend.explain(getattr(error, "orig", None) or error)) from error

    def _publish(self, batch: list[_Piece], failed: dict[OpenJournal, str]) -> None:
        for piece in batch:
            self._count(piece.entries, -1)
            if piece.log not in failed:
                piece.log.publish(piece.entries)
        for log, reason in failed.items():
            log.fail(reason)
            self._drop_pending(log)
        self._room.set()
        self._room = anyio.Event()

    def _drop_pending(self, log: OpenJournal) -> None:
        for piece in (dropped := [piece for piece in self._pending if piece.log is log]):
            self._count(piece.entries, -1)
        if dropped:
            self._pending = deque(piece for piece in self._pending if piece.log is not log)

    def _count(self, entries: Sequence[Entry], sign: int) -> None:
        self._entries += sign * len(entries)
        for entry in entries:
            self._bytes += sign * len(entry.data)

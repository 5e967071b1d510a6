"""One response's journal while it is open here: what was appended, how much of it is on disk, and the newest of it in memory.

Only `journal.Journal` writes it, in steps without an await, so no task can observe a half-made change.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

import anyio

from limpet.core.errors import StoreFailed
from limpet.store.entries import Entry

# What an attentive reader finds in memory; one that is further behind reads from the disk.
RING_ENTRIES = 512
RING_BYTES = 256 * 1024

TakeOver = Callable[["OpenJournal", Sequence[Entry], bytes | None], Awaitable[None]]
Released = Callable[["OpenJournal"], None]


class OpenJournal:
    """An open journal. Its entries are numbered without gaps; the caller numbers them, and a wrong number raises ValueError.

    `epoch` is the one under which its run is carried (`store/runs.py`): once another process has taken the run over, the store refuses what
    is appended here. None: there is no run.
    """

    def __init__(
        self,
        response_id: str,
        *,
        tenant: str,
        stored: bool,
        epoch: int | None,
        next_seq: int,
        take_over: TakeOver,
        released: Released,
    ) -> None:
        self.response_id = response_id
        self.tenant = tenant
        self.stored = stored
        self.epoch = epoch
        self.closed = False
        self.deleted = False
        self.failure: str | None = None
        self._take_over = take_over
        self._released = released
        self._appended = next_seq - 1
        self._committed = next_seq - 1
        self._ring: deque[Entry] = deque()
        self._ring_bytes = 0
        self._changed: anyio.Event | None = None

    @property
    def next_seq(self) -> int:
        """The number that the next entry must have."""
        return self._appended + 1

    async def append(self, *entries: Entry, checkpoint: bytes | None = None) -> None:
        """Take these over; they will be committed in this order, and with them what the run's next carrier must know, in one transaction.
        Waits only while too much is uncommitted (journal.UNCOMMITTED_*), and cancelled then it has taken none. StoreFailed once the
        store failed for this log."""
        await self._take_over(self, entries, checkpoint)

    async def flush(self) -> None:
        """Returns when everything appended so far is committed and visible to tails; StoreFailed if it cannot be, then and ever
        after."""
        wanted = self._appended
        while self._committed < wanted:
            self.raise_failure()
            await self.changed()
        self.raise_failure()

    async def close(self) -> None:
        """Flush and accept no further entries; tails end behind the last one. Cancelled or failed it is closed all the same: what was
        appended is still committed where it can be. Twice is quiet."""
        if self.closed:
            return
        try:
            await self.flush()
        finally:
            self.end()

    def accept(self, entries: Sequence[Entry]) -> None:
        """Count these as appended, if they go on where the log is."""
        self.raise_failure()
        if self.closed:
            raise ValueError(f"the journal of {self.response_id} is closed")
        seq = self._appended
        for entry in entries:
            seq += 1
            if entry.seq != seq:
                raise ValueError(f"the next entry of {self.response_id} is number {seq}, not {entry.seq}")
        self._appended = seq

    def publish(self, entries: Sequence[Entry]) -> None:
        """These are committed now: show them to who waits."""
        self._committed += len(entries)
        self._ring.extend(entries)
        if self.stored:
            self._ring_bytes += sum(len(entry.data) for entry in entries)
            while len(self._ring) > RING_ENTRIES or self._ring_bytes > RING_BYTES:
                self._ring_bytes -= len(self._ring.popleft().data)
        self._wake()

    def fail(self, reason: str) -> None:
        """The store refused; what is not committed is lost."""
        self.failure = self.failure or reason
        self._wake()

    def end(self) -> None:
        """Accept no further entries."""
        self.closed = True
        self._wake()

    @property
    def is_finished(self) -> bool:
        """Nothing will change any more: it is closed and all of it is committed or lost."""
        return self.closed and (self.failure is not None or self._committed >= self._appended)

    def delete(self) -> None:
        """The response was deleted: its tails end, and later writes raise."""
        self.deleted = True
        self.fail(f"The journal of {self.response_id} was deleted.")
        self.end()

    def raise_failure(self) -> None:
        """Raises StoreFailed where an entry could not be kept."""
        if self.failure is not None:
            raise StoreFailed(self.failure)

    def live(self, after: int) -> list[Entry] | None:
        """The committed entries behind `after`, from memory; None when some of them are on disk only."""
        behind = self._committed - after
        if behind <= 0:
            return []
        if behind > len(self._ring):
            return None
        return list(islice(reversed(self._ring), behind))[::-1]

    def remembered(self) -> list[Entry]:
        """All committed entries that are in memory."""
        return list(self._ring)

    async def changed(self) -> None:
        """Wait for the next publish, failure or end."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        if self.is_finished:
            self._released(self)

"""Ends a gateway by SIGKILL at one event of its journal: each event is committed by itself, and none after the one that is named.

This is done to a gateway of a test's own, in the process that was forked for it; the program has no such switch.
"""

import os
import signal
from dataclasses import dataclass
from typing import Any

import anyio

from limpet.store.entries import Entry
from limpet.store.open_journal import OpenJournal


@dataclass(frozen=True, slots=True)
class KillPoint:
    """Behind event `seq` of the first response, as soon as it is committed; or `before` it, with all that came earlier committed, what is
    kept for the run's next carrier included."""

    seq: int
    before: bool = False

    def install(self) -> None:
        """In this process, for its whole life."""
        append = OpenJournal.append

        async def killing(log: OpenJournal, *entries: Entry, checkpoint: bytes | None = None) -> None:
            for entry in entries:
                if self.before and entry.seq == self.seq:
                    await _settled(log)
                    os.kill(os.getpid(), signal.SIGKILL)
                await append(log, entry)
                await log.flush()
                if not self.before and entry.seq == self.seq:
                    os.kill(os.getpid(), signal.SIGKILL)
            if checkpoint is not None:
                await append(log, checkpoint=checkpoint)

        OpenJournal.append = killing  # type: ignore[method-assign]


async def _settled(log: OpenJournal) -> None:
    """Returns when nothing waits to be committed."""
    journal: Any = log._take_over.__self__  # type: ignore[attr-defined]
    while journal._pending:
        await anyio.sleep(0.001)
    async with journal._db.turn:
        pass

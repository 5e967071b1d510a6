"""Journals as they lie in the database: read in pages, and followed while another gateway writes them.

That gateway's commits are told as news, and looked for each second in case no news comes.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio
from sqlalchemy import select

from limpet.core.events import TERMINAL
from limpet.store.database import Database
from limpet.store.entries import COLUMNS, PAGE, Entry
from limpet.store.notices import JOURNAL, POLL, Bell, Notices
from limpet.store.responses import UNFINISHED
from limpet.store.tables import journal, responses

LAST_LOOKS = 10  # for the last event, which is written behind the end of the row
LAST_PAUSE = 0.1  # seconds between two of them


class RemoteJournals:
    """What no process but the writer has in memory. `async with` listens for news of it, where other gateways may write."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._bell = Bell()
        self._is_stopped = False
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(Notices(self._db.backend, self._heard))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def stop(self) -> None:
        """All tails end."""
        self._is_stopped = True
        self._bell.ring_all()

    async def tail_batches(
        self, response_id: str, *, after: int, last: Entry | None, follows: bool
    ) -> AsyncIterator[list[Entry]]:
        """The committed entries behind `after`; where it `follows`, then each once it is committed, until the response has ended. Never
        empty ones. `last` is the entry with that number, where the caller has read it."""
        looks = LAST_LOOKS
        while not self._is_stopped and (last is None or last.type not in TERMINAL):
            news = self._bell.waiting(response_id)
            try:
                # Asked before the look: what was written before it ended is seen by the look.
                goes_on = follows and await self._is_unfinished(response_id)
                while page := await read_entries(self._db, response_id, after=after):
                    last = page[-1]
                    after = last.seq
                    yield page
                if not goes_on:
                    if not follows or last is None or last.type in TERMINAL or looks == 0:
                        return
                    looks -= 1
                with anyio.move_on_after(POLL if goes_on else LAST_PAUSE):
                    await news.wait()
            finally:
                self._bell.drop(response_id, news)

    async def _is_unfinished(self, response_id: str) -> bool:
        query = select(responses.c.id).where(responses.c.id == response_id, responses.c.status.in_(UNFINISHED))
        return await self._db.read(lambda connection: connection.execute(query).first() is not None)

    def _heard(self, payload: str) -> None:
        if payload.startswith(JOURNAL):
            self._bell.ring(payload.removeprefix(JOURNAL))


async def read_entries(db: Database, response_id: str, *, after: int, limit: int = PAGE) -> list[Entry]:
    """The next committed entries behind `after`, oldest first; none where there are no more."""
    wanted = [journal.c[name] for name in COLUMNS if name not in ("response_id", "tenant")]
    query = (
        select(*wanted)
        .where(journal.c.response_id == response_id, journal.c.seq > after)
        .order_by(journal.c.seq)
        .limit(limit)
    )
    rows = await db.read(lambda connection: connection.execute(query).all())
    return [Entry(*row) for row in rows]

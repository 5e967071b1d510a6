"""One running command of a runtime that holds output on the host: its output spooled, its end known once."""

from collections.abc import AsyncIterator, Callable

import anyio

from limpet.core.command import START, Chunk, Lost, Outcome, Position
from limpet.runtimes.spool import Spool


class SpooledProcess:
    """Output, outcome and forgetting of core.ports.Process."""

    def __init__(self, exec_id: str, forgotten: Callable[[str], None]) -> None:
        self._exec_id = exec_id
        self._forgotten = forgotten
        self._spool = Spool()
        self._ended = anyio.Event()
        self._outcome: Outcome | None = None

    @property
    def exec_id(self) -> str:
        return self._exec_id

    @property
    def has_ended(self) -> bool:
        return self._outcome is not None

    def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        return self._spool.read(since)

    async def extent(self) -> tuple[Position, Position]:
        return START, self._spool.end_so_far

    async def wait(self) -> Outcome:
        await self._ended.wait()
        assert self._outcome is not None
        return self._outcome

    def notes(self) -> tuple[str, ...]:
        """It has no limits of its own to run into."""
        return ()

    async def forget(self) -> None:
        if self.has_ended:
            self._spool.discard()
            self._forgotten(self._exec_id)

    def leave(self, error: Exception) -> None:
        """Its sandbox is gone: it counts as lost unless it had ended, and reading its output raises `error`."""
        self.finish(Lost("Its sandbox ended while it ran."))
        self._spool.discard(error)

    def finish(self, outcome: Outcome) -> None:
        """It has ended so. Later calls change nothing."""
        if self._outcome is None:
            self._outcome = outcome
            self._ended.set()

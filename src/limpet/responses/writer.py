"""Numbers a response's events and hands them to its journal, each item's text once. One writer per run."""

import msgspec

from limpet.core import events as ev
from limpet.core.events import Event
from limpet.responses.snapshot import Snapshot
from limpet.store.entries import Entry
from limpet.store.log import Log

_PLAIN = frozenset({ev.TEXT_DELTA, ev.OUTPUT_DELTA, ev.ARGUMENTS_DELTA, ev.REASONING_DELTA, ev.SUMMARY_DELTA})
_encode = msgspec.json.Encoder().encode


class Writer:
    """`step` is the step that later events belong to; `snapshot` is the response as told so far."""

    def __init__(self, log: Log, *, next_seq: int = 0, step: int = 0, snapshot: Snapshot | None = None) -> None:
        self._log = log
        self._next = next_seq
        self.step = step
        self.snapshot = snapshot or Snapshot()

    async def emit(self, event: Event) -> None:
        """Take an event over. It is visible to readers once the journal has it, which `flush` waits for."""
        stored = event.data if event.type in _PLAIN else self.snapshot.shrink(event.type, event.data)
        self.snapshot.apply(event.type, event.data)
        entry = Entry(
            seq=self._next,
            step=self.step,
            type=event.type,
            data=_encode(stored),
            exec_id=event.exec_id,
            stream=event.stream,
            raw_offset=event.raw_offset,
        )
        self._next += 1
        await self._log.append(entry)

    async def tell(self, type: str, **data: object) -> None:
        """`emit` for an event that has only a payload."""
        await self.emit(Event(type=type, data=data))

    async def flush(self) -> None:
        """Returns when all that was emitted is committed. Raises StoreFailed."""
        await self._log.flush()

    async def close(self) -> None:
        """Flush, and no more events: readers come to their end."""
        await self._log.close()

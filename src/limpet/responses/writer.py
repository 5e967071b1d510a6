"""Numbers a response's events and hands them to its journal, each item's text once. One writer per run."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from limpet.core.command import Stream
from limpet.core.errors import LimpetError
from limpet.core.events import Event
from limpet.core.resources import WireObject
from limpet.responses.snapshot import PLAIN, Snapshot
from limpet.store.entries import Entry
from limpet.store.open_journal import OpenJournal

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def _plain(value: object) -> object:
    return msgspec.to_builtins(value) if isinstance(value, WireObject) else value


class RunDiverged(LimpetError):
    """A run that goes on would tell something else than it told before."""

    def __init__(self, difference: str) -> None:
        super().__init__(
            f"The response could not go on where it was interrupted: {difference} Send the request again for the rest."
        )


class Writer:
    """`step` is the step that later events belong to; `snapshot` is the response as told so far.

    `told` are entries of the journal that a run which goes on will tell again, from `next_seq` on: what it tells is compared with them and
    not told twice.
    """

    def __init__(
        self,
        log: OpenJournal,
        *,
        next_seq: int = 0,
        step: int = 0,
        snapshot: Snapshot | None = None,
        told: Sequence[Entry] = (),
    ) -> None:
        self._log = log
        self._next = next_seq
        self._told = deque(told)
        self.step = step
        self.snapshot = snapshot or Snapshot()

    @property
    def next_seq(self) -> int:
        """The number of the next event."""
        return self._next

    @property
    def epoch(self) -> int | None:
        """That of the run which is told, where it is one."""
        return self._log.epoch

    def take_told(self) -> tuple[Entry, dict[str, Any]] | None:
        """The next event that was told before, with its whole payload, now part of the snapshot; None where there is none."""
        if not self._told:
            return None
        entry = self._told.popleft()
        data = self.snapshot.expand(entry.type, _decode(entry.data))
        self.snapshot.apply(entry.type, data)
        self._next = entry.seq + 1
        return entry, data

    def skip_told(self) -> None:
        """Nothing more is told again: go on behind all that the journal has."""
        while self.take_told() is not None:
            pass

    async def emit(self, event: Event) -> None:
        """Take an event over. It is visible to readers once the journal has it, which `flush` waits for."""
        await self._put(event.type, event.data, event.exec_id, event.stream, event.raw_offset)

    async def tell(self, type: str, payload: WireObject | None = None, **data: object) -> None:
        """`emit` for an event that has only a payload: one of `event_payloads`, or these keys. Structs become what they are on the wire."""
        if payload is not None:
            await self._put(type, msgspec.to_builtins(payload))
        else:
            await self._put(type, {key: _plain(value) for key, value in data.items()})

    async def pass_on(self, type: str, data: dict[str, Any]) -> None:
        """The same, with the payload as it is."""
        await self._put(type, data)

    async def keep(self, checkpoint: bytes) -> None:
        """Commit with the events so far what the run's next carrier must know."""
        await self._log.append(checkpoint=checkpoint)

    async def _put(
        self,
        type: str,
        data: dict[str, Any],
        exec_id: str | None = None,
        stream: Stream | None = None,
        raw_offset: int | None = None,
    ) -> None:
        if (before := self.take_told()) is not None:
            if before[0].type != type:
                raise RunDiverged(f"event {before[0].seq} was {before[0].type} and would now be {type}.")
            return
        stored = data if type in PLAIN else self.snapshot.shrink(type, data)
        entry = Entry(self._next, self.step, type, _encode(stored), exec_id, stream, raw_offset)
        await self._log.append(entry)  # cancelled while it waits for room it has taken nothing, and this is not told
        self._next += 1
        self.snapshot.apply(type, data)

    async def flush(self) -> None:
        """Returns when all that was emitted is committed. Raises StoreFailed."""
        await self._log.flush()

    async def close(self) -> None:
        """Flush and accept no further events: readers reach their end."""
        await self._log.close()

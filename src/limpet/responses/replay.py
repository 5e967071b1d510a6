"""Reads a response's journal back into its events, whole, exactly as they were told."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from limpet.core import events as ev
from limpet.responses.snapshot import Snapshot
from limpet.store.entries import Entry
from limpet.store.journal import Journal

Json = dict[str, Any]
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One numbered event; `data` is its whole payload without `type` and `sequence_number`."""

    seq: int
    type: str
    data: Json

    def payload(self) -> bytes:
        """The JSON object on the wire."""
        return _encode({"type": self.type, "sequence_number": self.seq, **self.data})


@dataclass(slots=True)
class Replayed:
    """All that a journal holds: the state after its last event, that event's number, and the terminal event if there is one."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    next_seq: int = 0
    last_step: int = 0
    terminal: Told | None = None

    def take(self, entry: Entry) -> Told:
        data = self.snapshot.expand(entry.type, _decode(entry.data))
        self.snapshot.apply(entry.type, data)
        told = Told(seq=entry.seq, type=entry.type, data=data)
        self.next_seq, self.last_step = entry.seq + 1, entry.step
        if entry.type in ev.TERMINAL:
            self.terminal = told
        return told


async def replay(journal: Journal, response_id: str) -> Replayed:
    """Fold what is committed now."""
    state = Replayed()
    async for entry in journal.read(response_id):
        state.take(entry)
    return state


async def follow(journal: Journal, response_id: str, *, after: int = -1) -> AsyncIterator[list[Told]]:
    """Every event with a number above `after`, stored and then live, until the response's journal is closed; in the pieces in which
    they come, never empty ones."""
    state = Replayed()
    async for batch in journal.tail_batches(response_id):
        if told := [event for entry in batch if (event := state.take(entry)).seq > after]:
            yield told

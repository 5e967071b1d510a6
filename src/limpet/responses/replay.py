"""Reads a response's journal back into the events that were sent, unchanged and complete."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from limpet.core import events as ev
from limpet.responses.snapshot import PLAIN, Snapshot
from limpet.store.entries import Entry
from limpet.store.journal import Journal

Json = dict[str, Any]
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedEvent:
    """One numbered event; `data` is its whole payload without `type` and `sequence_number`."""

    seq: int
    type: str
    data: Json

    def payload(self) -> bytes:
        """The JSON object on the wire."""
        return _encode({"type": self.type, "sequence_number": self.seq, **self.data})


@dataclass(frozen=True, slots=True)
class RawEvent:
    """An event that is stored as it is sent, such as a text delta: its payload need not be serialised again."""

    seq: int
    type: str
    stored: bytes

    @property
    def data(self) -> Json:
        return _decode(self.stored)

    def payload(self) -> bytes:
        return b'{"type":"%b","sequence_number":%d,%b' % (self.type.encode(), self.seq, self.stored[1:])


StreamEvent = DecodedEvent | RawEvent


@dataclass(slots=True)
class ReplayedJournal:
    """All that a journal holds: the state after its last event, that event's number, and the terminal event if there is one."""

    next_seq: int = 0
    last_step: int = 0
    terminal: DecodedEvent | None = None
    _folded: Snapshot = field(default_factory=Snapshot)
    _pieces: list[RawEvent] = field(default_factory=list)

    @property
    def snapshot(self) -> Snapshot:
        for piece in self._pieces:
            self._folded.apply(piece.type, piece.data)
        self._pieces.clear()
        return self._folded

    def take(self, entry: Entry) -> StreamEvent:
        self.next_seq, self.last_step = entry.seq + 1, entry.step
        if entry.type in PLAIN:
            piece = RawEvent(entry.seq, entry.type, entry.data)
            # Folded when something asks for it, most often the event that ends the text.
            self._pieces.append(piece)
            return piece
        data = self.snapshot.expand(entry.type, _decode(entry.data))
        self.snapshot.apply(entry.type, data)
        told = DecodedEvent(seq=entry.seq, type=entry.type, data=data)
        if entry.type in ev.TERMINAL:
            self.terminal = told
        return told


async def replay(journal: Journal, response_id: str) -> ReplayedJournal:
    """Fold what is committed now."""
    state = ReplayedJournal()
    async for entry in journal.read(response_id):
        state.take(entry)
    return state


async def follow(journal: Journal, response_id: str, *, after: int = -1) -> AsyncIterator[list[StreamEvent]]:
    """Every event with a number above `after`, stored and then live, until the response's journal is closed; in the pieces in which
    they come, never empty ones."""
    state = ReplayedJournal()
    async for batch in journal.tail_batches(response_id, everywhere=True):
        if told := [event for entry in batch if (event := state.take(entry)).seq > after]:
            yield told

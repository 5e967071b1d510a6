"""A response as its readers find it: by its row, and by what its journal holds."""

from typing import Any

from msgspec import to_builtins

from limpet.core import events as ev
from limpet.responses.failures import growing_item
from limpet.responses.replay import DecodedEvent, ReplayedJournal
from limpet.responses.resource import stored_object
from limpet.store.responses import ResponseRecord

Json = dict[str, Any]


def as_it_is_now(record: ResponseRecord, state: ReplayedJournal) -> Json:
    """The response object. What is not done in it is there as far as strict clients can read it."""
    shown: Json
    if state.terminal is not None:
        shown = state.terminal.data["response"]
        return shown
    unfinished = state.snapshot.unfinished()
    items = [growing_item(item) if index in unfinished else item for index, item in enumerate(state.snapshot.items())]
    shown = to_builtins(stored_object(record, items))
    return shown


def missing_end(record: ResponseRecord | None, state: ReplayedJournal) -> DecodedEvent | None:
    """The last event of a response whose process died between writing down its end and telling it."""
    if record is None or state.terminal is not None or record.status not in ev.ENDING:
        return None
    ended = to_builtins(stored_object(record, state.snapshot.items()))
    return DecodedEvent(seq=state.next_seq, type=ev.ENDING[record.status], data={"response": ended})

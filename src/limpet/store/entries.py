"""One numbered event as the journal keeps it, and its row."""

import msgspec

COLUMNS = ("response_id", "seq", "tenant", "step", "type", "data", "exec_id", "stream", "raw_offset")
PAGE = 256


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One event. `data` is a JSON object in its stored form; `exec_id`, `stream` and `raw_offset` (bytes) are those of
    `core.events.Event`."""

    seq: int
    step: int
    type: str
    data: bytes
    exec_id: str | None = None
    stream: str | None = None
    raw_offset: int | None = None


Row = tuple[str, int, str, int, str, bytes, str | None, str | None, int | None]


def row_of(response_id: str, tenant: str, entry: Entry) -> Row:
    """In the order of COLUMNS."""
    return (
        response_id,
        entry.seq,
        tenant,
        entry.step,
        entry.type,
        entry.data,
        entry.exec_id,
        entry.stream,
        entry.raw_offset,
    )

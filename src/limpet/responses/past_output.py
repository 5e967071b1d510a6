"""What the journal holds already of a `shell_call_output` item whose run goes on: commands with a result, and one that was printing."""

from dataclasses import dataclass, field
from typing import Any

from msgspec import convert

from limpet.core import events as ev
from limpet.core.command import STREAMS, Position, Stream
from limpet.responses.shell_items import CommandEntry
from limpet.responses.writer import Writer

Json = dict[str, Any]


@dataclass(slots=True)
class PastStream:
    """One stream of the command that was printing. `text` was told; up to raw byte `offset` it is complete, and its last `beyond`
    characters come from behind that."""

    text: str = ""
    offset: int = 0
    beyond: int = 0

    def add(self, text: str, raw_offset: int | None) -> None:
        self.text += text
        self.beyond += len(text)
        if raw_offset is not None:
            self.offset, self.beyond = raw_offset, 0


@dataclass(slots=True)
class PastOutput:
    """`item` is there once the item was told to its end. `entries` are the results of commands, in order; `streams` belong to the command
    behind them."""

    item: Json | None = None
    entries: list[CommandEntry] = field(default_factory=list)
    streams: dict[Stream, PastStream] = field(default_factory=lambda: {stream: PastStream() for stream in STREAMS})

    @property
    def since(self) -> Position:
        """From where the output of the command has to be read again."""
        return Position(**{stream: told.offset for stream, told in self.streams.items()})


def past_output(writer: Writer, index: int) -> PastOutput:
    """Take the events of the item at that output index out of what the writer was to tell again, up to the item's end."""
    found = PastOutput()
    while (told := writer.take_told()) is not None:
        entry, data = told
        if entry.type == ev.OUTPUT_DELTA:
            for stream, text in data["delta"].items():
                found.streams[stream].add(text, entry.raw_offset)
        elif entry.type == ev.OUTPUT_DONE:
            found.entries += convert(data["output"], list[CommandEntry])
            found.streams = {stream: PastStream() for stream in STREAMS}
        elif entry.type == ev.ITEM_DONE and data["output_index"] == index:
            found.item = data["item"]
            break
    return found

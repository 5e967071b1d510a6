"""What one command prints, on its way into the journal and onto its item: head and tail of each stream, and where the whole is.

The head is journaled as it comes. The marker and the tail are one event, at the end, whose `raw_offset` is the stream's end: a
journal either has them both or goes on from the head, whose rest is in the spool until `Process.forget`.
"""

import re
from collections.abc import AsyncIterator
from typing import Any, Protocol

from limpet.core import events as ev
from limpet.core.box_directories import DATA
from limpet.core.command import START, Chunk, Exited, Lost, Outcome, Position, Stream
from limpet.core.errors import FileError, SandboxGone
from limpet.core.events import Event
from limpet.core.ports import FileStat, Process
from limpet.guard.output import Decoder, HeadTailBuffer, head_and_tail, shares
from limpet.responses.past_output import PastOutput
from limpet.responses.writer import Writer
from limpet.workspace.redacted_process import RedactedChunk, raw_end, restart_of

Json = dict[str, Any]
DIRECTORY = f"{DATA}/limpet-output"  # in the container: the whole of what an item shows in part
_MARKER = re.compile(r"\n\.\.\. \[(\d+) bytes left out; (the whole std(?:out|err)[^\n]*)\] \.\.\.\n")


class OutputFiles(Protocol):
    """Where the whole of an output can be written."""

    async def write(self, path: str, data: AsyncIterator[bytes]) -> FileStat: ...


class CommandOutput:
    """The text of one command. `limit` is what the item holds of each stream, in bytes; `streams` lets deltas out as they come."""

    def __init__(self, writer: Writer, place: Json, number: int, exec_id: str, *, limit: int, streams: bool) -> None:
        self._writer = writer
        self._place = {**place, "command_index": number}
        self.exec_id = exec_id
        self._streams = streams
        self.size = 0
        self._is_raw = True
        self._decoders: dict[Stream, Decoder] = {"stdout": Decoder(), "stderr": Decoder()}
        self._buffers: dict[Stream, HeadTailBuffer] = {stream: HeadTailBuffer(limit) for stream in self._decoders}
        self._texts: dict[Stream, list[str]] = {"stdout": [], "stderr": []}
        self._again: dict[Stream, int] = {"stdout": 0, "stderr": 0}  # characters that were told before
        self._is_clean = True  # nothing was printed yet
        self._ends: dict[Stream, int | None] = {}  # raw, once all was told

    def resume(self, told: PastOutput) -> None:
        """Go on behind what was told of the command before, with its output read again from `told.since` on."""
        for stream, before in told.streams.items():
            self._texts[stream].append(before.text)
            self._buffers[stream].skip(before.text)
            self._decoders[stream] = Decoder(before.offset)
            self._again[stream] = before.beyond
            self.size += len(before.text.encode(errors="replace"))
            self._is_clean = self._is_clean and not before.offset and not before.beyond

    def texts(self) -> tuple[str, str]:
        return "".join(self._texts["stdout"]), "".join(self._texts["stderr"])

    async def take(self, chunk: Chunk) -> None:
        stream = chunk.stream
        self._is_raw = self._is_raw and not isinstance(chunk, RedactedChunk)
        self._is_clean = False
        decoded = self._decoders[stream].feed(chunk.data)
        text = decoded.text[self._again[stream] :]
        self._again[stream] -= len(decoded.text) - len(text)
        head = self._buffers[stream].admit(text)
        # Only where all of it was told: what the buffer holds back is told at the end or never.
        is_told = len(head) == len(text) and decoded.raw_offset is not None and not self._again[stream]
        await self._pass(stream, head, restart_of(chunk) if is_told else None)

    async def follow(self, process: Process, since: Position) -> Outcome:
        """Take all that it prints from `since` on; how it ended. Lost where its sandbox went before all of it had come, whatever it exited
        with: a result without its output would be taken for one that printed nothing."""
        try:
            async for chunk in process.output(since):
                await self.take(chunk)
        except SandboxGone as gone:
            outcome = await process.wait()
            return Lost(f"{gone.message} Its output is not whole.") if isinstance(outcome, Exited) else outcome
        return await process.wait()

    async def end(self, process: Process | None, files: OutputFiles) -> None:
        """Tell the tails. Where something was dropped the whole is put into a file first, and named where the text was cut; `process`
        still has its output, None where it is lost."""
        for stream, decoder in self._decoders.items():
            rest = decoder.end()  # at most a broken character at the very end
            head = self._buffers[stream].admit(rest.text)
            tail = self._buffers[stream].end()
            text = head + tail.text
            if tail.dropped:
                where = await self._keep_whole(stream, process, files)
                text = f"{head}\n... [{tail.dropped} bytes left out; {where}] ...\n{tail.text}"
            end = raw_end(process, stream, read=rest.raw_offset if self._is_raw else None)
            self._ends[stream] = end
            await self._pass(stream, text, end)
        self._is_clean = False

    async def say(self, stream: Stream, text: str) -> None:
        """Words of ours before the output or behind it; they are never cut, and said once."""
        if any(text in told for told in self._texts[stream]):
            return
        await self._pass(stream, text, 0 if self._is_clean else self._ends.get(stream))

    async def _keep_whole(self, stream: Stream, process: Process | None, files: OutputFiles) -> str:
        if process is None:
            return f"the whole {stream} is lost with the box"
        path = f"{DIRECTORY}/{self.exec_id}.{stream}"
        try:
            stat = await files.write(path, _bytes_of(process, stream))
        except FileError as problem:
            return f"the whole {stream} could not be kept: {_line(problem.message)}"
        except SandboxGone as problem:  # also where it was more than a runtime keeps to be read again
            return f"the whole {stream} could not be kept: {_line(problem.reason)}"
        return f"the whole {stream}, {stat.size} bytes, is in {path}"

    async def _pass(self, stream: Stream, text: str, raw_offset: int | None) -> None:
        if not text:
            return
        self._texts[stream].append(text)
        self.size += len(text.encode(errors="replace"))
        if self._streams:
            await self._writer.emit(
                Event(
                    type=ev.OUTPUT_DELTA,
                    data={**self._place, "delta": {stream: text}},
                    exec_id=self.exec_id,
                    stream=stream,
                    raw_offset=raw_offset,
                )
            )


async def _bytes_of(process: Process, stream: Stream) -> AsyncIterator[bytes]:
    async for chunk in process.output(START):
        if chunk.stream == stream:
            yield chunk.data


def _line(text: str) -> str:
    return " ".join(text.split())


def model_copy(item: Json, limit: int) -> Json:
    """A `shell_call_output` as the model gets it: each command's streams cut to head and tail, to `limit` characters together or the
    item's own `max_output_length`."""
    allowed = item.get("max_output_length") or limit
    entries = []
    for entry in item.get("output") or ():
        stdout, stderr = entry.get("stdout") or "", entry.get("stderr") or ""
        for_stdout, for_stderr = shares(len(stdout), len(stderr), allowed)
        entries.append({**entry, "stdout": _trimmed(stdout, for_stdout), "stderr": _trimmed(stderr, for_stderr)})
    return {**item, "output": entries}


def _trimmed(text: str, limit: int) -> str:
    """Head and tail; where the item had left out something itself, the marker says the sum, and still names the file."""
    if len(text) <= limit:
        return text
    head, tail = (limit + 1) // 2, len(text) - limit // 2
    cut = _MARKER.search(text)
    if cut is None or cut.end() <= head or cut.start() >= tail:
        return head_and_tail(text, limit)
    head, tail = min(head, cut.start()), max(tail, cut.end())
    dropped = len(text[head : cut.start()].encode(errors="replace")) + len(
        text[cut.end() : tail].encode(errors="replace")
    )
    return f"{text[:head]}\n... [{dropped + int(cut[1])} bytes left out; {cut[2]}] ...\n{text[tail:]}"

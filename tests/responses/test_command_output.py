"""What the journal has of a command's output is enough to go on from, wherever it breaks off."""

from collections.abc import AsyncIterator

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.core.command import START, STREAMS, Chunk, Command, Exited, Lost, Script, Stream
from limpet.core.ports import FileStat
from limpet.responses.command_output import CommandOutput, model_copy
from limpet.responses.past_output import PastOutput
from limpet.responses.writer import Writer
from limpet.runtimes.agent import wire
from limpet.store.entries import Entry
from tests.support.played_agent import ENDED, RUNS, box_played_here, next_request

pytestmark = pytest.mark.anyio


class ListLog:
    """A `Log` that is a list."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def append(self, entry: Entry) -> None:
        self.entries.append(entry)

    async def flush(self) -> None: ...

    async def close(self) -> None: ...


class NoFiles:
    """For outputs whose process is lost: nothing is written."""

    async def write(self, path: str, data: AsyncIterator[bytes]) -> FileStat:
        raise AssertionError("nothing can be read of a lost process")


async def journaled(pieces: list[tuple[Stream, bytes]], limit: int) -> tuple[list[Entry], tuple[str, str]]:
    log = ListLog()
    output = CommandOutput(Writer(log), {"item_id": "i", "output_index": 0}, 0, "x", limit=limit, streams=True)
    read = dict.fromkeys(STREAMS, 0)
    for stream, data in pieces:
        await output.take(Chunk(stream=stream, offset=read[stream], data=data))
        read[stream] += len(data)
    await output.end(None, NoFiles())
    return log.entries, output.texts()


async def gone_on(entries: list[Entry], raw: dict[Stream, bytes], limit: int) -> tuple[str, str]:
    """The texts by a process that has these entries and what the box still has of the output."""
    told = PastOutput()
    for entry in entries:
        for stream, text in msgspec.json.decode(entry.data)["delta"].items():
            told.streams[stream].add(text, entry.raw_offset)
    output = CommandOutput(Writer(ListLog()), {"item_id": "i", "output_index": 0}, 0, "e", limit=limit, streams=True)
    output.resume(told)
    for stream in STREAMS:
        since = told.since.of(stream)
        if raw[stream][since:]:
            await output.take(Chunk(stream=stream, offset=since, data=raw[stream][since:]))
    await output.end(None, NoFiles())
    return output.texts()


@given(
    st.lists(st.tuples(st.sampled_from(STREAMS), st.binary(max_size=12) | st.just("€ä".encode())), max_size=12),
    st.integers(0, 40),
)
async def test_wherever_the_journal_breaks_off_the_text_goes_on_as_it_would_have(
    pieces: list[tuple[Stream, bytes]], limit: int
) -> None:
    entries, texts = await journaled(pieces, limit)
    raw = {stream: b"".join(data for each, data in pieces if each == stream) for stream in STREAMS}
    for count in range(len(entries) + 1):
        assert await gone_on(entries[:count], raw, limit) == texts


def item(stdout: str, stderr: str = "", *, most: int | None = None) -> dict:
    return {"type": "shell_call_output", "max_output_length": most, "output": [{"stdout": stdout, "stderr": stderr}]}


def copied(stdout: str, stderr: str = "", *, limit: int, most: int | None = None) -> tuple[str, str]:
    (entry,) = model_copy(item(stdout, stderr, most=most), limit)["output"]
    return entry["stdout"], entry["stderr"]


def test_the_models_copy_sums_what_was_left_out_and_still_names_the_file() -> None:
    marker = "\n... [1000 bytes left out; the whole stdout, 1040 bytes, is in /mnt/data/limpet-output/x.stdout] ...\n"
    stdout = "h" * 20 + marker + "t" * 20
    assert copied(stdout, limit=10) == (f"hhhhh{marker.replace('1000', '1030')}ttttt", "")
    assert copied(stdout, limit=10, most=20) == (f"{'h' * 10}{marker.replace('1000', '1020')}{'t' * 10}", "")


def test_the_marker_of_an_item_is_never_cut_in_two() -> None:
    for limit in range(1, 140):
        marker = "\n... [7 bytes left out; the whole stdout, 47 bytes, is in /mnt/data/limpet-output/x.stdout] ...\n"
        shown, _ = copied("h" * 20 + marker + "t" * 20, limit=limit)
        assert shown.count("bytes left out") + shown.count("characters left out") == 1, limit
        assert "/mnt/data/limpet-output/x.stdout] ...\n" in shown, limit


def test_an_item_that_another_server_made_without_streams_is_taken_as_empty() -> None:
    assert model_copy({"type": "shell_call_output", "output": [{"stdout": None}]}, 10)["output"] == [
        {"stdout": "", "stderr": ""}
    ]


async def test_a_command_whose_output_did_not_come_whole_is_lost_whatever_it_exited_with() -> None:
    with anyio.fail_after(5):
        async with box_played_here() as (box, theirs), anyio.create_task_group() as tasks:

            async def start() -> None:
                process = await box.start(Command(what=Script("cat ran")), "one")
                place = {"item_id": "i", "output_index": 0}
                output = CommandOutput(Writer(ListLog()), place, 0, "one", limit=40, streams=True)
                assert isinstance(await output.follow(process, START), Lost)
                assert await process.wait() == Exited(3)

            tasks.start_soon(start)
            number = await next_request(theirs, bytearray())
            theirs.send(wire.frame(wire.REPLY, number, wire.encode(RUNS)) + ENDED)
            theirs.close()

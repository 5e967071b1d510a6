"""What a command printed: whole, in order, byte for byte, from wherever it is asked for."""

import anyio

from limpet.core.command import START, Exited, Position
from limpet.core.ports import Offer
from limpet.testing.lab import Lab, eventually, expect, finished, of, read, same
from limpet.testing.suite import Cases

OUTPUT = Cases()
case = OUTPUT.case


@case()
async def stdout_and_stderr_stay_apart(lab: Lab) -> None:
    ran = await lab.run("echo out; echo err >&2; echo out again")
    same((ran.stdout, ran.stderr), (b"out\nout again\n", b"err\n"), "both streams")


@case()
async def all_256_byte_values_arrive_as_they_are(lab: Lab) -> None:
    every = bytes(range(256))
    await lab.box.files.write("every", every)
    ran = await lab.run("cat every; cat every >&2")
    same((ran.stdout, ran.stderr), (every, every), "the bytes of both streams")


@case()
async def no_newline_is_added(lab: Lab) -> None:
    same((await lab.run("printf x")).stdout, b"x", "the output of printf x")


@case()
async def a_command_that_prints_nothing_gives_no_chunk(lab: Lab) -> None:
    same(await read(await lab.start("true")), [], "the chunks")


@case()
async def ten_megabytes_on_both_streams_at_once_arrive_whole(lab: Lab) -> None:
    line = b"0123456789abcde\n"
    await lab.box.files.write("big", line * 625_000)
    ran = await lab.run("cat big & cat big >&2; wait")
    same((len(ran.stdout), len(ran.stderr)), (10_000_000, 10_000_000), "the bytes of both streams")
    expect(ran.stdout == ran.stderr == line * 625_000, "the bytes came in another order")


@case()
async def a_character_printed_in_two_writes_arrives_whole(lab: Lab) -> None:
    ran = await lab.run(r"printf '\303'; sleep 0.1; printf '\251'")
    same(ran.stdout, "é".encode(), "the output")


@case(Offer.STREAMING)
async def output_arrives_while_the_command_runs(lab: Lab) -> None:
    process = await lab.start("echo first; while [ ! -e go ]; do sleep 0.02; done; echo second")
    data = b""
    async for chunk in process.output():
        data += chunk.data
        if data == b"first\n":
            await lab.box.files.write("go", b"")
    same(data, b"first\nsecond\n", "the output")


@case()
async def the_offsets_of_a_stream_have_no_gaps(lab: Lab) -> None:
    process = await lab.start("for i in 1 2 3 4 5; do echo $i; echo e$i >&2; sleep 0.01; done")
    position = Position()
    for chunk in await read(process):
        same(chunk.offset, position.of(chunk.stream), f"the offset of a chunk of {chunk.stream}")
        position = position.after(chunk)
    same(position, Position(stdout=10, stderr=15), "the last position")


@case()
async def output_can_be_read_again_from_any_byte(lab: Lab) -> None:
    process = await lab.start("printf 0123456789; printf abcdefghij >&2")
    await finished(process)
    for offset in range(11):
        chunks = await read(process, Position(stdout=offset, stderr=10 - offset))
        same(of(chunks, "stdout"), b"0123456789"[offset:], f"stdout from {offset}")
        same(of(chunks, "stderr"), b"abcdefghij"[10 - offset :], f"stderr from {10 - offset}")


@case()
async def two_readers_get_the_same(lab: Lab) -> None:
    process = await lab.start("for i in 1 2 3 4 5; do echo $i; sleep 0.01; done")
    found: list[bytes] = []

    async def listen() -> None:
        found.append(of(await read(process), "stdout"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        tasks.start_soon(listen)
    same(found, [b"1\n2\n3\n4\n5\n"] * 2, "what both read")


@case()
async def output_is_kept_while_nobody_reads(lab: Lab) -> None:
    await lab.box.files.write("big", b"x" * 2_000_000)
    process = await lab.start("cat big; echo end >&2")
    same(await process.wait(), Exited(0), "the outcome")
    chunks = await read(process)
    same((len(of(chunks, "stdout")), of(chunks, "stderr")), (2_000_000, b"end\n"), "what is read afterwards")


@case()
async def the_extent_says_what_can_be_read_already(lab: Lab) -> None:
    process = await lab.start("printf 12345")
    await process.wait()
    begin, end = await process.extent()
    same((begin, end), (Position(), Position(stdout=5)), "from where to where its output is kept")
    same(of(await read(process, Position(stdout=3)), "stdout"), b"45", "the last two bytes")


@case(Offer.STREAMING)
async def a_reader_that_does_not_ask_slows_the_command(lab: Lab) -> None:
    await lab.box.files.write("big", b"x" * 4_000_000)
    # The pause is for the news of the first read: until a runtime has it there may be no reader yet, and a reader that is not there
    # slows nothing.
    process = await lab.start("cat big; sleep 0.3; cat big big big; echo end >&2; echo done > done")
    output = process.output()
    read_so_far = len((await anext(output)).data)
    before = START
    while (there := (await process.extent())[1]) != before:  # until it stands still
        before = there
        with anyio.move_on_after(0.5):
            await process.wait()
            expect(False, "it ended although its reader was 16 MB behind")
    async for chunk in output:
        read_so_far += len(chunk.data)
    same(read_so_far, 16_000_004, "all bytes, none dropped")


@case(Offer.STREAMING)
async def a_reader_that_leaves_does_not_hold_the_command_up(lab: Lab) -> None:
    await lab.box.files.write("big", b"x" * 4_000_000)
    process = await lab.start("for i in 1 2 3 4; do cat big; done")
    output = process.output()
    await anext(output)
    await close(output)
    same(await process.wait(), Exited(0), "the outcome")


@case(Offer.DETACHED, Offer.STREAMING)
async def what_a_survivor_prints_later_can_still_be_read(lab: Lab) -> None:
    process = await lab.start("(while [ ! -e go ]; do sleep 0.02; done; echo late) & echo early")
    same((await finished(process)).stdout, b"early\n", "the output at the command's end")
    await lab.box.files.write("go", b"")

    async def is_there() -> bool:
        return of(await read(process), "stdout") == b"early\nlate\n"

    await eventually(is_there, "what came later is kept under the exec id")


async def close(output: object) -> None:
    """Leave an iterator as a reader does that breaks out of its loop."""
    leave = getattr(output, "aclose", None)
    if leave is not None:
        await leave()

import os
import tempfile
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from limpet.core.command import Chunk, Position
from limpet.runtimes.spool import MEMORY, Spool
from limpet.testing.cases_output import close

pytestmark = pytest.mark.anyio


async def collected(spool: Spool, since: Position = Position()) -> list[Chunk]:  # noqa: B008 (frozen)
    return [chunk async for chunk in spool.read(since)]


async def test_what_moved_to_a_file_is_read_as_it_was_written() -> None:
    spool = Spool()
    data = os.urandom(MEMORY + MEMORY // 2)
    for start in range(0, len(data), 100_000):
        await spool.append("stdout", data[start : start + 100_000])
    spool.end()

    chunks = await collected(spool, Position(stdout=MEMORY - 5))

    assert b"".join(chunk.data for chunk in chunks) == data[MEMORY - 5 :]
    assert chunks[0].offset == MEMORY - 5


async def test_nothing_lies_in_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tempfile.tempdir = None
    try:
        spool = Spool()
        await spool.append("stdout", bytes(MEMORY + 1))
        assert list(tmp_path.iterdir()) == []
    finally:
        tempfile.tempdir = None


async def test_a_writer_waits_for_an_attached_reader_and_no_longer() -> None:
    spool = Spool(behind=10)
    await spool.append("stdout", b"0123456789")
    output = spool.read()
    first = await anext(output)

    with anyio.move_on_after(0.05) as scope:
        await spool.append("stdout", b"abcdefghijklm")
    assert scope.cancelled_caught

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(spool.append, "stdout", b"nop")
        rest = b""
        while not rest.endswith(b"nop"):
            rest += (await anext(output)).data
    assert (first.data, rest) == (b"0123456789", b"nop")


async def test_a_reader_that_left_holds_nobody_up() -> None:
    spool = Spool(behind=10)
    await spool.append("stdout", b"0123456789")
    output = spool.read()
    await anext(output)
    await close(output)

    with anyio.fail_after(5):
        await spool.append("stdout", bytes(100))


async def test_at_the_cap_the_writer_waits_also_without_a_reader() -> None:
    spool = Spool(cap=100)
    with anyio.move_on_after(0.05) as scope:
        await spool.append("stdout", bytes(60))
        await spool.append("stderr", bytes(60))
    assert scope.cancelled_caught

    spool.end()
    assert sum(len(chunk.data) for chunk in await collected(spool)) == 100


async def test_a_discarded_spool_takes_everything_and_gives_nothing() -> None:
    spool = Spool(cap=10)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(spool.append, "stdout", bytes(100))
        await anyio.lowlevel.checkpoint()
        spool.discard()
    await spool.append("stdout", bytes(100))

    assert await collected(spool) == []

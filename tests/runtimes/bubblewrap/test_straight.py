"""Much output of a command that is read once goes from its pipe to the host without being kept: whole, in order, and as fast as it
is read. `test_users.py` runs this file once more as an ordinary user."""

import hashlib
from collections.abc import AsyncGenerator

import anyio
import pytest

from limpet.core.command import START, Aborted, Exited, Position, TimedOut
from limpet.core.errors import SandboxGone
from limpet.core.ports import Process, Sandbox
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import begin, box_of, collect, eventually, run

pytestmark = pytest.mark.anyio

_MUCH = 40_000_000
_TWO_FILES = f"head -c {_MUCH} /dev/urandom > one; head -c {_MUCH // 2} /dev/urandom > two"


async def _digests(process: Process) -> tuple[str, str]:
    """Of both streams, each chunk where the last one ended."""
    found = {"stdout": hashlib.sha256(), "stderr": hashlib.sha256()}
    position = Position()
    with anyio.fail_after(30):
        async for chunk in process.output():
            assert chunk.offset == position.of(chunk.stream)
            found[chunk.stream].update(chunk.data)
            position = position.after(chunk)
    return found["stdout"].hexdigest(), found["stderr"].hexdigest()


async def _size(box: Sandbox, path: str) -> int:
    return (await box.files.stat(path)).size


async def test_all_of_both_streams_comes_in_order_and_none_of_it_is_kept(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        _, sums, _ = await run(box, f"{_TWO_FILES}; sha256sum < one; sha256sum < two")

        process = await begin(box, "cat one & cat two >&2; wait; sleep 0.1; echo end > three", read_once=True)
        digests = await _digests(process)

        assert [f"{digest}  -" for digest in digests] == sums.splitlines()
        assert await process.wait() == Exited(0)
        first, end = await process.extent()
        assert end == Position(stdout=_MUCH, stderr=_MUCH // 2)
        assert (end.stdout - first.stdout, end.stderr - first.stderr) < (1 << 20, 1 << 20)
        with pytest.raises(SandboxGone):
            await collect(process, START)
        assert await box.files.read("three") == b"end\n"


async def test_what_is_printed_by_the_line_after_much_comes_as_it_is_printed(runtime: BubblewrapRuntime) -> None:
    script = f"head -c {_MUCH} /dev/zero; for i in 1 2 3; do echo line; while [ ! -e $i ]; do sleep 0.01; done; done"
    async with box_of(runtime) as box:
        process = await begin(box, script, read_once=True)
        lines = size = 0
        with anyio.fail_after(20):
            async for chunk in process.output():
                size += len(chunk.data)
                while size == _MUCH + 5 * (lines + 1):
                    lines += 1
                    await box.files.write(str(lines), b"")

        assert lines == 3
        assert await process.wait() == Exited(0)


async def test_a_reader_that_stops_stops_the_command_and_nobody_else(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        flood = await begin(
            box, ": > rounds; while :; do head -c 1000000 /dev/zero; printf . >> rounds; done", read_once=True
        )
        reader = flood.output()
        assert isinstance(reader, AsyncGenerator)
        await anext(reader)
        rounds: list[int] = []

        async def stands_still() -> bool:
            rounds.append(await _size(box, "rounds"))
            await anyio.sleep(0.1)
            return len(rounds) > 3 and len(set(rounds[-3:])) == 1

        await eventually(stands_still)

        assert rounds[-1] < 10
        assert await run(box, "echo quick") == (Exited(0), "quick\n", "")
        await flood.abort()
        await reader.aclose()
        assert await flood.wait() == Aborted()


async def test_two_floods_and_a_small_command_have_their_turns(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box, anyio.create_task_group() as tasks:
        sizes = {"stdout": 0, "stderr": 0, "other": 0}

        async def read(process: Process, name: str | None) -> None:
            async for chunk in process.output():
                sizes[name or chunk.stream] += len(chunk.data)

        both = await begin(box, "yes & yes >&2", read_once=True)
        other = await begin(box, "yes", read_once=True)
        tasks.start_soon(read, both, None)
        tasks.start_soon(read, other, "other")

        async def all_have_much() -> bool:
            return min(sizes.values()) > 10_000_000

        with anyio.fail_after(5):
            assert await run(box, "echo quick") == (Exited(0), "quick\n", "")
        await eventually(all_have_much)
        await both.abort()
        await other.abort()


async def test_when_its_reader_has_left_the_command_goes_on_and_the_rest_is_kept(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        process = await begin(box, f"head -c {_MUCH} /dev/zero; echo end >&2", read_once=True)
        reader = process.output()
        assert isinstance(reader, AsyncGenerator)
        seen = 0
        while seen < 10_000_000:
            seen += len((await anext(reader)).data)
        await reader.aclose()

        with anyio.fail_after(20):
            assert await process.wait() == Exited(0)
        first, end = await process.extent()
        assert end == Position(stdout=_MUCH, stderr=4)
        assert sum(len(chunk.data) for chunk in await collect(process, first)) == _MUCH - first.stdout + 4


async def test_a_command_that_takes_its_own_output_away_harms_nobody(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        thief = "for i in 1 2 3 4; do dd of=/dev/null bs=1k < /proc/self/fd/1 2> /dev/null & done"
        process = await begin(box, f"{thief}; head -c {_MUCH} /dev/zero; echo end >&2; kill $(jobs -p)", read_once=True)
        chunks = await collect(process)

        assert await process.wait() == Exited(0)
        assert sum(len(chunk.data) for chunk in chunks if chunk.stream == "stdout") < _MUCH
        assert {chunk.data for chunk in chunks if chunk.stream == "stderr"} == {b"end\n"}
        assert await run(box, "echo quick") == (Exited(0), "quick\n", "")


async def test_a_timeout_ends_a_flood_and_what_was_printed_before_has_come(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        process = await begin(box, "yes", read_once=True, timeout=0.5)
        with anyio.fail_after(10):
            size = sum([len(chunk.data) async for chunk in process.output()])
            assert await process.wait() == TimedOut()

        assert (await process.extent())[1] == Position(stdout=size)

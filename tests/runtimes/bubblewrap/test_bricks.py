"""What a command does to its box so that nothing after it works, and the next command that works all the same."""

import anyio
import pytest

from limpet.core.command import Exited
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import WITHIN, begin, box_of, collect

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "hazard",
    [
        "prlimit --pid 1 --nofile=4:4",
        "prlimit --pid 1 --nproc=1:1",
        "prlimit --pid 1 --fsize=0:0",
        "prlimit --pid 1 --as=1000:1000",
        "renice 19 1",
        "renice 19 -u agent",
        "renice 19 -g 1",
        "chrt --idle --pid 0 1",
        "taskset -p 1 1",
        "ionice -c 3 -p 1",
        "ionice -c 3 -u 1000",
    ],
)
async def test_the_agent_cannot_be_bounded_or_starved(runtime: BubblewrapRuntime, hazard: str) -> None:
    async with box_of(runtime) as sandbox:
        refused = await begin(sandbox, hazard)
        assert await refused.wait() != Exited(0)

        after = await begin(sandbox, "head -c 3000000 /dev/zero | cat")
        assert sum(len(chunk.data) for chunk in await collect(after)) == 3_000_000
        assert await after.wait() == Exited(0)


async def test_a_commands_own_limits_and_priorities_can_be_set(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as sandbox:
        own = await begin(
            sandbox, "ulimit -n 100 && prlimit --pid $$ --nproc=50 && renice 19 $$ && nice -n 5 taskset -c 0 true"
        )
        assert await own.wait() == Exited(0)


@pytest.mark.parametrize("mode", ["000", "600"])
async def test_a_working_directory_that_was_closed_is_opened_for_the_next_command(
    runtime: BubblewrapRuntime, mode: str
) -> None:
    async with box_of(runtime) as sandbox:
        closed = await begin(sandbox, f"echo kept > file; chmod {mode} /mnt/data")
        assert await closed.wait() == Exited(0)

        after = await begin(sandbox, "cat file")
        assert b"".join(chunk.data for chunk in await collect(after)) == b"kept\n"


async def test_a_slow_reader_reaches_the_end_of_a_command_that_left_an_endless_writer(
    runtime: BubblewrapRuntime,
) -> None:
    async with box_of(runtime) as sandbox:
        process = await begin(sandbox, "yes &")
        assert await process.wait() == Exited(0)

        with anyio.fail_after(WITHIN):
            async for _ in process.output():
                await anyio.sleep(0.001)  # slower than `yes`, however fast this machine is

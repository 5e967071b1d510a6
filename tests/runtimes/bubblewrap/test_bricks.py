"""What a command does to its box so that nothing after it works, and the next command that works all the same."""

import pytest

from limpet.core.command import Exited
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import begin, box_of, collect

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

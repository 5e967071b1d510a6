"""What the bounds of processor, file size and open files do to a command that runs into them, and that the next one answers."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from limpet.core.command import Exited
from limpet.core.ports import Limits, Offer, Sandbox
from limpet.runtimes.bubblewrap import BubblewrapRuntime, BubblewrapSettings
from limpet.runtimes.bubblewrap.limits.groups import find_groups
from limpet.runtimes.bubblewrap.settings import BoxPaths
from tests.runtimes.bubblewrap.boxes import begin, box_of, collect, run, text
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

needs_groups = pytest.mark.skipif(find_groups() is None, reason="no cgroup can be made here")
# Two that compute for 1.5 s; prints how much of a processor both had meanwhile.
_BUSY = """exec python3 -c '
import os, time
before, begun = sum(os.times()[:4]), time.monotonic()
other = os.fork()
while time.monotonic() < begun + 1.5:
    pass
if other == 0:
    os._exit(0)
os.wait()
print((sum(os.times()[:4]) - before) / (time.monotonic() - begun))'"""
_TOO_LARGE = "killed: a file reached the size limit of 1 MiB."


@pytest.fixture
async def box(home: Path) -> AsyncIterator[Sandbox]:
    """Small files and few of them open, by the settings: so for root and for an ordinary user."""
    async with opened("bubblewrap", home):
        pass  # skips where there are no boxes
    settings = BubblewrapSettings(home=home, file_size_mb=1, open_files=64)
    async with BubblewrapRuntime(settings) as runtime, box_of(runtime) as box:
        yield box


async def _share(box: Sandbox) -> float:
    outcome, stdout, stderr = await run(box, _BUSY)
    assert (outcome, stderr) == (Exited(0), "")
    return float(stdout)


def _held_back(home: Path, box: Sandbox) -> int:
    """How often the kernel made the box's group wait for its share, as it says itself (cpu.stat)."""
    groups = find_groups()
    assert groups is not None
    said = (groups.parents["cpu"] / BoxPaths.of(home, box.ref.name).group / "cpu.stat").read_text()
    return int(dict(line.split() for line in said.splitlines())["nr_throttled"])


@needs_groups
async def test_busy_loops_together_get_no_more_than_their_boxs_cores(runtime: BubblewrapRuntime, home: Path) -> None:
    async with box_of(runtime, limits=Limits(cpus=0.2)) as box:
        used = await _share(box)
        assert _held_back(home, box) > 0
        begun = time.monotonic()
        after = await run(box, "echo alive")
        waited = time.monotonic() - begun

    # A period begun in advance comes to it.
    assert used < 0.3
    assert (after, waited < 5) == ((Exited(0), "alive\n", ""), True)


@needs_groups
async def test_what_one_box_may_compute_is_nothing_that_another_lacks(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, limits=Limits(cpus=0.25)) as greedy, box_of(runtime, limits=Limits(cpus=1)) as other:
        hog = await begin(greedy, "for i in 1 2 3 4; do (while :; do :; done) & done; wait")
        begun = time.monotonic()
        answered = await run(other, "echo alive")
        waited = time.monotonic() - begun
        await hog.abort()

    assert (answered, waited < 5) == ((Exited(0), "alive\n", ""), True)


async def test_without_groups_it_is_said_that_the_processor_is_not_bounded(runtime: BubblewrapRuntime) -> None:
    probe = await runtime.probe()

    bounded = Offer.LIMITS in runtime.offers
    assert ("CPU is not bounded." in probe.notes) is not bounded
    assert runtime.held.cpu == ("sandbox" if bounded else "none")


@pytest.mark.parametrize("script", ["exec head -c 3000000 /dev/zero > f", "head -c 3000000 /dev/zero > f"])
async def test_a_file_beyond_the_limit_ends_its_command_and_the_result_says_so(box: Sandbox, script: str) -> None:
    process = await begin(box, script)
    with anyio.fail_after(10):
        ended = await process.wait()

    assert (ended, process.notes()) == (Exited(153), (_TOO_LARGE,))
    assert await run(box, "stat -c %s f; rm f; echo x > f") == (Exited(0), f"{1 << 20}\n", "")


async def test_a_command_whose_child_wrote_too_much_goes_on_and_reads_why(box: Sandbox) -> None:
    process = await begin(box, "head -c 3000000 /dev/zero > f; echo then")
    chunks = await collect(process)

    assert (await process.wait(), text(chunks), process.notes()) == (Exited(0), "then\n", ())
    assert "File size limit exceeded" in text(chunks, "stderr")


async def test_a_program_that_would_rather_know_gets_an_error(box: Sandbox) -> None:
    outcome, _, stderr = await run(box, 'exec python3 -c \'open("f", "wb").write(bytes(3 << 20))\'')

    assert (outcome, "File too large" in stderr) == (Exited(1), True)


async def test_a_leak_of_descriptors_ends_itself_and_the_next_command_answers(box: Sandbox) -> None:
    leak = "exec python3 -c 'import os\nwhile True: print(os.dup(0), flush=True)'"
    outcome, stdout, stderr = await run(box, leak)
    raised = await run(box, "ulimit -n 65 2>&1; ulimit -n")

    assert (outcome, stdout.split()[-1], "Too many open files" in stderr) == (Exited(1), "63", True)
    assert raised[1].endswith("\n64\n")
    assert await run(box, "cat /dev/null; echo alive") == (Exited(0), "alive\n", "")


async def test_output_is_no_file_and_may_be_longer_than_the_largest(box: Sandbox) -> None:
    outcome, stdout, _ = await run(box, "head -c 3000000 /dev/zero | tr '\\0' x")

    assert (outcome, len(stdout)) == (Exited(0), 3_000_000)

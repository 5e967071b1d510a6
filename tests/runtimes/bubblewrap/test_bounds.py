"""What becomes of a command that reaches a bound of its box: it ends, its result says so, the box answers the next command."""

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from limpet.core.command import Exited, TimedOut
from limpet.core.ports import Limits, Offer
from limpet.runtimes.bubblewrap import BubblewrapRuntime, BubblewrapSettings
from limpet.runtimes.bubblewrap.limits.disk_looks import FreeSpace, LimitReached, decide
from limpet.runtimes.bubblewrap.limits.groups import find_groups
from tests.runtimes.bubblewrap.boxes import begin, box_of, collect, run
from tests.store.disk import mount, unmount
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

needs_groups = pytest.mark.skipif(find_groups() is None, reason="no cgroup can be made here")
_HOG = "python3 -c 'b = bytearray(400 << 20)'"
_BOMB = "python3 -c 'import os, time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(0.01)'"
_FILLS = "while head -c 4000000 /dev/zero >> full; do sleep 0.02; done"
_KILLED = "killed: the disk limit of 20 MiB was reached."
_UNSEEN = (
    "killed: the disk limit of 20 MiB was reached with files that have no name, and are mapped or were sent through"
    " sockets and not received."
)
_MAPS = """exec python3 -c '
import ctypes, os, time
for _ in range(99):
    file = os.open(".", os.O_RDWR | os.O_TMPFILE)
    os.write(file, bytes(4_000_000))
    ctypes.CDLL(None).mmap(None, 4096, 1, 1, file, ctypes.c_long(0))
    os.close(file)
    time.sleep(0.05)
' """
# Sends files without a name to a socket that it reads or does not, each with 4 MB in it.
_SENDS = """exec python3 -c '
import os, socket, sys, time
here, there = socket.socketpair(socket.AF_UNIX)
for _ in range(int(sys.argv[1])):
    file = os.open(".", os.O_RDWR | os.O_TMPFILE)
    os.write(file, bytes(4_000_000))
    socket.send_fds(here, [b"."], [file])
    os.close(file)
    if sys.argv[2] == "received": os.close(socket.recv_fds(there, 1, 1)[1][0])
    time.sleep(0.05)
' """
_LEFT = "the disk limit of 20 MiB was reached: a process that an earlier command had left running was killed."


@pytest.fixture
async def small(home: Path) -> AsyncIterator[BubblewrapRuntime]:
    """Boxes of 20 MiB, looked at often."""
    async with opened("bubblewrap", home):
        pass  # skips where there are no boxes
    async with BubblewrapRuntime(BubblewrapSettings(home=home, disk_mb=20, disk_every=0.05)) as runtime:
        yield runtime


@pytest.fixture
def quiet(home: Path) -> Iterator[None]:
    """The home is on a disk of its own, where that can be: what is concluded from free space is not what others write and remove."""
    refused = mount(home, 4 << 30)
    home.chmod(0o711)
    yield
    if refused is None:
        unmount(home)


async def notes_of(box, script: str, **settings: object) -> tuple[object, tuple[str, ...]]:
    process = await begin(box, script, **settings)
    with anyio.fail_after(20):
        return await process.wait(), tuple(process.notes())


# Memory


@needs_groups
async def test_a_memory_hog_is_told_what_killed_it(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, limits=Limits(memory=128 << 20)) as box:
        hog = await notes_of(box, f"exec {_HOG}")
        child = await notes_of(box, f"{_HOG}; echo then")
        after = await notes_of(box, "true")

    assert hog == (Exited(137), ("killed: the box's memory limit of 128 MiB was reached.",))
    assert child == (
        Exited(0),
        ("the box's memory limit of 128 MiB was reached, and a process of the box was killed.",),
    )
    assert after == (Exited(0), ())


@needs_groups
async def test_a_hog_that_a_command_left_behind_is_told_of_by_the_next(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, limits=Limits(memory=128 << 20)) as box:
        await run(box, f"(until [ -e go ]; do sleep 0.01; done; {_HOG}; touch gone) > /dev/null 2>&1 &")
        await box.files.write("go", b"")
        with anyio.fail_after(10):
            while not [one for one in await box.files.list() if one.path.endswith("gone")]:
                await anyio.sleep(0.02)
        _, notes = await notes_of(box, "true")

    assert notes == ("the box's memory limit of 128 MiB was reached, and a process of the box was killed.",)


async def test_when_memory_runs_out_what_the_newest_command_left_goes_first(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        scores = []
        for seconds in (9881, 9882):
            await run(box, f"setsid -f sleep {seconds}")
            asked = "cat /proc/$(pgrep -f '[s]leep 9881')/oom_score_adj /proc/$(pgrep -f '[s]leep 9882')/oom_score_adj"
            scores.append((await run(box, f"sleep 0.2; cat /proc/self/oom_score_adj; {asked} 2> /dev/null"))[1].split())

    assert scores == [["500", "900"], ["500", "700", "900"]]


# Processes


async def test_a_fork_bomb_is_told_of_the_limit_when_its_time_is_over(runtime: BubblewrapRuntime) -> None:
    settings = {"limits": Limits(processes=40)} if Offer.LIMITS in runtime.offers else {}
    most = 40 if settings else BubblewrapSettings(home=Path()).processes
    async with box_of(runtime, **settings) as box:
        assert await notes_of(box, _BOMB, timeout=2) == (
            TimedOut(),
            (f"the box's process limit of {most} was reached.",),
        )
        assert await notes_of(box, "ls") == (Exited(0), ())


@needs_groups
async def test_where_processes_are_short_the_newest_commands_survivors_go_first(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, limits=Limits(processes=40)) as box:
        await run(box, "setsid sleep 9871 > /dev/null 2>&1 & sleep 0.05")
        await run(box, f"setsid {_BOMB} > /dev/null 2>&1 & sleep 0.7")
        process = await begin(box, "pgrep -fc '[s]leep 9871'; ls -d /mnt/data; pgrep -fc '[o]s.fork'")
        chunks = await collect(process)
        printed = b"".join(chunk.data for chunk in chunks)

        assert printed == b"1\n/mnt/data\n0\n"
        (note,) = process.notes()
        assert note.startswith("the box's process limit of 40 was reached: ")
        assert note.endswith(" processes that earlier commands had left running were killed.")
        assert await notes_of(box, "true") == (Exited(0), ())


# Disk


async def test_who_fills_the_disk_is_killed_and_told_and_the_next_command_can_make_room(
    small: BubblewrapRuntime,
) -> None:
    async with box_of(small) as box:
        reads = await begin(box, "sleep 9872")
        filled = await notes_of(box, _FILLS)
        cleared = await run(box, "rm full; echo room")

        assert filled == (Exited(137), (_KILLED,))
        assert cleared == (Exited(0), "room\n", "")
        assert await notes_of(box, "head -c 1000000 /dev/zero > small; sleep 0.3") == (Exited(0), ())
        await reads.abort()
        assert reads.notes() == ()


@pytest.mark.parametrize("place", ["/mnt/data", "/home/agent", "/tmp", "/dev/shm"])
async def test_every_writable_place_counts(small: BubblewrapRuntime, place: str) -> None:
    async with box_of(small) as box:
        assert await notes_of(box, _FILLS, cwd=place) == (Exited(137), (_KILLED,))


@pytest.mark.parametrize(
    "script",
    [
        "exec 7> hidden; rm hidden; while head -c 4000000 /dev/zero >&7; do sleep 0.02; done",
        "while echo; do i=$((i + 1)); head -c 4000000 /dev/zero > f$i; sleep 0.02; done > /dev/null",
        "head -c 4000000 /dev/zero > f; for i in $(seq 99); do cp f f$i; ln f f-$i; rm f; mv f-$i f; sleep 0.02; done",
        "python3 -c 'import os, time\nfor i in range(99): os.posix_fallocate(os.open(str(i), 66), 0, 1 << 22); time.sleep(0.02)'",
    ],
    ids=["without_a_name", "many_files", "links", "allocating"],
)
async def test_no_way_of_writing_is_overlooked(small: BubblewrapRuntime, script: str) -> None:
    async with box_of(small) as box:
        assert await notes_of(box, script) == (Exited(137), (_KILLED,))


@pytest.mark.parametrize("script", [f"{_SENDS} 99 kept", _MAPS], ids=["sent_and_not_received", "mapped_and_not_open"])
async def test_files_that_no_look_finds_count_too(quiet: None, small: BubblewrapRuntime, script: str) -> None:
    async with box_of(small) as box:
        outcome, notes = await notes_of(box, script)
        # Root can look through a mapping.
        assert (outcome, notes) in [(Exited(137), (_UNSEEN,)), (Exited(137), (_KILLED,))]
        assert await notes_of(box, "head -c 1000000 /dev/zero > small; sleep 0.3") == (Exited(0), ())


async def test_files_that_are_sent_and_received_are_nobodys_fault(small: BubblewrapRuntime) -> None:
    async with box_of(small) as box:
        assert await notes_of(box, f"{_SENDS} 20 received") == (Exited(0), ())
        assert await notes_of(box, f"{_SENDS} 3 kept") == (Exited(0), ())


@pytest.mark.skipif(os.geteuid() != 0, reason="the agent's descriptors show only to root")
async def test_output_that_nobody_reads_counts_too(small: BubblewrapRuntime) -> None:
    async with box_of(small) as box:
        assert await notes_of(box, "yes") == (Exited(137), (_KILLED,))


async def test_of_two_who_write_the_newest_goes_first(small: BubblewrapRuntime) -> None:
    """The newer one's file has no name, so that its room is there again when it is killed."""
    async with box_of(small) as box:
        older = await begin(box, "while sleep 0.02; do head -c 70000 /dev/zero > own; done")
        newer = await notes_of(box, f"exec 7> hidden; rm hidden; {_FILLS.replace('>> full', '>&7')}")

        assert newer == (Exited(137), (_KILLED,))
        with anyio.move_on_after(0.5) as waiting:
            await older.wait()
        assert waiting.cancelled_caught
        await older.abort()
        assert older.notes() == ()


async def test_what_a_command_left_behind_is_stopped_too_and_the_next_one_is_told(small: BubblewrapRuntime) -> None:
    async with box_of(small) as box:
        await run(box, f"({_FILLS}) > /dev/null 2>&1 &")
        waits = await begin(
            box, "until [ -z \"$(pgrep -f '[h]ead -c 4000000')\" ] && sleep 0.2; do sleep 0.1; done", timeout=15
        )

        await waits.wait()
        assert waits.notes() == (_LEFT,) or (await notes_of(box, "true"))[1] == (_LEFT,)
        assert await run(box, "rm full; echo room") == (Exited(0), "room\n", "")


async def test_holes_are_no_use_of_the_disk(small: BubblewrapRuntime) -> None:
    async with box_of(small) as box:
        assert await notes_of(box, "truncate -s 1G holes; head -c 2000000 /dev/zero > f; sleep 0.3") == (Exited(0), ())


async def test_where_the_hosts_disk_is_nearly_full_whoever_writes_is_stopped(home: Path) -> None:
    async with opened("bubblewrap", home):
        pass
    more_than_there_is = (shutil.disk_usage(home).total >> 20) + 1
    settings = BubblewrapSettings(home=home, disk_floor_mb=more_than_there_is, disk_every=0.05)
    async with BubblewrapRuntime(settings) as runtime, box_of(runtime) as box:
        idle = await begin(box, "sleep 9873")
        told = await notes_of(box, _FILLS)

        assert told == (Exited(137), ("killed: the disk of the host is nearly full.",))
        assert await run(box, "rm full; echo still here") == (Exited(0), "still here\n", "")
        await idle.abort()


async def test_a_box_that_was_entered_again_keeps_its_limit(home: Path) -> None:
    async with opened("bubblewrap", home):
        pass
    small = BubblewrapSettings(home=home, disk_mb=20, disk_every=0.05)
    large = BubblewrapSettings(home=home, disk_every=0.05)
    async with BubblewrapRuntime(small) as first, box_of(first) as box, BubblewrapRuntime(large) as second:
        again = await second.attach(box.ref)
        assert await notes_of(again, _FILLS) == (Exited(137), (_KILLED,))
        await again.release()


@pytest.mark.parametrize(
    "used, free, reached",
    [
        (10 << 20, FreeSpace(1 << 20, 64), None),
        ((10 << 20) + 1, FreeSpace(1 << 20, 64), LimitReached("the disk limit of 10 MiB was reached", False)),
        (0, FreeSpace((1 << 20) - 1, 64), LimitReached("the disk of the host is nearly full", True)),
        (0, FreeSpace(1 << 20, 63), LimitReached("the disk of the host has room for few more files", True)),
    ],
)
def test_which_limit_is_reached(used: int, free: FreeSpace, reached: LimitReached | None) -> None:
    assert decide(used=used, limit=10 << 20, free=free, floor=1 << 20) == reached

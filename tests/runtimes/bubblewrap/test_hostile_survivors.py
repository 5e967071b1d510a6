"""What a command left running and stops or kills all others: it ends, the next command works, and its result says so."""

import anyio
import pytest

from limpet.core.command import Aborted, Exited
from limpet.core.ports import Sandbox
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import begin, box_of, collect, run, text

pytestmark = pytest.mark.anyio

_SAYS = "what earlier commands had left running stopped or killed every other process: "
_WORKS = "ls -d /mnt/data; sleep 0.3; ls -d /tmp; echo alive"
_HOSTILE = {
    "a loop that kills": "(while :; do kill -9 -1; done) & sleep 0.05",
    "a loop that stops": "(sleep 0.2; while :; do kill -STOP -1; done) > /dev/null 2>&1 &",
    # They spare each other, whose command lines are the same: of three that do not, none may be left.
    "several that kill and deny it": (
        'for i in 1 2 3; do setsid python3 -c \'import os\nown = open("/proc/self/cmdline").read()\nwhile True:\n'
        ' for n in range(2, 400):\n  try: open(f"/proc/{n}/cmdline").read() == own or os.kill(n, 9)\n'
        "  except OSError: pass' > /dev/null 2>&1 & done; sleep 0.2"
    ),
    "one that begins when its command has ended": "(sleep 0.3; while :; do kill -9 -1; done) > /dev/null 2>&1 &",
    "one that comes again and again": "(exec 3<> <(:); while :; do read -t 0.1 -u 3; kill -9 -1; done) > /dev/null 2>&1 &",
    "one that stops now and then": "(exec 3<> <(:); while :; do read -t 0.1 -u 3; kill -STOP -1; done) > /dev/null 2>&1 &",
    "a program": (
        "setsid python3 -c 'import os\nwhile True:\n for n in range(2, 400):\n  if n != os.getpid():\n   try: os.kill(n, 9)\n"
        "   except OSError: pass' > /dev/null 2>&1 & sleep 0.2"
    ),
}


async def _tried(box: Sandbox, script: str, expected: str) -> tuple[int, list[str]]:
    """How often it was run until it worked, and all that was said meanwhile."""
    said: list[str] = []
    for times in range(1, 6):
        process = await begin(box, script, timeout=2)
        chunks = await collect(process)
        outcome = await process.wait()
        said += process.notes()
        if (outcome, text(chunks)) == (Exited(0), expected):
            return times, said
    return 9, said


@pytest.mark.parametrize("hostile", _HOSTILE.values(), ids=_HOSTILE.keys())
async def test_what_lays_siege_is_ended_and_the_command_runs(runtime: BubblewrapRuntime, hostile: str) -> None:
    async with box_of(runtime) as box:
        process = await begin(box, hostile, timeout=2)
        await collect(process)
        await process.wait()
        await anyio.sleep(0.5)  # what begins later has begun
        times, said = await _tried(box, _WORKS, "/mnt/data\n/tmp\nalive\n")
        left = await run(box, "pgrep -c .; true")

    # At once where it strikes at once; what strikes now and then is met by a command or two first.
    assert times <= 4
    assert [note.startswith(_SAYS) for note in said] == [True]
    assert int(left[1]) <= 3


async def test_what_an_earlier_command_left_in_peace_stays_where_the_newest_ones_end_is_enough(
    runtime: BubblewrapRuntime,
) -> None:
    async with box_of(runtime) as box:
        # Of another session and not to be stopped by the second: it is started as a program that the loop spares.
        await run(box, "setsid sleep 9891 > /dev/null 2>&1 & sleep 0.05")
        await run(
            box,
            "own=$(pgrep -f '[s]leep 9891'); (while :; do for p in /proc/[0-9]*; do p=${p#/proc/};"
            " [ $p = $own ] || [ $p = 1 ] || [ $p = $BASHPID ] || kill -9 $p; done; done) > /dev/null 2>&1 & sleep 0.1",
            timeout=2,
        )
        times, said = await _tried(box, "pgrep -fc '[s]leep 9891'; sleep 0.3", "1\n")

    assert (times <= 4, [note.startswith(_SAYS) for note in said]) == (True, [True])


async def test_nothing_is_ended_where_commands_only_kill_or_stop_themselves(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        await run(box, "setsid sleep 9892 > /dev/null 2>&1 &")
        said: list[str] = []
        for script in ("kill -9 $$", "exec sh -c 'kill -9 $$'", "kill -9 $$"):
            process = await begin(box, script)
            assert await process.wait() == Exited(137)
            said += process.notes()
        stopped = await begin(box, "kill -STOP $$; echo went on")
        with anyio.move_on_after(0.5):
            await stopped.wait()
        await stopped.abort()
        found = await run(box, "pgrep -fc '[s]leep 9892'")

    assert (await stopped.wait(), [*said, *stopped.notes()], found[1]) == (Aborted(), [], "1\n")

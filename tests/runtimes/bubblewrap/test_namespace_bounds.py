"""Bounds that are set from outside: terminals, and what System V keeps in memory where no group counts it."""

import os
from pathlib import Path

import anyio
import pytest

from limpet.core.command import Exited, Terminal
from limpet.core.ports import Offer, TimeToLive
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from limpet.runtimes.bubblewrap.limits import namespace_bounds
from limpet.runtimes.bubblewrap.settings import TERMINALS, BubblewrapSettings
from tests.runtimes.bubblewrap.boxes import WITHIN, begin, box_of, run
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio

# A helper does it for users while the box runs already.
_IS_BOUNDED = "until grep -q max= /proc/mounts; do sleep 0.01; done"
_OPENS_ALL = """exec /usr/bin/python3 -c '
import os, sys
held = []
try:
    while True: held.append(os.openpty())
except OSError as error:
    print(len(held), error.strerror, flush=True)
sys.stdin.read()
'"""


def test_an_ordinary_users_boxes_are_bounded_too() -> None:
    again_as_an_ordinary_user(__file__)


async def test_a_box_that_opens_terminals_until_it_is_refused_leaves_other_boxes_theirs(
    runtime: BubblewrapRuntime,
) -> None:
    async with box_of(runtime) as greedy, box_of(runtime) as other:
        await run(greedy, _IS_BOUNDED, timeout=WITHIN)
        hog = await begin(greedy, _OPENS_ALL, keeps_stdin_open=True)
        first = await anext(hog.output())
        shown = await run(other, "tty && stat -c %a $(tty)", terminal=Terminal())
        in_the_same = await run(greedy, "echo it goes on")
        await hog.close_stdin()
        await hog.wait()
        afterwards = await run(greedy, "tty", terminal=Terminal())

    assert first.data.decode() == f"{TERMINALS} No space left on device\n"
    assert shown == (Exited(0), "/dev/pts/0\r\n620\r\n", "")
    assert in_the_same == (Exited(0), "it goes on\n", "")
    assert afterwards == (Exited(0), "/dev/pts/0\r\n", "")


async def test_a_whole_box_gets_no_more_segments_than_memory_where_no_group_counts_them(home: Path) -> None:
    settings = BubblewrapSettings(home=home, memory_mb=64)
    async with BubblewrapRuntime(settings) as runtime:
        if Offer.LIMITS in runtime.offers:
            pytest.skip("here a group bounds the memory of a box, segments included")
        async with box_of(runtime) as sandbox:
            await run(sandbox, _IS_BOUNDED, timeout=WITHIN)
            made = await run(sandbox, "for i in 1 2 3 4 5; do ipcmk -M 20M || break; done 2>&1 | grep -c id:")
            sets = await run(sandbox, "while ipcmk -S 250; do :; done 2> /dev/null | wc -l")
            queues = await run(sandbox, "ulimit -t 2; while ipcmk -Q; do :; done 2> /dev/null | wc -l")
    assert (made, sets) == ((Exited(0), "3\n", ""), (Exited(0), "128\n", ""))
    assert queues == (Exited(0), "1024\n", "")


async def test_a_box_that_is_let_go_of_at_once_is_bounded_all_the_same(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, lifetime=TimeToLive(60)) as first:
        await first.release()
        again = await runtime.attach(first.ref)
        shown = await run(again, "grep -c max=64 /proc/mounts")
        await again.destroy()

    assert shown == (Exited(0), "1\n", "")


async def test_a_box_that_had_more_before_it_was_bounded_is_told_of(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as sandbox:
        await run(sandbox, _IS_BOUNDED, timeout=WITHIN)
        hog = await begin(sandbox, _OPENS_ALL, keeps_stdin_open=True)
        await anext(hog.output())
        facts, codes = sandbox.ref.facts, []
        user = [] if facts["owner"] is None else ["setpriv", "--reuid", str(facts["owner"]), "--clear-groups"]
        for most in (TERMINALS, TERMINALS - 1):
            program = ["/usr/bin/python3", "-I", "-S", "-c", Path(namespace_bounds.__file__).read_text()]
            words = [*user, *program, str(facts["pid"]), facts["started"], str(most), "1000"]
            codes.append((await anyio.run_process(words, check=False)).returncode)

    assert codes == [0, namespace_bounds.EXCEEDED]


async def test_no_other_process_is_taken_for_the_agent() -> None:
    with pytest.raises(ProcessLookupError):
        namespace_bounds.bound_terminals(os.getpid(), "1", 1)


async def test_where_terminals_cannot_be_bounded_the_probe_says_so(runtime: BubblewrapRuntime) -> None:
    probe = await runtime.probe()
    assert [note for note in probe.notes if "terminals" in note or "System V" in note] == []

"""A command's time limit holds also where its box's agent does nothing for it: here the agent is stopped from the host, as a box that is
busy enough, or has got hold of its agent, might stop it."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from limpet.core.command import Command, Exited, Script, TimedOut
from limpet.core.errors import SandboxGone
from limpet.core.ports import Sandbox
from limpet.runtimes.bubblewrap import BubblewrapRuntime, BubblewrapSettings
from tests.runtimes.bubblewrap.boxes import begin, box_of, collect, eventually, is_gone, processes_naming, run, text

pytestmark = pytest.mark.anyio

GRACE = 0.4


@pytest.fixture
async def strict(home: Path, runtime: BubblewrapRuntime) -> AsyncIterator[BubblewrapRuntime]:
    """`runtime` tells whether boxes can be had."""
    async with BubblewrapRuntime(BubblewrapSettings(home=home, limit_grace=GRACE)) as strict:
        yield strict


def _stop(box: Sandbox) -> None:
    os.kill(box.ref.facts["pid"], signal.SIGSTOP)


def _let_go_on(box: Sandbox) -> None:
    os.kill(box.ref.facts["pid"], signal.SIGCONT)


async def test_a_command_is_killed_and_answered_while_the_agent_does_nothing(strict: BubblewrapRuntime) -> None:
    with anyio.fail_after(20):
        async with box_of(strict) as box:
            script = "echo before; for i in 1 2 3; do setsid sleep 7311 & done; sleep 7311"
            process = await begin(box, script, timeout=0.6)
            output = aiter(process.output())
            first = await anext(output)
            _stop(box)
            outcome = await process.wait()
            rest = [chunk async for chunk in output]
            while _sleeping("sleep 7311"):
                await anyio.sleep(0.01)
            _let_go_on(box)
            after = await run(box, "echo after")

    assert (outcome, text([first, *rest])) == (TimedOut(), "before\n")
    assert after == (Exited(0), "after\n", "")


async def test_a_command_that_never_began_is_answered_and_does_not_begin_later(strict: BubblewrapRuntime) -> None:
    with anyio.fail_after(20):
        async with box_of(strict) as box:
            _stop(box)
            process = await begin(box, "sleep 1; echo began > /mnt/data/began", timeout=0.1)
            outcome, chunks = await process.wait(), await collect(process)
            _let_go_on(box)
            after = await run(box, "sleep 1.2; ls /mnt/data")

    assert (outcome, chunks) == (TimedOut(), [])
    assert after == (Exited(0), "", "")


async def test_an_agent_that_never_answers_again_ends_its_box_only(strict: BubblewrapRuntime) -> None:
    with anyio.fail_after(20):
        async with box_of(strict) as box, box_of(strict) as other:
            process = await begin(box, "sleep 7312", timeout=0.2)
            _stop(box)
            outcome = await process.wait()
            with pytest.raises(SandboxGone, match="did not answer for long"):
                await box.touch()
            await eventually(lambda: is_gone(box.ref.facts["pid"]))
            after = await run(other, "echo works")

    assert outcome == TimedOut()
    assert after == (Exited(0), "works\n", "")


async def test_a_fork_bomb_that_ignores_signals_ends_in_its_time(strict: BubblewrapRuntime) -> None:
    bomb = "trap '' TERM INT HUP; f() { f | f & }; f; while :; do :; done"
    with anyio.fail_after(30):
        async with box_of(strict) as box:
            begun = anyio.current_time()
            process = await box.start(Command(what=Script(bomb), timeout=1.0), "bomb")
            outcome = await process.wait()
            took = anyio.current_time() - begun

    assert outcome == TimedOut()
    assert took < 1.0 + 2 * GRACE + 5


async def test_a_command_that_ends_in_time_is_let_be(strict: BubblewrapRuntime) -> None:
    async with box_of(strict) as box:
        outcomes = [await run(box, script, timeout=0.3) for script in ("true", "sleep 0.05; exit 3")]
        lasting = await begin(box, "sleep 1.5; echo done", timeout=30.0)
        ended = await collect(lasting)

    assert [outcome for outcome, *_ in outcomes] == [Exited(0), Exited(3)]
    assert text(ended) == "done\n"


def _sleeping(words: str) -> list[str]:
    return [found for found in processes_naming(words) if found.partition(": ")[2].startswith(words)]

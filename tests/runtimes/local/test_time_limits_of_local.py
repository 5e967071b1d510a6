"""A command's time limit holds also where its sandbox's agent does nothing for it: here it is stopped, as any command may stop it."""

import os
import signal
from collections.abc import AsyncIterator

import anyio
import pytest

from limpet.core.command import Command, Exited, Script, TimedOut
from limpet.core.errors import SandboxGone
from limpet.core.ports import Process, Sandbox, SandboxSpec
from limpet.runtimes import procfs
from limpet.runtimes.local.runtime import LocalRuntime

pytestmark = pytest.mark.anyio

GRACE = 0.3


@pytest.fixture
async def runtime() -> AsyncIterator[LocalRuntime]:
    async with LocalRuntime(limit_grace=GRACE) as runtime:
        yield runtime


async def begun(box: Sandbox, timeout: float) -> tuple[Process, set[int]]:
    """A command with a process that left its session, and the pids of both."""
    script = "setsid sleep 300 & echo ready; sleep 300"
    process = await box.start(Command(what=Script(script), timeout=timeout), "long")
    await anext(aiter(process.output()))
    return process, procfs.children_of(box.ref.facts["pid"])


async def until_dead(pids: set[int]) -> None:
    with anyio.fail_after(5):
        while any((stat := procfs.stat_of(pid)) is not None and not stat.is_dead for pid in pids):
            await anyio.sleep(0.01)


async def test_a_command_ends_in_its_time_while_the_agent_is_stopped_and_the_sandbox_goes_on(
    runtime: LocalRuntime,
) -> None:
    box = await runtime.create(SandboxSpec(name="one"))
    process, pids = await begun(box, timeout=0.5)
    os.kill(box.ref.facts["pid"], signal.SIGSTOP)

    with anyio.fail_after(10):
        outcome = await process.wait()
    await until_dead(pids)
    os.kill(box.ref.facts["pid"], signal.SIGCONT)
    after = await (await box.start(Command(what=Script("exit 3")), "after")).wait()

    assert (outcome, after) == (TimedOut(), Exited(3))
    assert len(pids) >= 2


async def test_an_agent_that_stays_stopped_is_killed_and_nothing_is_left_of_its_sandbox(runtime: LocalRuntime) -> None:
    box = await runtime.create(SandboxSpec(name="one"))
    other = await runtime.create(SandboxSpec(name="other"))
    process, pids = await begun(box, timeout=0.2)
    os.kill(box.ref.facts["pid"], signal.SIGSTOP)

    with anyio.fail_after(15):
        outcome = await process.wait()
        await until_dead({*pids, box.ref.facts["pid"]})
    with pytest.raises(SandboxGone, match="did not answer for long"):
        await box.touch()

    assert outcome == TimedOut()
    assert await (await other.start(Command(what=Script("exit 4")), "1")).wait() == Exited(4)

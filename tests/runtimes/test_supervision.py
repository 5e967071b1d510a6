"""Whatever a task of one box raises ends that box, in words, and neither another box nor the runtime."""

import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from limpet.core.command import Command, Exited, Lost, Outcome, Script
from limpet.core.errors import SandboxError, SandboxGone
from limpet.core.ports import Process, Runtime, Sandbox, SandboxSpec
from limpet.runtimes.bubblewrap import BubblewrapRuntime, BubblewrapSettings
from limpet.runtimes.bubblewrap.settings import BoxPaths
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.runtimes.memory import MemoryRuntime
from limpet.runtimes.supervisor import InjectFault
from tests.runtimes.bubblewrap.boxes import remains
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio

WITHIN = 20.0


class _Faults:
    """Raises in the task of that name of the box `doomed`, while it is at work."""

    def __init__(self, task: str, error: BaseException) -> None:
        self.doomed = "doomed"
        self.now = anyio.Event()
        self.has_raised = anyio.Event()
        self._task = task
        self._error = error

    async def inject(self, box: str, task: str) -> None:
        if (box, task) == (self.doomed, self._task):
            await self.now.wait()
            self.has_raised.set()
            raise self._error


class _OtherError(Exception):
    """None that anything of ours expects."""


ERRORS: dict[str, Callable[[], Exception]] = {
    "an error that nothing expects": lambda: _OtherError("made up"),
    "an error of the system": lambda: OSError(28, "made up"),
    "a group": lambda: ExceptionGroup("several", [_OtherError("made up"), ValueError("another")]),
}
TASKS = ("hears its agent", "speaks to its agent", "watches its disk")


async def _bubblewrap(home: Path, inject_fault: InjectFault) -> BubblewrapRuntime:
    settings = BubblewrapSettings(home=home, limit_grace=0.2)
    async with BubblewrapRuntime(settings) as probed:
        if not (probe := await probed.probe()).works:
            pytest.skip(f"bubblewrap does not work here: {probe.detail}")
    return BubblewrapRuntime(settings, inject_fault=inject_fault)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("task", TASKS)
async def test_a_task_that_raises_ends_its_box_only(
    task: str, error: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    faults = _Faults(task, ERRORS[error]())
    faults.doomed = BoxPaths.of(home, "doomed").short
    with anyio.fail_after(WITHIN), caplog.at_level(logging.ERROR, "limpet.runtimes"):
        async with await _bubblewrap(home, faults.inject) as runtime:
            ended = await _end_one_of_two(runtime, faults)
            left = remains(home, "doomed")

    assert isinstance(ended, Lost)
    assert f"The task that {task} failed" in ended.reason
    assert "made up" in ended.reason
    assert left == []
    assert [record.levelname for record in caplog.records if f"the task that {task} failed" in record.message] == [
        "ERROR"
    ]


@asynccontextmanager
async def _two_boxes(home: Path, task: str) -> AsyncIterator[tuple[Sandbox, _Faults]]:
    """Of two boxes the one in which that task raises as soon as it is at work. Afterwards it is gone, and the other works on."""
    faults = _Faults(task, _OtherError("made up"))
    faults.doomed = BoxPaths.of(home, "doomed").short
    faults.now.set()
    with anyio.fail_after(WITHIN):
        async with await _bubblewrap(home, faults.inject) as runtime:
            doomed = await runtime.create(SandboxSpec(name="doomed"))
            other = await runtime.create(SandboxSpec(name="other"))
            yield doomed, faults
            await _works_on(runtime, doomed, other)


async def test_a_task_that_holds_a_time_limit_and_raises_ends_its_box_only(home: Path) -> None:
    async with _two_boxes(home, "holds a time limit") as (doomed, _):
        process = await doomed.start(Command(what=Script("sleep 60"), timeout=1.0), "slow")
        os.kill(doomed.ref.facts["pid"], signal.SIGSTOP)  # so that its agent does not end it
        ended = await process.wait()

    assert isinstance(ended, Lost)
    assert "made up" in ended.reason


async def test_a_task_that_bounds_a_box_and_raises_ends_its_box_only(home: Path) -> None:
    async with _two_boxes(home, "bounds its terminals") as (doomed, faults):
        if os.geteuid() != 0:  # root bounds without a task of its own
            await faults.has_raised.wait()
            with pytest.raises(SandboxGone, match="made up"):
                while True:
                    await doomed.touch()
        else:
            await doomed.destroy()


@pytest.mark.parametrize(
    "make, task",
    [
        (LocalRuntime, "hears its agent"),
        (LocalRuntime, "speaks to its agent"),
        (MemoryRuntime, "keeps it"),
        (MemoryRuntime, "runs a command"),
    ],
)
async def test_in_local_and_in_memory_too(make: type[LocalRuntime | MemoryRuntime], task: str) -> None:
    faults = _Faults(task, _OtherError("made up"))
    with anyio.fail_after(WITHIN):
        async with make(inject_fault=faults.inject) as runtime:
            ended = await _end_one_of_two(runtime, faults)

    assert isinstance(ended, Lost)


def test_all_of_it_holds_for_an_ordinary_user_too() -> None:
    again_as_an_ordinary_user(__file__, "-k", "system or time_limit or bounds")


async def _end_one_of_two(runtime: Runtime, faults: _Faults) -> Outcome:
    """Raise while a command runs in both boxes. How that of the doomed one ended."""
    doomed = await runtime.create(SandboxSpec(name="doomed"))
    other = await runtime.create(SandboxSpec(name="other"))
    lost = await doomed.start(Command(what=Script("sleep 60")), "lost")
    goes_on = await other.start(Command(what=Script("sleep 0.5; echo done")), "goes-on")
    faults.now.set()
    outcome = await lost.wait()
    assert (await goes_on.wait(), await _printed(goes_on)) == (Exited(0), b"done\n")
    await _works_on(runtime, doomed, other)
    return outcome


async def _works_on(runtime: Runtime, doomed: Sandbox, other: Sandbox) -> None:
    """The doomed one is gone, the other one and the runtime are as before, and the name can be used again."""
    with pytest.raises(SandboxError):
        await doomed.start(Command(what=Script("true")), "after")
    assert await (await other.start(Command(what=Script("true")), "after")).wait() == Exited(0)
    await doomed.destroy()
    third = await runtime.create(SandboxSpec(name="third"))
    assert await (await third.start(Command(what=Script("true")), "first")).wait() == Exited(0)


async def _printed(process: Process) -> bytes:
    return b"".join([chunk.data async for chunk in process.output()])

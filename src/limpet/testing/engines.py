"""The conformance suite of engines: what any adapter of `core.engine.Engine` must hold, one promise per case. Needs no test framework.

The author of an adapter writes an `EngineLab`: processes that carry runs over one store, and what a run can do in them.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio

from limpet.core.engine import Engine
from limpet.core.errors import StoreError
from limpet.testing.lab import expect, same

BOUND = 10.0  # seconds of a case
MANY = 50  # runs that begin at once


class RunSteps(Protocol):
    """What a run can do while a process carries it."""

    @property
    def run_id(self) -> str: ...

    async def append(self, text: str) -> None:
        """Add an entry to the run's journal; returns when it is stored. Raises StoreError where another process carries the run now."""
        ...

    async def finish(self) -> None:
        """The run has ended: no engine takes it up again."""
        ...


CarryRun = Callable[[RunSteps], Awaitable[None]]


class EngineLab(Protocol):
    """Processes over one store, which is empty at first."""

    def process(self, carry: CarryRun) -> AbstractAsyncContextManager[Engine]:
        """A process with an engine, open; its end is an orderly one."""
        ...

    async def submit(self, engine: Engine) -> str:
        """Store a new run of that process, which has not started; its id."""
        ...

    async def written(self, run_id: str) -> list[str]:
        """The entries of its journal."""
        ...


EngineCheck = Callable[[EngineLab], Awaitable[None]]
ENGINE_CASES: dict[str, EngineCheck] = {}


def _case(check: EngineCheck) -> EngineCheck:
    ENGINE_CASES[check.__name__] = check
    return check


async def run_engine_case(name: str, lab: EngineLab, *, within: float = BOUND) -> str | None:
    """Why the promise is broken; None where it holds, in so many seconds."""
    try:
        with anyio.fail_after(within):
            await ENGINE_CASES[name](lab)
    except TimeoutError:
        return f"it had not come true after {within:g} s"
    except Exception as broken:  # noqa: BLE001 - whatever an adapter raises, or its tasks do, breaks the promise
        return f"{type(broken).__name__}: {broken}"
    return None


class _Script:
    """A run that says when it begins, and goes on when it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.stopped: list[str] = []
        self.refused: list[str] = []
        self.news = anyio.Event()
        self.may_go_on = anyio.Event()

    async def carry(self, steps: RunSteps) -> None:
        self.begun.append(steps.run_id)
        self._tell()
        try:
            await self.may_go_on.wait()
            await steps.append("done")
            await steps.finish()
        except StoreError:
            self.refused.append(steps.run_id)
        finally:
            self.stopped.append(steps.run_id)
            self._tell()

    def _tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def until(self, claim: Callable[[], bool]) -> None:
        while not claim():
            await self.news.wait()


@_case
async def a_started_run_is_carried_to_its_end(lab: EngineLab) -> None:
    script = _Script()
    script.may_go_on.set()
    async with lab.process(script.carry) as engine:
        run = await lab.submit(engine)
        await engine.start(run)
        await script.until(lambda: script.stopped == [run])
    same(await lab.written(run), ["done"], "what it wrote")


@_case
async def a_run_that_is_started_twice_is_carried_once(lab: EngineLab) -> None:
    script = _Script()
    async with lab.process(script.carry) as engine:
        run = await lab.submit(engine)
        for _ in range(2):
            await engine.start(run)
        await script.until(lambda: run in script.begun)
        await engine.start(run)
        await anyio.wait_all_tasks_blocked()
        script.may_go_on.set()
        await script.until(lambda: run in script.stopped)
        await anyio.wait_all_tasks_blocked()
    same(script.begun, [run], "what began")


@_case
async def every_run_is_carried_however_many_start_at_once(lab: EngineLab) -> None:
    script = _Script()
    async with lab.process(script.carry) as engine:
        runs = [await lab.submit(engine) for _ in range(MANY)]
        async with anyio.create_task_group() as starts:
            for run in runs:
                starts.start_soon(engine.start, run)
        await script.until(lambda: len(script.begun) >= MANY)
        same(sorted(script.begun), sorted(runs), "what began")
        script.may_go_on.set()
        await script.until(lambda: len(script.stopped) == MANY)


@_case
async def a_cancelled_run_has_stopped_when_cancel_returns(lab: EngineLab) -> None:
    script = _Script()
    async with lab.process(script.carry) as engine:
        run, other = [await lab.submit(engine) for _ in range(2)]
        await engine.start(run)
        await script.until(lambda: run in script.begun)
        await engine.start(other)
        await script.until(lambda: other in script.begun)
        await engine.cancel(run)
        same(script.stopped, [run], "what has stopped")
        same(await engine.status(other), "running", "the status of the other run")


@_case
async def a_cancel_of_a_run_that_is_not_there_is_quiet(lab: EngineLab) -> None:
    async with lab.process(_Script().carry) as engine:
        await engine.cancel("resp_of_nobody")
        expect(await engine.status("resp_of_nobody") != "running", "a run that never was should not be running")


@_case
async def its_status_is_running_exactly_while_it_is_carried(lab: EngineLab) -> None:
    script = _Script()
    async with lab.process(script.carry) as engine:
        run = await lab.submit(engine)
        await engine.start(run)
        await script.until(lambda: run in script.begun)
        same(await engine.status(run), "running", "the status while it is carried")
        script.may_go_on.set()
        await script.until(lambda: run in script.stopped)
        await anyio.wait_all_tasks_blocked()
        expect(await engine.status(run) != "running", "a run that has ended should not be running")


@_case
async def what_a_closed_engine_released_the_next_one_carries_on(lab: EngineLab) -> None:
    first, second = _Script(), _Script()
    async with lab.process(first.carry) as engine:
        run = await lab.submit(engine)
        await engine.start(run)
        await first.until(lambda: run in first.begun)
        await engine.close()
        same(first.stopped, [run], "what the closed engine let go of")
    second.may_go_on.set()
    async with lab.process(second.carry) as engine:
        same(await engine.recover(), [run], "what is recovered")
        await second.until(lambda: run in second.stopped)
    same(await lab.written(run), ["done"], "what it wrote")


@_case
async def a_run_that_has_ended_is_not_recovered(lab: EngineLab) -> None:
    script = _Script()
    script.may_go_on.set()
    async with lab.process(script.carry) as engine:
        run = await lab.submit(engine)
        await engine.start(run)
        await script.until(lambda: run in script.stopped)
    async with lab.process(script.carry) as engine:
        same(await engine.recover(), [], "what is recovered")
    same(script.begun, [run], "what began")


@_case
async def a_run_is_recovered_once(lab: EngineLab) -> None:
    left, script = _Script(), _Script()
    async with lab.process(left.carry) as engine:
        run = await lab.submit(engine)
    async with lab.process(script.carry) as engine:
        same(await engine.recover(), [run], "what is recovered")
        await script.until(lambda: run in script.begun)
        same(await engine.status(run), "running", "the status of what was recovered")
        script.may_go_on.set()
        await script.until(lambda: run in script.stopped)
        await anyio.wait_all_tasks_blocked()
    same((left.begun, script.begun), ([], [run]), "what began")
    same(await lab.written(run), ["done"], "what it wrote")


@_case
async def a_process_that_lost_its_run_appends_nothing_more(lab: EngineLab) -> None:
    """It slept, and another took its run over; then both wake."""
    asleep, awake = _Script(), _Script()
    async with lab.process(asleep.carry) as old:
        run = await lab.submit(old)
        await old.start(run)
        await asleep.until(lambda: run in asleep.begun)
        async with lab.process(awake.carry) as new:
            await new.recover()
            await awake.until(lambda: run in awake.begun)
            asleep.may_go_on.set()
            await asleep.until(lambda: run in asleep.stopped)
            same(await lab.written(run), [], "what the process that lost the run could write")
            awake.may_go_on.set()
            await awake.until(lambda: run in awake.stopped)
    same(await lab.written(run), ["done"], "what it wrote")

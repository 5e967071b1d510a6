"""Output as progress: all of it where the client keeps up, the newest where it does not, and no command waits."""

import anyio
import pytest

from limpet.mcp.progress import MOST, Progress

pytestmark = pytest.mark.anyio


async def carried(progress: Progress, *texts: str) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(progress.carry)
        for text in texts:
            progress.take(text)
            await anyio.lowlevel.checkpoint()
        progress.end()


async def test_all_that_was_taken_is_told_once_in_order_and_counted() -> None:
    told: list[tuple[float, str]] = []

    async def report(progress: float, message: str) -> None:
        told.append((progress, message))

    await carried(Progress(report), *(f"line {number}\n" for number in range(50)))

    assert "".join(message for _, message in told) == "".join(f"line {number}\n" for number in range(50))
    assert [progress for progress, _ in told] == sorted({progress for progress, _ in told})
    assert told[-1][0] == sum(len(f"line {number}\n") for number in range(50))


async def test_nothing_is_told_of_a_silent_command() -> None:
    told: list[float] = []

    async def report(progress: float, message: str) -> None:
        told.append(progress)

    await carried(Progress(report))

    assert told == []


async def test_a_client_that_does_not_read_gets_the_newest_and_the_count_of_what_is_left_out() -> None:
    reading, told = anyio.Event(), []

    async def report(progress: float, message: str) -> None:
        await reading.wait()
        told.append((progress, message))

    progress = Progress(report)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(progress.carry)
            progress.take("first")
            await anyio.wait_all_tasks_blocked()
            for _ in range(1_000):
                progress.take("x" * 1_000)  # nobody is awaited
            progress.take("last")
            progress.end()
            reading.set()

    (_, first), (count, rest) = told
    assert (first, count) == ("first", 1_000_009.0)
    assert rest == f"… [{1_000_004 - MOST} characters left out] …{'x' * (MOST - 4)}last"

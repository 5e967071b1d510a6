"""Delivers a process's output to the caller's callbacks, one chunk at a time, until it ends. Decides nothing."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import anyio

from limpet.core.command import Aborted, Chunk, Outcome, Stream
from limpet.core.errors import LimpetError, SandboxGone
from limpet.core.ports import Process
from limpet.workspace.result import KeptOutput, RunResult

OnOutput = Callable[[bytes], Awaitable[None]]
MOST_CALLBACK_ERRORS = 16
LATE = 5.0  # seconds that each callback gets once the command's timeout is over
T = TypeVar("T")


class Delivery:
    """Where the chunks of one command go: kept first, then to the callback of their stream.

    The callbacks are awaited, never two at once; until one returns no further chunk is asked for, so a slow callback slows
    the command down (backpressure). One that has not returned `late` seconds after the command's timeout is cancelled
    and counts as a callback error, and nothing more is delivered: a timeout ends a run whatever its callbacks do.
    """

    def __init__(self, callbacks: Mapping[Stream, OnOutput | None], *, keep_output: bool, late: float = LATE) -> None:
        self._callbacks = callbacks
        self._late = late
        self._kept: dict[Stream, KeptOutput] = {
            "stdout": KeptOutput(keeps=keep_output),
            "stderr": KeptOutput(keeps=keep_output),
        }
        self._errors: list[Exception] = []

    async def take(self, chunk: Chunk, *, ends_at: float = math.inf) -> None:
        """`ends_at` is when the command's timeout is over, on anyio's clock. Raises TimeoutError."""
        self._kept[chunk.stream].add(chunk.data)
        callback = self._callbacks.get(chunk.stream)
        if callback is None:
            return
        try:
            with anyio.CancelScope(deadline=max(ends_at, anyio.current_time()) + self._late) as scope:
                await callback(chunk.data)
            if scope.cancelled_caught:
                self._callbacks = {}
                raise TimeoutError(
                    f"The callback of {chunk.stream} did not return though the command's timeout is over."
                )
        except Exception as error:  # noqa: BLE001 - the caller's own code; collected for the caller, and the command goes on
            if len(self._errors) < MOST_CALLBACK_ERRORS:
                self._errors.append(error)

    def result(self, outcome: Outcome, *, duration: float, notes: Sequence[str] = ()) -> RunResult:
        return RunResult(
            outcome=outcome,
            duration=duration,
            kept=self._kept,
            callback_errors=tuple(self._errors),
            notes=tuple(notes),
        )


async def follow(
    process: Process, delivery: Delivery, abort: anyio.Event | None = None, *, timeout: float | None = None
) -> Outcome:
    """Deliver the output until the command ends; returns how it ended.

    Once `abort` is set nothing more is kept or delivered, a callback that is under way is cancelled, and the command is killed.
    `timeout` is the command's, which has just begun.
    """
    ends_at = math.inf if timeout is None else anyio.current_time() + timeout
    outcome = await unless_aborted(abort, partial(_deliver_all, process, delivery, ends_at))
    if outcome is not None:
        return outcome
    await process.abort()
    return Aborted()


async def unless_aborted(abort: anyio.Event | None, do: Callable[[], Awaitable[T]]) -> T | None:
    """What `do` returns; None if `abort` is set before it has: then it is cancelled."""
    if abort is None:
        return await do()
    result: T | None = None
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when, abort, tasks.cancel_scope)
        try:
            result = await do()
        except LimpetError as error:  # kept for outside, where no exception group is put around it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _deliver_all(process: Process, delivery: Delivery, ends_at: float) -> Outcome:
    chunks = process.output()
    try:
        async for chunk in chunks:
            await delivery.take(chunk, ends_at=ends_at)
    except SandboxGone:
        pass  # wait() says the same as an outcome: a box that died under a command is a result
    except BaseException:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
        raise
    return await process.wait()

"""The tasks of one box, in a group that all boxes of a runtime share. An error in one of them ends its own box and nothing else."""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVarTuple

import anyio
from anyio.abc import TaskGroup

log = logging.getLogger("limpet.runtimes")

Args = TypeVarTuple("Args")
# Awaited beside each task of a box, with the box's name and the task's: what it raises, that task has raised.
InjectFault = Callable[[str, str], Coroutine[Any, Any, None]]


class BoxSupervisor:
    """Starts a box's tasks and ends the box when one fails.

    `end` is awaited with the reason, in a sentence, and at most once; it must make everything that waits for the box hear of it. What
    it raises itself is logged: there is nothing left that could be ended. Cancellation of the group passes through.
    """

    def __init__(
        self,
        group: TaskGroup,
        box: str,
        *,
        end: Callable[[str], Awaitable[None]],
        inject_fault: InjectFault | None = None,
    ) -> None:
        self._group = group
        self._box = box
        self._end = end
        self._inject_fault = inject_fault
        self._has_failed = False

    def start(self, task: str, function: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
        """Run `function` beside the others; `task` names it in log lines and reasons, as in "the task that watches its disk"."""
        self._group.start_soon(self._run, task, function, args, name=f"{self._box}: {task}")

    async def _run(self, task: str, function: Callable[[*Args], Awaitable[object]], args: tuple[*Args]) -> None:
        try:
            if self._inject_fault is None:
                await function(*args)
            else:
                await self._with_faults(self._inject_fault, task, function, args)
        except Exception as error:  # noqa: BLE001 - a fault of ours in one box is no reason to end the others
            await self.fail(task, error)

    async def fail(self, task: str, error: Exception) -> None:
        """End the box because of an error in `task`. Later errors are only logged."""
        log.error("The sandbox %s is ended: the task that %s failed.", self._box, task, exc_info=error)
        if self._has_failed:
            return
        self._has_failed = True
        try:
            await self._end(f"The task that {task} failed ({_in_words(error)}), so the sandbox was ended.")
        except Exception:  # as above; what is left is swept at the next start
            log.exception("The sandbox %s could not be ended.", self._box)

    async def _with_faults(
        self,
        inject_fault: InjectFault,
        task: str,
        function: Callable[[*Args], Awaitable[object]],
        args: tuple[*Args],
    ) -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(inject_fault, self._box, task)
            await function(*args)
            both.cancel_scope.cancel()


def _in_words(error: BaseException) -> str:
    """The error, or the first of a group, in at most 200 characters."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:200]

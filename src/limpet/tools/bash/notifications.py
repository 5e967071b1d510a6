"""Notifications of background tasks: delivered to the session's callback one at a time, in order, and bounded.

A task's output never waits for a slow callback: what it cannot take any more is counted instead.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio

from limpet.tools.tool import JsonObject

Notify = Callable[[JsonObject], Awaitable[None]]
Status = Literal["progress", "completed", "failed", "cancelled", "hang_detected"]
MOST_PENDING = 256
MOST_ERRORS = 16
LAST = frozenset({"completed", "failed", "cancelled"})  # a task's last notification is never dropped


class NotificationQueue:
    """The queue to one callback; `serve` carries it. Without a callback nothing is kept."""

    def __init__(self, notify: Notify | None) -> None:
        self._notify = notify
        self._pending: deque[JsonObject] = deque()
        self._dropped = 0
        self._wake = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._serving = anyio.CancelScope(shield=True)
        self.errors: list[Exception] = []

    @property
    def is_heard(self) -> bool:
        return self._notify is not None

    def put(self, notice: JsonObject) -> bool:
        """Queue it. False where it is dropped: too many wait."""
        if self._notify is None:
            return False
        if len(self._pending) >= MOST_PENDING and notice["status"] not in LAST:
            self._dropped += 1
            return False
        self._pending.append(notice)
        self._idle = anyio.Event()
        self._wake.set()
        return True

    async def serve(self) -> None:
        """Deliver, until `stop`: also while the session is being cancelled. What the callback raises is collected in `errors` and
        changes nothing else."""
        with self._serving:
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                while self._pending:
                    notice = self._pending.popleft()
                    if self._dropped:
                        notice["dropped_notifications"], self._dropped = self._dropped, 0
                    await self._deliver(notice)
                self._idle.set()

    def stop(self) -> None:
        """Deliver nothing more."""
        self._serving.cancel()

    async def flush(self) -> None:
        """Returns when all that was queued is delivered."""
        while self._pending or not self._idle.is_set():
            await self._idle.wait()

    async def _deliver(self, notice: JsonObject) -> None:
        if self._notify is None:
            return
        try:
            await self._notify(notice)
        except Exception as error:  # noqa: BLE001 - the caller's own code; kept for the caller, and the tasks go on
            if len(self.errors) < MOST_ERRORS:
                self.errors.append(error)

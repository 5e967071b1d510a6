"""Lets other tasks run in loops over sockets that are always ready: asyncio's own calls on sockets do not suspend there, so nothing else
runs meanwhile, timers and cancellations included."""

import asyncio
from time import monotonic

SLICE = 0.0005  # seconds


class Turns:
    """For one direction of one connection: `take` before each operation. Behind one it could lose bytes when it is cancelled. `waited`
    after an operation that let others run; a new connection has its first slice at once, since it comes from a loop that takes turns."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = monotonic() + SLICE

    def waited(self) -> None:
        """Others have run: the next slice begins."""
        self._until = monotonic() + SLICE

    async def take(self) -> None:
        """Returns at once within a slice of time; else when every other task that is ready has run."""
        if monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = monotonic() + SLICE

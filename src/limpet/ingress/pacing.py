"""Bursts of connections: what each begins or ends is begun a few at a time, so that no turn of the event loop is long."""

import asyncio
from collections import deque
from collections.abc import Callable

AT_ONCE = 4  # pieces of work in one turn of the loop; each takes some tenths of a millisecond, over several turns


class LoopPacer:
    """Runs short pieces of work at once where few come, else in their order, AT_ONCE of them in each turn of the running loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._left = AT_ONCE  # in this turn
        self._is_counting = False

    def run(self, work: Callable[[], object]) -> None:
        """Run it now or soon. What it raises goes to the caller where it runs now, else to the loop's handler of exceptions."""
        if self._waiting or not self._left:
            self._waiting.append(work)
            return
        self._left -= 1
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        work()

    def _next_turn(self) -> None:
        loop = asyncio.get_running_loop()
        count = min(AT_ONCE, len(self._waiting))
        self._is_counting = count > 0
        self._left = 0 if count else AT_ONCE
        for _ in range(count):
            loop.call_soon(self._waiting.popleft())
        if count:
            loop.call_soon(self._next_turn)

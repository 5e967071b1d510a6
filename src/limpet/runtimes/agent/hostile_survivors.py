"""A box under siege: what a command left running kills or stops whatever else lives, so that no later command could work.

Noticed by what becomes of shells, proved by what becomes of a process that does nothing, and then ended: of what commands left
running, the newest command's first.
"""

from __future__ import annotations

import os
import time

from limpet.runtimes.agent import launch, tree
from limpet.runtimes.agent.bounds import BoxBounds

_FIRST_LOOK, _LONGEST_LOOK = 0.1, 1.0  # seconds that the process that does nothing is left alone
_LONGER = 4
_TURNS = 8
_SIGCONT = 18


class HostileSurvivors:
    """`strike` for each shell that was stopped, or killed by an unknown process; `relax` when one has ended as shells do."""

    def __init__(self, bounds: BoxBounds) -> None:
        self._bounds = bounds
        self._strikes = 0

    def strike(self) -> None:
        self._strikes += 1

    def relax(self) -> None:
        self._strikes = 0

    def lift(self, spared: set[int]) -> str | None:
        """Where there is a suspicion: end what commands left running until a process can live. What was ended, in words."""
        if not self._strikes:
            return None
        ended = 0
        for turn in range(_TURNS):
            if not tree.left_behind(spared) or not _is_hit(self._patience()):
                break
            # In the last turn all of them: something may be replacing what was killed.
            ended += self._bounds.end_newest_survivors(spared, every=turn == _TURNS - 1)
        if not ended:
            return None
        self.relax()
        what = "a process" if ended == 1 else f"{ended} processes"
        return f"what earlier commands had left running stopped or killed every other process: {what} of it was ended."

    def _patience(self) -> float:
        """Longer the more often it happens: some strike now and then."""
        return float(min(_LONGEST_LOOK, _FIRST_LOOK * _LONGER ** (self._strikes - 1)))


def resume(root: int) -> None:
    """Let a command go on, with all below it."""
    for pid in tree.below(root):
        tree.send(pid, _SIGCONT)


def _is_hit(seconds: float) -> bool:
    """Whether a process that does nothing is killed or stopped within that time."""
    try:
        pid = os.fork()
    except OSError:
        return False  # no room for one more; the bound of processes sees to that
    if pid == 0:
        time.sleep(_LONGEST_LOOK * 2)
        os._exit(0)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitpid(pid, os.WNOHANG | os.WUNTRACED)[0] == pid:
            launch.end_at_once(pid)
            return True
        time.sleep(0.002)
    launch.end_at_once(pid)
    return False

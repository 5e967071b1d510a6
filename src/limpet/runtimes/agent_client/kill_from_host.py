"""Kills a command's whole tree from the host. Signals a process only once it is known to be below the box's agent."""

import os
import signal
import time
from contextlib import suppress

from limpet.runtimes import procfs
from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.procfs import children_of

_ROUNDS = 200
_DEEPEST = 4096  # generations


def kill_tree(agent: AgentProcess, pid: int) -> bool:
    """Kill a child of the agent, by its pid inside the box, and all below it. False if there is none. Blocking.

    All are stopped before the first is killed: what is stopped cannot fork, and nothing is left to the agent by a parent's death.
    """
    root = next((child for child in children_of(agent.pid) if _is_child(child, agent, pid)), None)
    if root is None or not agent.lives():
        return False
    doomed: dict[int, int] = {}  # pid -> pidfd
    quiet = 0
    try:
        for _ in range(_ROUNDS):
            new = {root, *children_of(root)} - doomed.keys()
            for found in new:
                with suppress(OSError):
                    doomed[found] = _stopped(found, agent)
            quiet = 0 if new & doomed.keys() else quiet + 1
            if quiet == 2:
                break
            time.sleep(0.001)
        for descriptor in doomed.values():
            _send(descriptor, signal.SIGKILL)
    finally:
        for descriptor in doomed.values():
            os.close(descriptor)
    return True


def _is_child(pid: int, agent: AgentProcess, inner: int) -> bool:
    stat = procfs.stat_of(pid)
    return stat is not None and stat.parent == agent.pid and procfs.pid_inside(pid) == inner


def _stopped(pid: int, agent: AgentProcess) -> int:
    """A pidfd of a process of the box, which is stopped. OSError where there is none with that pid, or not any more."""
    descriptor = os.pidfd_open(pid)
    # Asked after the pidfd was opened: if it is below the agent now, the pidfd refers to that process, even if the pid is reused later.
    if not _is_below(pid, agent):
        os.close(descriptor)
        raise ProcessLookupError(pid)
    _send(descriptor, signal.SIGSTOP)
    return descriptor


def _is_below(pid: int, agent: AgentProcess) -> bool:
    for _ in range(_DEEPEST):
        stat = procfs.stat_of(pid)
        if stat is None or stat.parent <= 1:
            return False
        if stat.parent == agent.pid:
            return agent.lives()
        pid = stat.parent
    return False


def _send(descriptor: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(descriptor, number)

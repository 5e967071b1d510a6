"""Ending a box from any process, and clearing all that it leaves: processes, cgroup, socket, record, temporary directories."""

import os
import signal
from contextlib import suppress

import anyio
from anyio import to_thread

from limpet.runtimes import procfs
from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.bubblewrap.limits.groups import Groups
from limpet.runtimes.bubblewrap.settings import BoxPaths
from limpet.runtimes.open_beneath import remove_tree

_GONE_WITHIN = 10.0
_LOOK_AGAIN = 0.005


async def clear(place: BoxPaths, agent: AgentProcess | None, groups: Groups | None) -> None:
    """End the box and remove what it had. Quiet where there is nothing. TimeoutError if the kernel keeps a process for 10 s."""
    with anyio.fail_after(_GONE_WITHIN):
        if agent is not None:
            await _kill(agent)
        if groups is not None:
            await _empty(groups, place.group)
    await to_thread.run_sync(_remove, place)


def _remove(place: BoxPaths) -> None:
    place.socket.unlink(missing_ok=True)
    place.record.unlink(missing_ok=True)
    remove_tree(place.directory)


async def _kill(agent: AgentProcess) -> None:
    """Kill process 1 of the box, and with it all in it, and wait until it and bubblewrap's own process are gone."""
    try:
        inner = os.pidfd_open(agent.pid)
    except (ProcessLookupError, ValueError):
        return
    outer = None
    try:
        # Asked after the pidfd was opened: if it is still the agent now, the pidfd refers to the agent, whatever becomes of the pid.
        if not agent.lives():
            return
        outer = _watcher(agent)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(inner, signal.SIGKILL)
        await anyio.wait_readable(inner)
        if outer is not None:
            await anyio.wait_readable(outer)
    finally:
        for descriptor in (inner, outer):
            if descriptor is not None:
                os.close(descriptor)


def _watcher(agent: AgentProcess) -> int | None:
    """bubblewrap's outer process, which ends by itself after the agent; None if it was killed."""
    stat = procfs.stat_of(agent.pid)
    if stat is None or stat.parent <= 1 or procfs.name_of(stat.parent) != b"bwrap":
        return None
    try:
        return os.pidfd_open(stat.parent)
    except OSError:
        return None


async def _empty(groups: Groups, group: str) -> None:
    """Kill whatever still counts to the group (a box that was starting), then remove it."""
    while not groups.remove(group):
        groups.kill(group)
        await anyio.sleep(_LOOK_AGAIN)

"""An agent without a box of its own. Nothing of the kernel ends its commands with it, as a pid namespace does with process 1, so it
adopts their orphans while it lives, and at its end it kills all that is below it and removes the sandbox's temporary directory.

Above it stands a process that does nothing but the same, once the agent has ended: a command may kill the agent, or the kernel may when
memory runs out, and what it had below it then belongs to that process."""

from __future__ import annotations

import os
import time

from limpet.runtimes.agent import tree

_PATIENCE = 5.0  # seconds for killing; what the kernel keeps for longer is left to it
_A_LITTLE = 0.001


def stay_above(temporary: str) -> None:
    """Fork. The child returns and becomes the agent; this process waits for its end, clears what it left, and ends."""
    tree.adopt_orphans()
    agent = os.fork()
    if agent == 0:
        return
    close_all_but(set())  # the end of the connection above all, which is the agent's alone
    while True:
        try:
            if os.waitpid(-1, 0)[0] == agent:
                break
        except ChildProcessError:
            break
    clear(temporary)
    os._exit(0)


def close_all_but(kept: set[int]) -> None:
    """Close what was handed to this process, beside these and the first three."""
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2 and descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the one that listed the directory


def clear(temporary: str) -> None:
    """Leave nothing of the sandbox: no process, and not this directory, where there is one."""
    end_all()
    if temporary:
        remove(temporary)


def end_all() -> None:
    """Kill all descendants; returns when none is left."""
    until = time.monotonic() + _PATIENCE
    while _has_children() and time.monotonic() < until:
        tree.kill_all(lambda: tree.survivors(set()))
        time.sleep(_A_LITTLE)


def _has_children() -> bool:
    """Whether there are any beside the dead ones, which are waited for here."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def remove(directory: str) -> None:
    """Remove a directory and all in it, as far as permissions allow; links are removed, not followed. What cannot be removed stays,
    and with it the directories above it."""
    for place, directories, files in os.walk(directory, topdown=False):
        for name in files + directories:
            path = os.path.join(place, name)
            try:
                if name in directories and not os.path.islink(path):
                    os.rmdir(path)
                else:
                    os.unlink(path)
            except OSError:
                continue
    try:
        os.rmdir(directory)
    except OSError:
        return

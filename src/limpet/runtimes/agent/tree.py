"""A command's whole tree of processes: found by parent pids in /proc, first stopped and then killed, so that none escapes.

Each command's shell is a subreaper (`adopt_orphans`): a descendant that calls setsid or forks twice is re-parented to it, and so stays
below it, as long as the shell lives. A pid may be reused at any time, so every process is identified by pid and start time (field 22
of proc_pid_stat(5)).
"""

from __future__ import annotations

import os
import time
from _collections_abc import Callable, Iterable  # what collections.abc gives, without loading collections

from limpet.runtimes.agent.libc import prctl

SIGKILL = 9
SIGSTOP = 19
_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36
_ROUNDS = 200


def hide_self() -> None:
    """Make this process not dumpable (PR_SET_DUMPABLE(2const)): the kernel then denies others of the same user its memory, its
    descriptors and ptrace, and the files in /proc/PID no longer belong to that user."""
    if prctl(_SET_DUMPABLE, 0) != 0:
        raise OSError("this process cannot be hidden")


def show_self() -> None:
    """Undo `hide_self`, in a forked child that holds none of the agent's descriptors any more."""
    prctl(_SET_DUMPABLE, 1)


def adopt_orphans() -> None:
    """Make this process a subreaper: orphans below it become its children, not process 1's."""
    prctl(_SET_CHILD_SUBREAPER, 1)


def read(path: str) -> bytes:
    """The first 4 KiB of a file in /proc; raises OSError where the process has ended. One read, so the kernel gives one consistent
    line; and few calls, since this runs for every command."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _status(pid: int) -> tuple[int, str, str] | None:
    """Parent, state and start time of a process; None if there is none."""
    try:
        # The process chooses the name in brackets, which may hold ") S 1": so the fields begin behind the last bracket.
        fields = read(f"/proc/{pid}/stat").decode("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0], fields[19]


def _living() -> tuple[dict[int, list[int]], dict[int, str]]:
    """Children by parent, the dead ones too, and the start times of those that live."""
    children: dict[int, list[int]] = {}
    started: dict[int, str] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := _status(int(name))):
            children.setdefault(found[0], []).append(int(name))
            if found[1] not in "ZX":
                started[int(name)] = found[2]
    return children, started


def below(*roots: int) -> dict[int, str]:
    """Everything below these and themselves, with its start time; what is already dead is left out."""
    children, started = _living()
    tree = list(roots)
    for pid in tree:
        tree.extend(children.get(pid, ()))
    return {pid: started[pid] for pid in tree if pid in started}


def survivors(spared: set[int]) -> dict[int, str]:
    """What this process has below it beside the trees of `spared`, with its start time: commands left it running."""
    return below(*left_behind(spared))


def is_stopped(pid: int) -> bool:
    found = _status(pid)
    return found is not None and found[1] in "Tt"


def is_about_to_run(pid: int) -> bool:
    found = _status(pid)
    return found is not None and found[1] == "R"


def left_behind(spared: set[int]) -> dict[int, str]:
    """The children of this process beside `spared`, with their start times: the tops of what commands left running."""
    children, started = _living()
    return {pid: started[pid] for pid in children.get(os.getpid(), ()) if pid in started and pid not in spared}


def written(roots: Iterable[int]) -> dict[int, tuple[int, int, int]]:
    """For each of these, bytes that it and all below it wrote so far, children that have ended included: to disks, less what was taken
    back; and to anything at all. Last, how many of them do not let themselves be looked at."""
    children, started = _living()
    found = {}
    for root in roots:
        below = [root]
        for pid in below:
            below.extend(children.get(pid, ()))
        amounts = [_written_by(pid) for pid in below if pid in started]
        found[root] = (sum(one[0] for one in amounts), sum(one[1] for one in amounts), sum(one[2] for one in amounts))
    return found


def _written_by(pid: int) -> tuple[int, int, int]:
    found: dict[bytes, int] = {}
    try:
        for line in read(f"/proc/{pid}/io").splitlines():
            name, _, amount = line.partition(b": ")
            found[name] = int(amount)
    except PermissionError:
        return 0, 0, 1
    except OSError:
        return 0, 0, 0
    return found.get(b"write_bytes", 0) - found.get(b"cancelled_write_bytes", 0), found.get(b"wchar", 0), 0


def kill_tree(root: int) -> dict[int, str]:
    """Kill `root`, a child that was not waited for yet, and all below it. Returns pids and start times of what is dying."""
    return kill_all(lambda: below(root))


def kill_all(find: Callable[[], dict[int, str]]) -> dict[int, str]:
    """Kill what `find` finds (pids and start times), asked again until it finds nothing new. Returns all that is dying."""
    doomed = stop_all(find)
    for pid in doomed:
        send(pid, SIGKILL)
    return doomed


def stop_all(find: Callable[[], dict[int, str]]) -> dict[int, str]:
    """Stop what `find` finds, asked again until it finds nothing new. Returns all that is stopped.

    Killing at once would lose a race: a process that forks faster than /proc is read always has a child that was not listed. SIGSTOP
    cannot be caught, and a stopped process cannot fork; so once two looks in a row find nothing new, the set is closed. It is bounded
    by `_ROUNDS`, since a process of the box may send SIGCONT; then what was found is killed all the same.
    """
    stopped: dict[int, str] = {}
    quiet = 0
    for _ in range(_ROUNDS):
        found = find()
        new = [pid for pid in found if stopped.get(pid) != found[pid]]
        for pid in new:
            send(pid, SIGSTOP)
        stopped.update(found)
        # Two looks: SIGSTOP is delivered when the process next leaves the kernel, so one fork may still be on its way after the first.
        quiet = 0 if new else quiet + 1
        if quiet == 2:
            break
        time.sleep(0.0005)
    return stopped


def still_there(doomed: dict[int, str]) -> dict[int, str]:
    """Those of `doomed` that have not died yet. A zombie counts as dead: it only waits for its parent to reap it."""
    left = {}
    for pid, started in doomed.items():
        found = _status(pid)
        if found and found[2] == started and found[1] not in "ZX":
            left[pid] = started
    return left


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended; or, outside a box of its own, it is a set-user-id program, which is not ours to signal

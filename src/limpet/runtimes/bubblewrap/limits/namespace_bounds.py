"""Bounds of a box that are set from outside after its start: how many terminals it may have (devpts), and how much System V IPC
(sysvipc(7)). A new namespace starts with the kernel's defaults, which only its creator may change.

No program of the box is executed and no file of it is opened for that. The process that enters the box's namespaces stays outside its pid
namespace, so commands cannot reach it.

It is also a program of its own, on the standard library alone: `python -I -S -c SOURCE PID STARTED TERMINALS PAGES`, run as the box's
user where this process may not change the box's mounts from outside. A separate process is needed because setns(2) refuses a user
namespace to a process with threads. It writes a sentence about everything that could not be bounded, and ends with EXCEEDED where the
box had more terminals by then.
"""

import ctypes
import fcntl
import os
import sys

EXCEEDED = 3
_FSCONFIG, _FSPICK = 431, 433  # the same on every architecture (Linux 5.2)
_CLOSES_AT_EXEC, _TAKES_NO_LINK, _MOUNTS_NOTHING = 1, 2, 4
_SET_STRING, _RECONFIGURE = 1, 7
_OWNER = 0xB701  # NS_GET_USERNS (ioctl_ns(2))
_QUEUES = 1024  # of 16 KiB each
_SEMAPHORES = "250 32000 100 128"  # of a set, of all, in one call, sets; as Linux had it for twenty years

_libc = ctypes.CDLL(None, use_errno=True)


def bound_terminals(pid: int, started: str, most: int) -> None:
    """Let the box of that agent have `most` terminals. OSError where this process may not, or the kernel is older than Linux 5.2."""
    agent = _process(pid, started)
    try:
        _bound_terminals(agent, b"root/dev/pts", most)
    finally:
        os.close(agent)


def _process(pid: int, started: str) -> int:
    """A descriptor of its directory in /proc, so that no later process with that pid is taken for it."""
    directory = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with open(
        os.open("stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory), encoding="ascii", errors="replace"
    ) as file:
        if file.read().rpartition(")")[2].split()[19] == started:
            return directory
    os.close(directory)
    raise ProcessLookupError(f"process {pid} is another one")


def _bound_terminals(place: int, path: bytes, most: int) -> None:
    """All its options are said again, since what is not said falls back to the kernel's own (bubblewrap's are in bubblewrap.c)."""
    context = _called("syscall", _FSPICK, place, path, _CLOSES_AT_EXEC | _TAKES_NO_LINK | _MOUNTS_NOTHING)
    try:
        for name, value in (("mode", "620"), ("ptmxmode", "666"), ("max", str(most))):
            _called("syscall", _FSCONFIG, context, _SET_STRING, name.encode(), value.encode(), 0)
        _called("syscall", _FSCONFIG, context, _RECONFIGURE, None, None, 0)
    finally:
        os.close(context)


def _called(name: str, *arguments: int | bytes | None) -> int:
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    returned = int(getattr(_libc, name)(*words))
    if returned < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return returned


def _bound_system_v(pages: int) -> None:
    """In the namespace in which this process is."""
    for name, value in (("shmall", str(pages)), ("msgmni", str(_QUEUES)), ("sem", _SEMAPHORES)):
        with open(f"/proc/sys/kernel/{name}", "w", encoding="ascii") as file:
            file.write(value)


def _main(pid: int, started: str, most: int, pages: int) -> int:
    failed, open_ones = [], 0
    try:
        agent = _process(pid, started)
        mounts, memory = (os.open(f"ns/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=agent) for name in ("mnt", "ipc"))
        # The user namespace first: only inside it does this process have the capabilities that the others ask for (setns(2)).
        _called("setns", fcntl.ioctl(mounts, _OWNER), 0)
        try:
            _called("setns", memory, 0)
            _bound_system_v(pages)
        except OSError as error:
            failed.append(f"What a sandbox keeps in System V's memory is not bounded ({error.strerror}).")
        # The mount namespace last: afterwards /proc and /dev are the box's.
        _called("setns", mounts, 0)
        _bound_terminals(-1, b"/dev/pts", most)
        open_ones = len(os.listdir("/dev/pts")) - 1  # all but ptmx
    except OSError as error:
        failed.append(f"One sandbox can take all terminals of the host ({error.strerror}).")
    sys.stdout.write("\n".join(failed))
    return EXCEEDED if open_ones > most else 0


if __name__ == "__main__":
    sys.exit(_main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

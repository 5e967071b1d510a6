"""System V IPC objects of a box (sysvipc(7)): shared memory segments, message queues and semaphores, which outlive every process.

They count as the box's memory, and killing processes does not free it. So after the box ran out of memory, the objects that fill it
are removed.
"""

from __future__ import annotations

from _collections_abc import Iterator  # what collections.abc gives, without loading collections

from limpet.runtimes.agent.libc import call

_REMOVE = 0  # IPC_RMID
_MIB = 1 << 20
_OF_A_MESSAGE, _OF_A_SEMAPHORE, _OF_ANY = 64, 64, 256  # bytes that the kernel takes beside what is asked for, about
_SHARE = 16  # of the box's memory: queues and semaphores that take up less are left alone


def remove_what_fills(memory_mb: int) -> int:
    """Remove the segments that no process has attached; and all queues and semaphores where these take up more than a sixteenth of
    the box's memory. Returns the bytes that it was, about.

    There may be thousands, and no memory: so nothing is held of them but the one that is looked at.
    """
    freed = sum(size for number, size in _segments() if call("shmctl", number, _REMOVE, None) == 0)
    if sum(size for _, size in _queues()) + sum(size for _, size in _semaphores()) <= memory_mb * _MIB // _SHARE:
        return freed
    freed += sum(size for number, size in _queues() if call("msgctl", number, _REMOVE, None) == 0)
    return freed + sum(size for number, size in _semaphores() if call("semctl", number, 0, _REMOVE) == 0)


def _segments() -> Iterator[tuple[int, int]]:
    """Ids and bytes of the segments that no process has attached (nattch is 0)."""
    for row in _rows("shm"):
        if int(row[6]) == 0:
            yield int(row[1]), int(row[3])


def _queues() -> Iterator[tuple[int, int]]:
    for row in _rows("msg"):
        yield int(row[1]), int(row[3]) + int(row[4]) * _OF_A_MESSAGE + _OF_ANY


def _semaphores() -> Iterator[tuple[int, int]]:
    for row in _rows("sem"):
        yield int(row[1]), int(row[3]) * _OF_A_SEMAPHORE + _OF_ANY


def _rows(kind: str) -> Iterator[list[bytes]]:
    """The kernel's table (proc_sysvipc(5)): key, number, mode, then bytes (segments; queues, with messages next) or how many there
    are (semaphores). What is removed meanwhile moves no other row."""
    try:
        with open(f"/proc/sysvipc/{kind}", "rb") as file:
            file.readline()
            for line in file:
                yield line.split()
    except OSError:
        return  # a kernel without it

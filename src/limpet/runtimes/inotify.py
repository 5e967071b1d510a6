"""inotify(7): notice that something changed in a directory. Linux; raises OSError as the system calls do.

A watch is for one directory and one event (IN_ONESHOT): the kernel removes it when it fires, so a box that writes a million files costs
no more events than one that writes a single file. An event is queued before the call that caused it returns. Where the
queue is full, the kernel drops events and says so (IN_Q_OVERFLOW, `has_lost_some`): then any watched directory may have changed.
By ctypes, since a directory must be named by a descriptor here: the libraries take paths, in which a box can place links.
"""

import ctypes
import os
import struct
from dataclasses import dataclass
from functools import cache
from typing import Self

_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_Q_OVERFLOW, _ONLYDIR, _ONESHOT = 0x4000, 0x01000000, 0x80000000
_MASK = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLYDIR | _ONESHOT
)  # fmt: skip
_HEAD = struct.Struct("iIII")
_BUFFER = 1 << 16


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class InotifyEvent:
    """What happened since the last look: the watches that fired or are gone, and whether the kernel lost some."""

    watches: frozenset[int]
    has_lost_some: bool


class Inotify:
    """One instance. May be used from several threads at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls) -> Self:
        """EMFILE where this user has too many already (fs.inotify.max_user_instances)."""
        return cls(_checked(_libc().inotify_init1(_NONBLOCK_CLOEXEC), "inotify_init1"))

    def fileno(self) -> int:
        return self._descriptor

    def watch(self, directory: int) -> int:
        """Watch the directory of a descriptor until something happens in it; the number of the watch. A directory that is watched
        already keeps its number. ENOSPC where this user has too many (fs.inotify.max_user_watches)."""
        # inotify_add_watch takes only paths. This one is resolved to the open directory itself, wherever it was moved meanwhile.
        path = f"/proc/self/fd/{directory}".encode()
        return _checked(_libc().inotify_add_watch(self._descriptor, path, ctypes.c_uint32(_MASK)), "inotify_add_watch")

    def forget(self, watch: int) -> None:
        """Remove a watch; quiet if it is gone. The kernel then queues IN_IGNORED for it, so `fired` names it once more."""
        _libc().inotify_rm_watch(self._descriptor, watch)

    def fired(self) -> InotifyEvent:
        """All that happened until now: a change that was made before this call is in it."""
        # Several changes, or a change and the IN_IGNORED that follows a one-shot watch, give the same number: hence a set.
        watches: set[int] = set()
        has_lost_some = False
        while data := self._read():
            place = 0
            while place < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, place)
                place += _HEAD.size + length
                if mask & _Q_OVERFLOW:
                    has_lost_some = True
                else:
                    watches.add(watch)
        return InotifyEvent(frozenset(watches), has_lost_some)

    def close(self) -> None:
        os.close(self._descriptor)

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _BUFFER)
        except BlockingIOError:
            return b""


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result

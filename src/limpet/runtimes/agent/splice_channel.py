"""The way straight from a command's pipe to the host: whole pages change hands, none of them is copied or kept here.

It leads through a pipe of ours, where what is under way is out of reach of the box.
"""

from __future__ import annotations

import fcntl
import os
import struct

WIDE = 1 << 18  # bytes that the pipe of a command holds that prints much
CAN_LEAD = hasattr(os, "splice")  # since Python 3.10
_FEW = 1 << 16
_SET_PIPE_SIZE = 1031
_PENDING = 0x541B


class SpliceChannel:
    """`holds` bytes are under way."""

    def __init__(self) -> None:
        self.holds = 0
        self._ends: tuple[int, ...] = ()  # of the pipe, once there is one

    def take(self, pipe: int, size: int, head: bytes) -> bytes | None:
        """Take `head`, and after it so much of what lies in a pipe; only while nothing is under way. None when it has: where less
        was there, since something in the box reads its own output, or did not fit, then that, and nothing is under way. OSError
        where there are no descriptors left."""
        if not self._ends:
            self._ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            widen(self._ends[1], 2 * WIDE)  # a page for each of the command's, and one more
        self.holds = os.write(self._ends[1], head)
        try:
            moved = os.splice(pipe, self._ends[1], size, flags=os.SPLICE_F_NONBLOCK)
        except OSError:
            moved = 0
        self.holds += moved
        return None if moved == size else self.rest()[len(head) :]

    def send(self, socket: int) -> None:
        """Send all that is under way. BlockingIOError when the socket takes no more for now, OSError when it is broken."""
        while self.holds:
            sent = os.splice(self._ends[0], socket, self.holds, flags=os.SPLICE_F_NONBLOCK)
            if not sent:
                raise OSError("a page that cannot be read")
            self.holds -= sent

    def rest(self) -> bytes:
        """Take out what is under way. OSError where it cannot be read."""
        data = b""
        while self.holds:
            data += os.read(self._ends[0], self.holds)
            self.holds -= len(data)
        return data

    def close(self) -> None:
        for end in self._ends:
            os.close(end)
        self._ends = ()


def pending(pipe: int) -> int:
    """How many bytes lie in a pipe."""
    found: int = struct.unpack("i", fcntl.ioctl(pipe, _PENDING, b"\0\0\0\0"))[0]
    return found


def pending_soon(pipe: int) -> int:
    """The same, but where that is little, whoever writes gets a turn first: few large frames cost less than many small ones."""
    size = pending(pipe)
    if 0 < size < _FEW:
        os.sched_yield()
        size = pending(pipe)
    return size


def widen(pipe: int, size: int = WIDE) -> None:
    """Let it hold more at a time. Where the user has no more room for that, it stays as it is."""
    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, size)
    except OSError:
        return

"""Zero-copy output: splice(2) moves pages from a command's pipe to the host's socket, without reading them into the agent.

The pages pass through a second pipe, which only the agent holds. Splicing from the command's pipe into the socket directly would be
wrong: a frame announces its length before its bytes, and a process of the box could read from its own pipe in between and leave the
frame short.
"""

from __future__ import annotations

import fcntl
import os
import struct

WIDE = 1 << 18  # bytes; the pipe of a command that prints much is widened to this
CAN_LEAD = hasattr(os, "splice")  # Python 3.10 and newer
_FEW = 1 << 16
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ
_PENDING = 0x541B  # FIONREAD


class SpliceChannel:
    """A frame on its way from a command's pipe to the socket; `holds` is how many of its bytes are still in the pipe between."""

    def __init__(self) -> None:
        self.holds = 0
        self._ends: tuple[int, ...] = ()  # of the pipe, once there is one

    def take(self, pipe: int, size: int, head: bytes) -> bytes | None:
        """Take `head`, then `size` bytes of a command's pipe; only while `holds` is 0. None on success. Where fewer bytes were moved
        (a process of the box read its own output, or they did not fit) the bytes that were moved, without `head`; the channel is
        empty again and the caller frames them itself. Raises OSError where no descriptors are left."""
        if not self._ends:
            self._ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            # A pipe has a slot for each page of its capacity, and a spliced page takes a whole slot however little it holds: one for
            # each page of the command's pipe, and one for `head`. The kernel rounds capacities up to a power of two (fcntl(2)).
            widen(self._ends[1], 2 * WIDE)
        self.holds = os.write(self._ends[1], head)
        try:
            moved = os.splice(pipe, self._ends[1], size, flags=os.SPLICE_F_NONBLOCK)
        except OSError:
            moved = 0
        self.holds += moved
        return None if moved == size else self.rest()[len(head) :]

    def send(self, socket: int) -> None:
        """Send what `take` took. Raises BlockingIOError when the socket's buffer is full (call again when it is writable; `holds` says
        what is left) and OSError when the connection is broken."""
        while self.holds:
            sent = os.splice(self._ends[0], socket, self.holds, flags=os.SPLICE_F_NONBLOCK)
            if not sent:
                raise OSError("a page that cannot be read")
            self.holds -= sent

    def rest(self) -> bytes:
        """Read back what has not been sent. Raises OSError where it cannot be read."""
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
    """How many bytes can be read from a pipe now (FIONREAD)."""
    found: int = struct.unpack("i", fcntl.ioctl(pipe, _PENDING, b"\0\0\0\0"))[0]
    return found


def pending_soon(pipe: int) -> int:
    """`pending`, but where that is little, yield the CPU to the writer once: few large frames cost less than many small ones."""
    size = pending(pipe)
    if 0 < size < _FEW:
        os.sched_yield()
        size = pending(pipe)
    return size


def widen(pipe: int, size: int = WIDE) -> None:
    """Set a pipe's capacity (F_SETPIPE_SZ, fcntl(2)). Past /proc/sys/fs/pipe-user-pages-soft the kernel refuses; then it keeps its
    capacity."""
    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, size)
    except OSError:
        return

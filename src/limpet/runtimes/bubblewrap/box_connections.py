"""What listens in a box, and connections to it from outside, made in the box's network namespace and nowhere else.

A connection is a socket that is made in that namespace and so stays in it, wherever it is used: its loopback is the box's, never the
host's. Nothing of the box's is run or believed here: `tests/runtimes/bubblewrap/test_box_connections.py`.
"""

import os
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from limpet.runtimes.bubblewrap.namespace_sockets import Request, open_sockets

MOST_TABLE = 1 << 20  # bytes that are read of a table: about 7,000 sockets
# sl local_address rem_address st tx:rx tr:when retrnsmt uid … (proc_pid_net(5), "tcp"); 0A is LISTEN (net/tcp_states.h)
_LISTENS = re.compile(
    rb"\s*\d{1,9}: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A [0-9A-F:]+ [0-9A-F:]+ [0-9A-F]+ +(\d{1,10}) .*",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """A TCP socket that listens: its port, and the address under which the box itself reaches it."""

    port: int
    address: str


class NotTheBox(OSError):
    """The process is gone, is another one, or lies in the network of the host itself."""


def listeners(pid: int, started: str, owner: int | None) -> list[Listener]:
    """What the box's own user listens on, by port; several addresses of one port stay several. `owner` is that user on the host, None
    where all users of the namespace are meant. Blocking. Raises NotTheBox."""
    found: set[Listener] = set()
    os.close(_namespace(pid, started))
    for name in ("tcp", "tcp6"):
        found |= set(read_table(_read(f"/proc/{pid}/net/{name}"), owner))
    # Read from another process, were the pid given to one meanwhile: then nothing of it is told.
    os.close(_namespace(pid, started))
    return sorted(found)


def read_table(table: bytes, owner: int | None) -> Iterator[Listener]:
    """The listeners in /proc/PID/net/tcp or tcp6; lines that are not as documented are passed over."""
    for line in table.split(b"\n"):
        entry = _LISTENS.fullmatch(line)
        if entry is not None and owner in (None, int(entry[3])) and (port := int(entry[2], 16)) > 0:
            yield Listener(port, _reached_at(entry[1]))


def _reached_at(digits: bytes) -> str:
    """The kernel writes an address as 32-bit words of the machine's own byte order."""
    words = struct.pack(f"={len(digits) // 8}I", *(int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)))
    if len(words) == 4:
        return "127.0.0.1" if words == bytes(4) else socket.inet_ntop(socket.AF_INET, words)
    if words == bytes(16):
        return "::1"
    return socket.inet_ntop(socket.AF_INET6, words)


def unconnected(pid: int, started: str, listener: Listener) -> socket.socket:
    """A socket in the box's network, non-blocking, from which that listener is reached. Blocking itself, for the time that it takes to
    enter the network; it waits for nothing that the box does. Raises NotTheBox; OSError."""
    namespace = _namespace(pid, started)
    try:
        family = socket.AF_INET6 if ":" in listener.address else socket.AF_INET
        (opened,) = open_sockets(namespace, Request(unconnected=[family]))
    finally:
        os.close(namespace)
    opened.setblocking(False)
    return opened


def _namespace(pid: int, started: str) -> int:
    """A descriptor of the box's network namespace; never of the host's own."""
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NotTheBox(error.errno, "the box is gone") from error
    # The descriptor was opened first: if the process is the box's still, it was the box's then.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    found, own = os.fstat(namespace), os.stat("/proc/self/ns/net")
    if len(fields) < 20 or fields[19] != started.encode() or (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino):
        os.close(namespace)
        raise NotTheBox("the box is gone, or it has the host's own network")
    return namespace


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_TABLE)
    except OSError:
        return b""

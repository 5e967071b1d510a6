"""What listens in a box, and connections to it from outside, made in the box's network namespace and nowhere else.

A connection is a socket that is made in that namespace and so stays in it, wherever it is used: its loopback is the box's, never the
host's. A thread of its own enters the namespace where this process is root; an ordinary user must enter the user namespace that owns it
first, which only a process of one thread may do (setns(2)): this file is then run as a program, which hands the socket out and ends.
Standard library only, so that it can be. Nothing of the box's is run or believed here: `tests/runtimes/bubblewrap/test_box_connections.py`.
"""

import ctypes
import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NEW_NETWORK, _NEW_USER = 0x40000000, 0x10000000  # sched.h
_OWNER = 0xB701  # NS_GET_USERNS (ioctl_ns(2))
_HANDED_WITHIN = 10.0
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
        opened = _in_thread(namespace, family) if os.geteuid() == 0 else _in_program(namespace, family)
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


def _in_thread(namespace: int, family: int) -> socket.socket:
    opened: list[socket.socket] = []
    failed: list[OSError] = []

    def enter() -> None:
        try:
            _enter(namespace, _NEW_NETWORK)
            opened.append(socket.socket(family, socket.SOCK_STREAM))
        except OSError as error:
            failed.append(error)

    # Not one of a pool: this thread is in that namespace for ever, and ends here.
    thread = threading.Thread(target=enter, name="limpet enters a box's network")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return opened[0]


def _in_program(namespace: int, family: int) -> socket.socket:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(_HANDED_WITHIN)
        words = ["/usr/bin/python3", "-I", "-S", "-c", Path(__file__).read_text(encoding="utf-8")]
        words += [str(namespace), str(theirs.fileno()), str(int(family))]
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(namespace, theirs.fileno()), env={}
        ) as program:
            theirs.close()
            try:
                _, handed, _, _ = socket.recv_fds(ours, 16, 1)
            except OSError:
                program.kill()
                raise
        if not handed:
            raise OSError("entering a box's network failed")
        return socket.socket(fileno=handed[0])


def _enter(namespace: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"entering a box's namespace: {os.strerror(number)}")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_TABLE)
    except OSError:
        return b""


def _hand_out(namespace: int, channel: int, family: int) -> None:
    """The program: enter the owner of the network namespace, then it, and send a socket through the channel."""
    _enter(fcntl.ioctl(namespace, _OWNER), _NEW_USER)
    _enter(namespace, _NEW_NETWORK)
    with socket.socket(fileno=channel) as out, socket.socket(family, socket.SOCK_STREAM) as opened:
        socket.send_fds(out, [b"."], [opened.fileno()])


if __name__ == "__main__":
    _hand_out(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

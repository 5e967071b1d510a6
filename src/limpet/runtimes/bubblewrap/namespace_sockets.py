"""Enters a box's network namespace and opens sockets there, which stay in it wherever they are used.

In a thread of its own where this process is root: a thread may enter the namespace alone. An ordinary user must enter the user namespace
that owns it first, which only a process of one thread may do (setns(2)): this file is then run as a program, which hands the sockets out
and ends. Standard library only. Nothing of the box's is run, read or believed here.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import NamedTuple

_NEW_NETWORK, _NEW_USER = 0x40000000, 0x10000000  # sched.h
_OWNER_OF_NAMESPACE = 0xB701  # NS_GET_USERNS (ioctl_ns(2))
_LOOPBACK = 1  # the index of `lo` in every namespace
_BACKLOG = 256
# rtnetlink(7): an address with its acknowledgement, made where it is missing.
_NEW_ADDRESS, _ERROR, _FLAGS, _HOST_SCOPE = 20, 2, 0x1 | 0x4 | 0x400 | 0x100, 254
_ADDRESS, _LOCAL = 1, 2
_HEADER, _ADDRESS_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBI"), struct.Struct("=HH4s")

_WITHIN = 10.0
MOST_SOCKETS = 200  # at most 253 descriptors go in one message (SCM_MAX_FD)


class Request(NamedTuple):
    """What to open in the network of a box; all may be empty."""

    addresses: Sequence[str] = ()  # to give to `lo` first
    listeners: Sequence[tuple[str, int]] = ()  # TCP
    datagrams: Sequence[tuple[str, int]] = ()  # UDP, bound
    unconnected: Sequence[int] = ()  # TCP, of these address families


def open_sockets(namespace: int, request: Request) -> list[socket.socket]:
    """The sockets, in the order of the request's fields, in the network namespace of this descriptor. Blocking, for at most 10 s.
    Raises OSError."""
    return open_in_thread(namespace, request) if os.geteuid() == 0 else _open_in_program(namespace, request)


def open_in_thread(namespace: int, request: Request) -> list[socket.socket]:
    """The same for root. Raises OSError."""
    opened: list[socket.socket] = []
    failed: list[OSError] = []

    def enter() -> None:
        try:
            _enter(namespace, _NEW_NETWORK)
            opened.extend(_open(request))
        except OSError as error:
            failed.append(error)

    # Not one of a pool: this thread is in that namespace for ever, and ends here.
    thread = threading.Thread(target=enter, name="limpet enters a box's network")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    if not opened:
        raise OSError("entering a box's network failed")
    return opened


def _open_in_program(namespace: int, request: Request) -> list[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        words = [sys.executable, "-I", "-S", __file__, str(namespace), str(theirs.fileno()), json.dumps(request)]
        try:
            done = subprocess.run(
                words,
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=(namespace, theirs.fileno()),
                env={},
                timeout=_WITHIN,
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(f"entering a box's network took longer than {_WITHIN:g} s") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise OSError(said[-1] if said else "the program that enters a box's network ended")
        ours.setblocking(False)
        _, descriptors, _, _ = socket.recv_fds(ours, 1, MOST_SOCKETS + 1)
    return [socket.socket(fileno=each) for each in descriptors]


def _enter(namespace: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"entering a box's namespace: {os.strerror(number)}")


def _open(request: Request) -> list[socket.socket]:
    opened: list[socket.socket] = []

    def made(family: int, kind: int) -> socket.socket:
        opened.append(socket.socket(family, kind))
        return opened[-1]

    try:
        _add_addresses(request.addresses)
        for place in request.listeners:
            listener = made(socket.AF_INET, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(tuple(place))
            listener.listen(_BACKLOG)
        for place in request.datagrams:
            made(socket.AF_INET, socket.SOCK_DGRAM).bind(tuple(place))
        for family in request.unconnected:
            made(family, socket.SOCK_STREAM)
    except BaseException:
        for each in opened:
            each.close()
        raise
    return opened


def _add_addresses(addresses: Sequence[str]) -> None:
    """Give these to `lo`; those that it has stay."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.bind((0, 0))
        for number, address in enumerate(addresses, start=1):
            packed = socket.inet_aton(address)
            body = _ADDRESS_HEADER.pack(socket.AF_INET, 32, 0, _HOST_SCOPE, _LOOPBACK)
            body += _ATTRIBUTE.pack(8, _LOCAL, packed) + _ATTRIBUTE.pack(8, _ADDRESS, packed)
            link.send(_HEADER.pack(_HEADER.size + len(body), _NEW_ADDRESS, _FLAGS, number, 0) + body)
            answer = link.recv(4096)
            _, kind, _, _, _ = _HEADER.unpack_from(answer)
            (code,) = struct.unpack_from("=i", answer, _HEADER.size)
            if kind == _ERROR and code != 0:
                raise OSError(-code, f"giving {address} to a box: {os.strerror(-code)}")


def _hand_out(namespace: int, channel: int, request: Request) -> None:
    """The program: enter the owner of the network namespace, then it, and send the sockets through the channel."""
    _enter(fcntl.ioctl(namespace, _OWNER_OF_NAMESPACE), _NEW_USER)
    _enter(namespace, _NEW_NETWORK)
    with socket.socket(fileno=channel) as out:
        opened = _open(request)  # a socket that is named by nothing is closed
        socket.send_fds(out, [b"."], [each.fileno() for each in opened])


if __name__ == "__main__":
    _hand_out(int(sys.argv[1]), int(sys.argv[2]), Request(*json.loads(sys.argv[3])))

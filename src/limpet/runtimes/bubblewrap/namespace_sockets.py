"""Enters a box's network namespace and opens sockets there, which stay in it wherever they are used.

In a thread of its own where this process is root: a thread may enter the namespace alone. An ordinary user must enter the user namespace
that owns it first, which only a process of one thread may do (setns(2)): this file is then run as a program, which makes a process for
each request that hands the sockets out and ends. Standard library only. Nothing of the box's is run, read or believed here.
"""

import ctypes
import fcntl
import json
import os
import signal
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
_DONE, _MOST_ANSWER, _MOST_REQUEST = b".", 4096, 65_536
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
    with ours:
        with theirs:
            WARM_PROGRAM.hand(json.dumps(request).encode(), [namespace, theirs.fileno()])
        ours.settimeout(_WITHIN)
        try:
            said, descriptors, _, _ = socket.recv_fds(ours, _MOST_ANSWER, MOST_SOCKETS + 1)
        except TimeoutError as error:
            raise OSError(f"entering a box's network took longer than {_WITHIN:g} s") from error
    opened = [socket.socket(fileno=each) for each in descriptors]
    if said != _DONE:
        raise OSError(said.decode(errors="replace") or "the program that enters a box's network ended")
    return opened


class WarmProgram:
    """This file as a program that waits for requests: to start Python takes longer than all that it does then. It is started by the first
    request, once for this process, and ends with it, however that is."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its number, once it was started."""
        return None if self._process is None else self._process.pid

    def hand(self, message: bytes, descriptors: Sequence[int]) -> None:
        """Give it a request, with the namespace and where to answer. Raises OSError."""
        with self._turn:
            try:
                if self._channel is not None:
                    socket.send_fds(self._channel, [message], descriptors)
                    return
            except OSError:  # it was killed: another one takes its place
                self._end()
            socket.send_fds(self._start(), [message], descriptors)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-I", "-S", __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={},
                cwd="/",
                start_new_session=True,  # what is typed in this process's terminal is not for it
            )
        self._channel = ours
        return ours

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()


WARM_PROGRAM = WarmProgram()


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


def _serve(channel: socket.socket) -> None:
    """The program: a process for each request, until the other side is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # they are waited for by the kernel
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, _MOST_REQUEST, 2)
        if not message:
            return
        if os.fork() == 0:
            try:
                channel.close()
                _answer(message, *descriptors)
            finally:
                os._exit(0)
        for each in descriptors:
            os.close(each)


def _answer(message: bytes, namespace: int, reply: int) -> None:
    """Enter the owner of the network namespace, then it, and send the sockets, or why there are none."""
    with socket.socket(fileno=reply) as out:
        try:
            _enter(fcntl.ioctl(namespace, _OWNER_OF_NAMESPACE), _NEW_USER)
            _enter(namespace, _NEW_NETWORK)
            opened = _open(Request(*json.loads(message)))  # a socket that is named by nothing is closed
            socket.send_fds(out, [_DONE], [each.fileno() for each in opened])
        except OSError as error:
            out.send(str(error).encode()[:_MOST_ANSWER])


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _serve(given)

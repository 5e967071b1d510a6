"""A thousand connections within a second that send nothing, or a byte a second"""

import socket
import time

from tests.siege.attack import SECONDS, Target

_held: list[socket.socket] = []


def attack(target: Target) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if len(_held) < 1000:
            _held.append(target.socket())
            if len(_held) % 20 == 0:
                time.sleep(0.01)
            continue
        for one in _held[::2]:
            try:
                one.send(b"G")
            except OSError:
                _held.remove(one)
        time.sleep(0.2)

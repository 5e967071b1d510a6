"""Runs in a box: says each of the requests on standard input (JSON, base64) to the box's door, and shakes hands for each of its names.

Prints those that were answered otherwise than with a refusal, then how many there were.
"""

import base64
import json
import socket
import ssl
import sys

DOOR = "198.18.0.1"
ALERT = b"\x15\x03\x03\x00\x02\x02\x31"  # access_denied


def said(port: int, *parts: bytes) -> bytes:
    """What the door answers to the last part, until it closes."""
    with socket.create_connection((DOOR, port), 30) as connection:
        for part in parts[:-1]:
            connection.sendall(part)
            connection.recv(65_536)
        answer = b""
        try:
            connection.sendall(parts[-1])
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65_536):
                answer += piece
        except OSError:  # it was closed before all was sent
            pass
        return answer


def hello(name: str) -> bytes:
    """The first message of TLS for that name; nothing where it cannot be written."""
    sending = ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sending, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return sending.read()
    except (ValueError, UnicodeError):
        return b""
    raise RuntimeError("a handshake ended without an answer")


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def main() -> None:
    given = json.load(sys.stdin)
    count = 0
    for each in given["requests"]:
        request = base64.b64decode(each)
        answer = said(80, request)
        count += 1
        if not answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ")) or b"\r\nX-Limpet-Refused: " not in answer:
            say("ANSWERED", request[:200], answer[:200])
    tunnel = given["tunnel"].encode()
    for name in given["names"]:
        if first := hello(name):
            count += 2
            for answer in (said(443, first), said(80, tunnel, first)):
                if answer != ALERT:
                    say("SHAKEN", name, answer[:200])
    say("ATTACKS", count)


if __name__ == "__main__":
    main()

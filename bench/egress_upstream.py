"""A server for the benchmarks of doors, in a process of its own: `python -m bench.egress_upstream CERTIFICATE` prints its ports as JSON.

`stream` sends MANY bytes as soon as something came, `reply` one byte; `tls` answers HTTP: `/N` with N bytes. It ends when its standard
input does.
"""

import json
import re
import socket
import ssl
import sys
import threading
from collections.abc import Callable

MANY = 1 << 29
_ZEROS = bytes(1 << 20)


def stream(connection: socket.socket) -> None:
    connection.recv(65_536)
    for _ in range(MANY // len(_ZEROS)):
        connection.sendall(_ZEROS)


def reply(connection: socket.socket) -> None:
    connection.recv(65_536)
    connection.sendall(b"1")


def answer(connection: socket.socket) -> None:
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            if not (piece := connection.recv(65_536)):
                return
            data += piece
        head, _, data = data.partition(b"\r\n\r\n")
        wanted = re.match(rb"GET /(\d+)", head)
        left = int(wanted[1]) if wanted else 0
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % left)
        while left:
            piece = _ZEROS[:left]
            connection.sendall(piece)
            left -= len(piece)


def serve(handle: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> int:
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)

    def one(accepted: socket.socket) -> None:
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with context.wrap_socket(accepted, server_side=True) if context else accepted as connection:
                handle(connection)
        except OSError:
            pass

    def run() -> None:
        while True:
            threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


if __name__ == "__main__":
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(sys.argv[1])
    sys.stdout.write(json.dumps({"stream": serve(stream), "reply": serve(reply), "tls": serve(answer, tls)}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()

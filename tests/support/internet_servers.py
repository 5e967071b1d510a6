"""An internet of one machine, in the network namespace that it is started in: it has every address, and logs what arrives.

`python internet_servers.py DIRECTORY`: serves `DIRECTORY/root` over HTTP (80) and TLS (443), and answers names (53) as a hostile
server would; writes a line of JSON to `DIRECTORY/log` for each name, connection and request. It ends when its standard input does.
"""

import json
import socket
import ssl
import struct
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE, HOST = "93.184.216.34", "93.184.216.33"
# What names lead to, where that is not HERE alone; those of two lists take turns (rebinding).
ANSWERS = {
    "private": [["10.0.0.1"]],
    "metadata": [["169.254.169.254"]],
    "loopback": [["127.0.0.1"]],
    "mixed": [[HERE, "10.0.0.1"]],
    "host": [[HOST]],
    "rebinding": [[HERE], ["10.0.0.1"]],
    "shared": [["100.64.0.1"]],
    "any": [["0.0.0.0"]],
    "nothing": [[]],
}
SILENT = "silent"
_A, _AAAA, _CNAME = 1, 28, 5


class Log:
    """A line for each thing that arrived."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        self._lock = threading.Lock()

    def write(self, **facts: object) -> None:
        with self._lock:
            self._file.write(json.dumps(facts) + "\n")
            self._file.flush()


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log: Log

    def do_GET(self) -> None:
        self.log.write(kind="request", host=self.headers.get("Host", ""), path=self.path)
        if self.path.startswith("/redirect?"):
            self.send_response(302)
            self.send_header("Location", self.path.partition("?")[2])
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """The log is another one."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    log: Log
    tls: ssl.SSLContext | None = None

    def finish_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        self.log.write(kind="connection", to=request.getsockname()[0], port=request.getsockname()[1])
        request.settimeout(30)
        if self.tls is not None:
            request = self.tls.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)  # type: ignore[arg-type]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves is no error of the test."""


def serve(directory: Path, log: Log, port: int, tls: ssl.SSLContext | None) -> None:
    handler = type("Handler", (Handler,), {"log": log})
    server = Server(("0.0.0.0", port), partial(handler, directory=str(directory / "root")))
    server.log, server.tls = log, tls
    threading.Thread(target=server.serve_forever, daemon=True).start()


def answer_names(log: Log) -> None:
    asked: dict[str, int] = {}
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("0.0.0.0", 53))

    def run() -> None:
        while True:
            query, sender = names.recvfrom(4096)
            name, kind, question = read(query)
            log.write(kind="name", name=name)
            first = name.partition(".")[0]
            if first == SILENT:
                continue
            turns = ANSWERS.get(first, [[HERE]])
            if kind == _A:
                asked[name] = asked.get(name, -1) + 1
            addresses = turns[asked.get(name, 0) % len(turns)] if kind == _A else []
            records = b"".join(
                b"\xc0\x0c" + struct.pack(">HHIH", _A, 1, 0, 4) + socket.inet_aton(each) for each in addresses
            )
            header = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(addresses), 0, 0)
            names.sendto(header + question + records, sender)

    threading.Thread(target=run, daemon=True).start()


def read(query: bytes) -> tuple[str, int, bytes]:
    """The name, the type and the question itself."""
    at, labels = 12, []
    while size := query[at]:
        labels.append(query[at + 1 : at + 1 + size].decode("latin-1"))
        at += size + 1
    return ".".join(labels).lower(), struct.unpack_from(">H", query, at + 1)[0], query[12 : at + 5]


def main(directory: Path) -> None:
    sys.stdin.readline()  # the network is there
    log = Log(directory / "log")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(directory / "certificate.pem")
    serve(directory, log, 80, None)
    serve(directory, log, 443, tls)
    answer_names(log)
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""An https server on loopback, with a certificate of an authority made for it, that counts who connects."""

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path is answered with."""

    body: bytes = b""
    content_type: str = "application/octet-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class HttpsServer:
    """Serves `answers` by path, queries included. `trust` is a file with its authority's certificate; `dials` are connections so far."""

    port: int
    trust: Path
    answers: dict[str, Answer] = field(default_factory=dict)
    dials: int = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"https://{host}:{self.port}{path}"


@contextmanager
def https_server(directory: Path) -> Iterator[HttpsServer]:
    """One for the time of the block, at 127.0.0.1."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trust = directory / "authority.pem"
    authority.cert_pem.write_to_path(str(trust))

    class Listener(ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> tuple[Any, Any]:
            connection, address = super().get_request()
            served.dials += 1
            return context.wrap_socket(connection, server_side=True), address

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that leaves is no fault of the server's."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = served.answers.get(self.path, Answer(status=404))
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read their own asserts."""

    with Listener(("127.0.0.1", 0), Handler) as listener:
        served = HttpsServer(port=listener.server_address[1], trust=trust)
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield served
        finally:
            listener.shutdown()
            thread.join()

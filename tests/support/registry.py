"""A registry of images on loopback: what the OCI distribution specification asks of one that images are pulled from."""

import base64
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.image_files import digest

USER, PASSWORD = "somebody", "canary-of-a-password"


@dataclass
class Registry:
    """`files` are those of a layout, under the name team/tools. `mode`: as it should, or how it fails."""

    files: Mapping[str, bytes]
    mode: str = "works"
    asked: list[str] = field(default_factory=list)
    hanging: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    address: str = ""

    @property
    def name(self) -> str:
        return f"{self.address}/team/tools"


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            if registry.mode == "hangs":
                registry.hanging.set()
                registry.over.wait(30)
                return None
            if registry.mode == "answers HTML":
                return self._answer(200, "text/html", b"<html>a login page</html>")
            wanted = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if registry.mode == "needs a login" and self.headers.get("Authorization") != f"Basic {wanted}":
                return self._answer(
                    401,
                    "application/json",
                    b'{"errors": [{"code": "UNAUTHORIZED"}]}',
                    {"WWW-Authenticate": 'Basic realm="r"'},
                )
            if self.path == "/v2/":
                return self._answer(200, "application/json", b"{}")
            kind, _, reference = self.path.removeprefix("/v2/team/tools/").partition("/")
            if kind == "elsewhere" or (kind == "blobs" and registry.mode != "redirects"):
                return self._blob(reference)
            if kind == "blobs":
                return self._answer(307, "text/plain", b"", {"Location": f"/v2/team/tools/elsewhere/{reference}"})
            if kind == "manifests":
                return self._manifest(reference)
            return self._answer(404, "application/json", b'{"errors": [{"code": "NAME_UNKNOWN"}]}')

        def do_HEAD(self) -> None:
            self.do_GET()

        def _manifest(self, reference: str) -> None:
            index = registry.files["index.json"]
            content = (
                index if not reference.startswith("sha256:") or reference == digest(index) else self._part(reference)
            )
            if content is None or reference == "missing":
                return self._answer(404, "application/json", b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
            kind = "index" if b'"manifests"' in content else "manifest"
            more = {"Docker-Content-Digest": digest(content)}
            return self._answer(200, f"application/vnd.oci.image.{kind}.v1+json", content, more)

        def _blob(self, reference: str) -> None:
            content = self._part(reference)
            if content is None:
                return self._answer(404, "application/json", b"{}")
            if registry.mode == "breaks off":
                self.send_response(200)
                self.send_header("Content-Length", str(len(content) + 100))
                self.end_headers()
                self.wfile.write(content[:-1])
                self.close_connection = True
                return None
            return self._answer(200, "application/octet-stream", content)

        def _part(self, reference: str) -> bytes | None:
            return registry.files.get(f"blobs/{reference.replace(':', '/')}")

        def _answer(self, status: int, kind: str, content: bytes, more: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(more or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        registry.over.set()
        server.shutdown()
        server.server_close()
        thread.join()

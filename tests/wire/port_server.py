"""A server that tests run in a container. /page tries all that a page must not do, /raw/NAME sends bytes as they are, /ws is a WebSocket
echo that first says what it was asked, /endless never ends, /go?PLACE redirects; everything else says what it was asked."""

import base64
import hashlib
import http.server
import json
import socketserver
import struct

RAW = {
    "not-http": b"hello\r\n\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 4\r\n\r\nokok",
    "length-and-chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "folded": b"HTTP/1.1 200 OK\r\nX: a\r\n Set-Cookie: b=c\r\nContent-Length: 2\r\n\r\nok",
    "huge-head": b"HTTP/1.1 200 OK\r\n" + b"X: %s\r\n" % (b"a" * 100_000) + b"\r\nok",
    "many-heads": b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 5_000 + b"\r\nok",
    "silent": b"",
    "no-class": b"HTTP/1.1 999 x\r\nContent-Length: 2\r\n\r\nok",
    "no-name": b"HTTP/1.1 499 x\r\nContent-Length: 2\r\n\r\nok",
    "return-in-value": b"HTTP/1.1 302 x\r\nLocation: /a\rSet-Cookie: b=c\r\nContent-Length: 0\r\n\r\n",
    "switches": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nok",
    "two-answers": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok",
}
PAGE = (
    ("Set-Cookie", "a=b"),
    ("WWW-Authenticate", "Basic"),
    ("Clear-Site-Data", "*"),
    ("Access-Control-Allow-Origin", "null"),
    ("Content-Security-Policy", "default-src *"),
    ("Strict-Transport-Security", "max-age=9"),
    ("X-Content-Type-Options", "off"),
    ("Connection", "x-own"),
    ("X-Own", "1"),
    ("X-Kept", "1"),
    ("Service-Worker-Allowed", "/"),
    ("Alt-Svc", "h3=a:1"),
)
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        if self.path.startswith("/raw/"):
            self.wfile.write(RAW[self.path[5:]])
            self.close_connection = True
        elif self.path == "/endless":
            self.endless()
        elif self.path.startswith("/ws"):
            self.websocket()
        else:
            self.page(self.told(self.body()))

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = answer  # noqa: N815 - http.server's names

    def log_message(self, *words: object) -> None:
        """Nothing is logged."""

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def told(self, body: bytes) -> bytes:
        headers = [[name.lower(), value] for name, value in self.headers.items()]
        told = {"method": self.command, "path": self.path, "headers": headers, "body": body.decode("latin-1")}
        return json.dumps(told).encode()

    def page(self, content: bytes) -> None:
        leads_away = self.path.startswith("/go")
        self.send_response(302 if leads_away else 200)
        if leads_away:
            self.send_header("Location", self.path.partition("?")[2])
        for name, value in PAGE if self.path == "/page" else ():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def endless(self) -> None:
        """Until the other side is gone."""
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        try:
            while True:
                self.wfile.write(b"x" * 65536)
        except OSError:
            return

    def websocket(self) -> None:
        accept = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + GUID).encode()).digest()).decode()
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", "Set-Cookie: a=b"]
        head = "\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept}", "", ""]).encode()
        told = self.told(b"")
        self.connection.sendall(head + bytes([0x81, 126]) + struct.pack("!H", len(told)) + told)
        while len(start := self.rfile.read(2)) == 2 and start[0] & 15 != 8:
            size = start[1] & 127
            if size == 126:
                (size,) = struct.unpack("!H", self.rfile.read(2))
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(size)))
            length = bytes([size]) if size < 126 else bytes([126]) + struct.pack("!H", size)
            self.connection.sendall(start[:1] + length + data)
        self.close_connection = True


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """A thread for each connection."""

    daemon_threads = True


if __name__ == "__main__":
    Server(("127.0.0.1", 3000), Handler).serve_forever()

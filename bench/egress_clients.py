"""Clients of proxies, and the proxies that doors stand beside. Blocking; everything on loopback."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOST = "api.bench.example"
_ADDON = """
def request(flow):
    flow.request.headers["authorization"] = flow.request.headers.get("authorization", "").replace("PLACEHOLDER", "value")
"""


@contextmanager
def process(*words: str) -> Iterator[Any]:
    """A module that prints a line of JSON when it is ready, and ends with its input: that line, and under `pid` its number."""
    with subprocess.Popen([sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            yield json.loads(running.stdout.readline()) | {"pid": running.pid}
        finally:
            running.stdin.close()


@contextmanager
def squid(directory: Path) -> Iterator[int | None]:
    """Debian's squid; its port, None where it is not installed."""
    program = shutil.which("squid", path="/usr/sbin:/usr/bin")
    if program is None:
        yield None
        return
    port = _free_port()
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    config = directory / "squid.conf"
    config.write_text(
        f"http_port 127.0.0.1:{port}\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log {directory}/log\n"
        f"pid_filename none\ncoredump_dir {directory}\nshutdown_lifetime 0 seconds\nvisible_hostname bench\n"
    )
    with _serving(port, program, "-N", "-f", str(config)):
        yield port


@contextmanager
def mitmproxy(directory: Path) -> Iterator[int | None]:
    """mitmproxy of $BENCH_MITMDUMP or the PATH; its port, None where there is none."""
    program = os.environ.get("BENCH_MITMDUMP") or shutil.which("mitmdump")
    if program is None:
        yield None
        return
    port = _free_port()
    directory.mkdir()
    (directory / "addon.py").write_text(_ADDON)
    words = ["-q", "--listen-host", "127.0.0.1", "-p", str(port), "--ssl-insecure", "--set", f"confdir={directory}"]
    with _serving(port, program, *words, "-s", str(directory / "addon.py")):
        yield port


@contextmanager
def _serving(port: int, *words: str) -> Iterator[None]:
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            for _ in range(300):
                with socket.socket() as trying:
                    if trying.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield
        finally:
            running.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def hello() -> bytes:
    """The first message of TLS to HOST."""
    sending = ssl.MemoryBIO()
    context = ssl.create_default_context()
    shaking = context.wrap_bio(ssl.MemoryBIO(), sending, server_hostname=HOST)
    try:
        shaking.do_handshake()
    except ssl.SSLWantReadError:
        return sending.read()
    raise RuntimeError("A handshake ended without an answer.")


HELLO = hello()


def tunnel(proxy: int | None, port: int, host: str = HOST) -> socket.socket:
    """A connection to a port of the upstream, through a proxy where there is one."""
    connection = socket.create_connection(("127.0.0.1", proxy or port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxy is not None:
        connection.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        said = connection.recv(4096)
        if b" 200 " not in said:
            raise RuntimeError(f"The proxy said {said[:200]!r}.")
    return connection


def megabytes_a_second(proxy: int | None, port: int, host: str = HOST) -> float:
    """All that the `stream` of the upstream sends."""
    buffer, received = bytearray(1 << 20), 0
    with tunnel(proxy, port, host) as connection:
        begun = time.perf_counter()
        connection.sendall(HELLO)
        while count := connection.recv_into(buffer):
            received += count
        return received / (time.perf_counter() - begun) / 1e6


def new_connection(proxy: int | None, port: int, host: str = HOST) -> float:
    """Milliseconds from nothing to the first byte of `reply`."""
    begun = time.perf_counter()
    with tunnel(proxy, port, host) as connection:
        connection.sendall(HELLO)
        if connection.recv(1) != b"1":
            raise RuntimeError("The upstream did not answer.")
    return (time.perf_counter() - begun) * 1000


def new_tls_connection(proxy: int | None, port: int, context: ssl.SSLContext) -> float:
    """Milliseconds from nothing to a first answer of one byte over TLS."""
    begun = time.perf_counter()
    with context.wrap_socket(tunnel(proxy, port), server_hostname=HOST) as connection:
        get(connection, 1, "none", bytearray(4096))
    return (time.perf_counter() - begun) * 1000


def refusal(proxy: int) -> float:
    """Milliseconds until a host that is not allowed is refused."""
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", proxy), timeout=60) as connection:
        connection.sendall(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n")
        said = b""
        while piece := connection.recv(4096):
            said += piece
    if b"403" not in said:
        raise RuntimeError(f"The door said {said[:200]!r}.")
    return (time.perf_counter() - begun) * 1000


def trusted(pem: str | None) -> ssl.SSLContext:
    """Trust in that authority; None trusts everyone."""
    if pem is not None:
        return ssl.create_default_context(cadata=pem)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def secure(proxy: int, port: int, context: ssl.SSLContext, host: str = HOST) -> ssl.SSLSocket:
    return context.wrap_socket(tunnel(proxy, port, host), server_hostname=host)


def get(connection: ssl.SSLSocket, size: int, token: str, buffer: bytearray) -> None:
    """One answer of that size."""
    connection.sendall(f"GET /{size} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    received = connection.recv_into(buffer)
    head, separator, rest = bytes(buffer[:received]).partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200") or not separator:
        raise RuntimeError(f"The answer was {head[:300]!r}.")
    left = size - len(rest)
    while left > 0:
        left -= (count := connection.recv_into(buffer))
        if not count:
            raise RuntimeError("The answer broke off.")


def requests_a_second(
    proxy: int, port: int, context: ssl.SSLContext, token: str, *, count: int, threads: int = 8, host: str = HOST
) -> float:
    """Of small requests, on as many connections as threads."""

    def run() -> None:
        buffer = bytearray(65_536)
        with secure(proxy, port, context, host) as connection:
            for _ in range(count // threads):
                get(connection, 2, token, buffer)

    running = [threading.Thread(target=run) for _ in range(threads)]
    begun = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return count / (time.perf_counter() - begun)


if __name__ == "__main__":  # a flood: refused requests until its input ends
    ended = threading.Event()

    def flood(proxy: int) -> None:
        while not ended.is_set():
            try:
                refusal(proxy)
            except (OSError, RuntimeError):
                continue

    for _ in range(8):
        threading.Thread(target=flood, args=(int(sys.argv[1]),), daemon=True).start()
    sys.stdout.write("{}\n")
    sys.stdout.flush()
    sys.stdin.read()
    ended.set()

"""Uploads to and downloads from `/v1/files`, beside Starlette alone; a plain socket is the client, so that it costs next to nothing."""

import json
import re
import socket
import sys
from functools import partial
from urllib.parse import urlsplit

from anyio import to_thread

from bench.gateway import gateway, home, program
from bench.table import Line, Scale, by_turns, compared

MIB = 1 << 20
BOUNDARY = "limpet-bench"
PIECE = 4 * MIB


async def rows(scale: Scale) -> list[Line]:
    size = scale.of(256, least=16) * MIB
    body = _form(size)
    command = [sys.executable, "-m", "bench.starlette_files"]
    with home() as directory:
        async with gateway(scale.runtime) as url, program([*command, str(directory)]) as floor:
            ours, form, raw = await by_turns(
                partial(_upload_and_delete, f"{url}/v1/files", body),
                partial(_upload, f"{floor}/form", body),
                partial(_upload, f"{floor}/raw", body),
                n=scale.of(7),
            )
            file = await _upload(f"{url}/v1/files", body)
            given, bare = await by_turns(
                partial(_download, f"{url}/v1/files/{file}/content", size),
                partial(_download, f"{floor}/bare/content", size),
                n=scale.of(7),
            )
    name = f"{size // MIB} MiB, hashed and synced"
    return [
        compared(f"upload of {name}", ours, "Starlette's form, saved", form),
        compared(f"upload of {name}", ours, "Starlette's stream, saved as it comes", raw),
        compared(f"download of {size // MIB} MiB", given, "Starlette's FileResponse", bare),
    ]


async def _upload_and_delete(url: str, body: bytes) -> None:
    file = await _upload(url, body)
    await to_thread.run_sync(_ask, f"{url}/{file}", "DELETE")


async def _upload(url: str, body: bytes) -> str:
    answer = await to_thread.run_sync(_ask, url, "POST", body)
    return str(json.loads(answer)["id"])


async def _download(url: str, size: int) -> None:
    got = await to_thread.run_sync(_count, url)
    if got < size:
        raise RuntimeError(f"{got} of {size} bytes came.")


def _ask(url: str, method: str, body: bytes = b"") -> bytes:
    with _connected(url, method, len(body)) as connection:
        connection.sendall(body)
        answer = b""
        while piece := connection.recv(PIECE):
            answer += piece
    head, _, rest = answer.partition(b"\r\n\r\n")
    if not re.match(rb"HTTP/1.1 200 ", head):
        raise RuntimeError(f"{method} {url} was answered with {answer[:500]!r}.")
    return rest


def _count(url: str) -> int:
    buffer, got = bytearray(PIECE), 0
    with _connected(url, "GET", 0) as connection:
        while size := connection.recv_into(buffer):
            got += size
    return got


def _connected(url: str, method: str, length: int) -> socket.socket:
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60)
    kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nContent-Length: {length}\r\n" if length else ""
    head = f"{method} {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n{kind}\r\n"
    connection.sendall(head.encode())
    return connection


def _form(size: int) -> bytes:
    purpose = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    data = bytes(range(256)) * (size // 256)
    return purpose.encode() + file.encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()

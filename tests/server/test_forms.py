"""Forms that are made to cost much: what reads them gives up at a number, not at their end."""

from contextlib import aclosing

import pytest
from starlette.requests import Request
from starlette.types import Message

from limpet.core.errors import RequestInvalid
from limpet.server.forms import form_parts

pytestmark = pytest.mark.anyio
FILE = b'--x\r\nContent-Disposition: form-data; name="other"; filename="a"\r\n\r\n\r\n'
FIELD = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'


@pytest.mark.parametrize(
    "part",
    [FILE, FIELD, b"--x\r\n\r\n\r\n", b"--x\r\n", b"--x\r\n" + b"A: b\r\n" * 100_000, b"--x\r\n" + b"a" * 200_000],
    ids=["files", "fields", "parts without a head", "boundaries", "headers", "a header name"],
)
async def test_many_parts_are_refused_before_they_are_read(part: bytes) -> None:
    body = memoryview(part * (60_000_000 // len(part)))
    read = 0

    async def receive() -> Message:
        nonlocal read
        piece = bytes(body[read : read + 65536])
        read += len(piece)
        return {"type": "http.request", "body": piece, "more_body": read < len(body)}

    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    with pytest.raises(RequestInvalid):
        async with aclosing(form_parts(request, limit=1 << 31)) as parts:
            async for _ in parts:
                pass
    assert read <= 4 * 65536

"""Gives out bytes: whole or the range that was asked for, never twice what a client already has (RFC 9110, 13 and 14)."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from limpet.server.errors import error_response

# `bytes=0-99`, `bytes=100-`, `bytes=-100`. Several ranges at once are answered with the whole, as the rule allows.
_RANGE = re.compile(r"bytes=(?:([0-9]{1,19})-([0-9]{1,19})?|-([0-9]{1,19}))", re.IGNORECASE)
Open = Callable[[int, int], AsyncGenerator[bytes, None]]


@dataclass(frozen=True, slots=True)
class WholeFile:
    """All of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """So many bytes from `start` on."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class RangeNotSatisfiable:
    """No byte of it lies in the range."""


@dataclass(frozen=True, slots=True)
class NotModified:
    """The client has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TooMuch:
    """More bytes than one download gives, so many: a sparse file is as large as a command says."""

    length: int


Wanted = WholeFile | ByteRange | RangeNotSatisfiable | NotModified | TooMuch


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """What is given out. `etag` is its strong one in quotes, new whenever a byte is; None where there is none. `open` gives the bytes
    from a position on, so many. `most` is how many one answer may have, None for any number."""

    name: str
    size: int
    etag: str | None
    open: Open
    most: int | None = None


def wanted(headers: Headers, *, size: int, etag: str | None, most: int | None = None) -> Wanted:
    """Which bytes a GET is to be answered with, `most` at most. A range that cannot be read counts as none."""
    asked = _asked(headers, size=size, etag=etag)
    match asked:
        case WholeFile() if most is not None and size > most:
            return TooMuch(length=size)
        case ByteRange(length=length) if most is not None and length > most:
            return TooMuch(length=length)
    return asked


def _asked(headers: Headers, *, size: int, etag: str | None) -> Wanted:
    if etag is not None and _names(headers.get("if-none-match", ""), etag):
        return NotModified()
    found = _RANGE.fullmatch(headers.get("range", "").strip())
    condition = headers.get("if-range")
    if found is None or (condition is not None and condition.strip() != etag):
        return WholeFile()
    first, last, tail = found.groups()
    if tail is not None:
        length = min(int(tail), size)
        return ByteRange(start=size - length, length=length) if length else RangeNotSatisfiable()
    start = int(first)
    if last is not None and int(last) < start:
        return WholeFile()
    if start >= size:
        return RangeNotSatisfiable()
    end = size if last is None else min(int(last) + 1, size)
    return ByteRange(start=start, length=end - start)


def chosen(request: Request, *, size: int, etag: str | None, most: int | None) -> tuple[int, int]:
    """The position and the number of the bytes that `download` will ask for; none where its answer has no bytes."""
    match wanted(request.headers, size=size, etag=etag, most=most):
        case WholeFile() if request.method != "HEAD":
            return 0, size
        case ByteRange(start=start, length=length) if request.method != "HEAD":
            return start, length
        case _:
            return 0, 0


def download(request: Request, file: Download) -> Response:
    """The answer to a GET or HEAD. A browser must never show what it holds as a page of this origin. A HEAD tells the size of any
    file: a client that downloads it in ranges asks so first."""
    headers = {
        "accept-ranges": "bytes",
        "content-disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "x-content-type-options": "nosniff",
        **({} if file.etag is None else {"etag": file.etag}),
    }
    most = None if request.method == "HEAD" else file.most
    match wanted(request.headers, size=file.size, etag=file.etag, most=most):
        case NotModified():
            return Response(status_code=304, headers=headers)
        case RangeNotSatisfiable():
            message = f"The file has {file.size} bytes; no byte of it lies in {request.headers['range'][:64]!r}."
            headers["content-range"] = f"bytes */{file.size}"
            return error_response(416, message, param="Range", code="range_not_satisfiable", headers=headers)
        case TooMuch(length=length):
            message = (
                f"{length} of the file's {file.size} bytes were asked for; one download gives at most {most}. Ask for them in parts, "
                f"with a header such as `Range: bytes=0-{(most or 1) - 1}`."
            )
            return error_response(413, message, param="Range", code="file_too_large", headers=headers)
        case WholeFile():
            return _bytes(request, file, status=200, start=0, length=file.size, headers=headers)
        case ByteRange(start=start, length=length):
            headers["content-range"] = f"bytes {start}-{start + length - 1}/{file.size}"
            return _bytes(request, file, status=206, start=start, length=length, headers=headers)


def _bytes(
    request: Request, file: Download, *, status: int, start: int, length: int, headers: dict[str, str]
) -> Response:
    headers = {**headers, "content-type": "application/octet-stream", "content-length": str(length)}
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    return StreamingResponse(_closing(file.open(start, length)), status_code=status, headers=headers)


async def _closing(pieces: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece


def _names(condition: str, etag: str) -> bool:
    given = [each.strip().removeprefix("W/") for each in condition.split(",")]
    return etag in given or "*" in given

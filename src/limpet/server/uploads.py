"""Reads the one file of a multipart upload. Takes no more bytes than a file may have, whatever the client announces."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from limpet.core.errors import RequestInvalid, RequestTooLarge

# What the parts' heads and a few small fields may have beside the file.
AROUND = 64 * 1024
FIELDS = 8


@asynccontextmanager
async def uploaded(request: Request, *, limit: int) -> AsyncIterator[UploadFile]:
    """The part named `file`, for the time of the block. Raises RequestInvalid, and RequestTooLarge past `limit` bytes."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise RequestInvalid(
            "Send the file as multipart/form-data, in a part named `file`. Files by `file_id` are not built yet.",
            param="file",
            code="unsupported_content_type",
        )
    stream = _bounded(request, limit)
    try:
        form = await MultiPartParser(request.headers, stream, max_files=1, max_fields=FIELDS).parse()
    except MultiPartException as problem:
        raise RequestInvalid(
            f"The upload cannot be read: {problem.message} Send one file, in a part named `file`.", param="file"
        ) from problem
    except ClientDisconnect as gone:
        raise RequestInvalid("The upload broke off.", param="file") from gone
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise RequestInvalid("A part named `file` with the file's bytes is missing.", param="file")
        yield file
    finally:
        await form.close()


async def _bounded(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    announced = request.headers.get("content-length", "")
    size = int(announced) if announced.isascii() and announced.isdigit() else 0
    if size > limit + AROUND:
        raise _too_large(limit)
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit + AROUND:
            raise _too_large(limit)
        yield piece


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"The file is larger than {limit} bytes, which is the most that this gateway takes.",
        param="file",
        code="file_too_large",
    )

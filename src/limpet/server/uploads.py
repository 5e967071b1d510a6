"""Reads the one file of a multipart upload while it arrives. Takes no more bytes than a file may have, whatever length is announced."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from starlette.requests import Request

from limpet.core.errors import RequestInvalid
from limpet.server.forms import FormField, FormFile, FormPart, form_parts, too_large


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """The file's name and type as the client wrote them, and its bytes. `pieces` end only when the whole form was read and is sound,
    so once they are exhausted `fields` is complete; the fields that came before the file are there from the start."""

    filename: str
    content_type: str | None
    fields: dict[str, str]
    pieces: AsyncIterator[bytes]


@asynccontextmanager
async def uploaded(request: Request, *, limit: int) -> AsyncIterator[Upload]:
    """The form's one file, the part named `file`. RequestInvalid for a form without it or with two; its `pieces` raise that too, and
    RequestTooLarge past `limit` bytes."""
    fields: dict[str, str] = {}
    async with aclosing(form_parts(request, limit=limit)) as parts:
        async for part in parts:
            match part:
                case FormField():
                    fields[part.name] = part.value
                case FormFile(name="file"):
                    async with aclosing(_pieces(part, parts, fields, limit)) as pieces:
                        yield Upload(
                            filename=part.filename, content_type=part.content_type, fields=fields, pieces=pieces
                        )
                    return
                case FormFile():
                    raise _one_file()
    raise RequestInvalid("A part named `file` with the file's bytes is missing.", param="file")


async def _pieces(
    file: FormFile, rest: AsyncIterator[FormPart], fields: dict[str, str], limit: int
) -> AsyncGenerator[bytes, None]:
    size = 0
    async for piece in file.pieces:
        size += len(piece)
        if size > limit:
            raise too_large(limit)
        yield piece
    async for part in rest:
        match part:
            case FormField():
                fields[part.name] = part.value
            case FormFile():
                raise _one_file()


def _one_file() -> RequestInvalid:
    return RequestInvalid("The upload has several files. Send one, in a part named `file`.", param="file")

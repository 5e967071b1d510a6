"""`/v1/files`: OpenAI's Files API (its API reference, "Files")."""

from collections.abc import AsyncGenerator
from typing import Literal

from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.containers.quotas import Quotas
from limpet.core.clock import seconds
from limpet.core.errors import RequestInvalid
from limpet.core.resources import Count, DeletedResource, Moment, Resource
from limpet.server.answers import ORDERS, json_answer, list_answer
from limpet.server.bodies import one_of, whole_number
from limpet.server.callers import tenant_of
from limpet.server.downloads import Download, download
from limpet.server.uploads import uploaded
from limpet.store.uploads import NewUpload, UploadRecord, Uploads

PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
LIST_LIMIT = 10_000
LEAST_SECONDS, MOST_SECONDS = 3600, 2_592_000
NAME_CHARS = 255


class File(Resource, frozen=True, kw_only=True):
    object: Literal["file"] = "file"
    bytes: Count
    created_at: Moment
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"
    expires_at: Moment | UnsetType = UNSET


class DeletedFile(DeletedResource, frozen=True, kw_only=True):
    object: Literal["file"] = "file"


def file_routes(uploads: Uploads, quotas: Quotas, *, max_bytes: int) -> list[Route]:
    """Upload, list, read, download and delete files. `max_bytes` is the most that one may have."""

    async def create(request: Request) -> Response:
        async with uploaded(request, limit=max_bytes) as upload:
            if "purpose" in upload.fields:
                described(
                    upload.filename, upload.content_type, upload.fields
                )  # before its bytes are taken, where possible
            async with uploads.taken(tenant_of(request), quotas.bounded(tenant_of(request), upload.pieces)) as blob:
                new = described(upload.filename, upload.content_type, upload.fields)
                record = await uploads.create(tenant_of(request), blob, new)
        return json_answer(file_object(record))

    async def index(request: Request) -> Response:
        return await _listed(request, uploads)

    async def read(request: Request) -> Response:
        return json_answer(file_object(await uploads.get(tenant_of(request), request.path_params["file_id"])))

    async def content(request: Request) -> Response:
        record = await uploads.get(tenant_of(request), request.path_params["file_id"])
        return download(request, _download(uploads, record))

    async def delete(request: Request) -> Response:
        file_id = request.path_params["file_id"]
        await uploads.delete(tenant_of(request), file_id)
        return json_answer(DeletedFile(id=file_id))

    return [
        Route("/v1/files", create, methods=["POST"]),
        Route("/v1/files", index, methods=["GET"]),
        Route("/v1/files/{file_id}", read, methods=["GET"]),
        Route("/v1/files/{file_id}", delete, methods=["DELETE"]),
        Route("/v1/files/{file_id}/content", content, methods=["GET"]),
    ]


async def _listed(request: Request, uploads: Uploads) -> Response:
    page = await uploads.list(
        tenant_of(request),
        limit=whole_number(request, "limit", default=LIST_LIMIT, least=1, most=LIST_LIMIT),
        after=request.query_params.get("after"),
        order="asc" if one_of(request, "order", default="desc", allowed=ORDERS) == "asc" else "desc",
        purpose=request.query_params.get("purpose"),
    )
    return list_answer([file_object(record) for record in page.records], page.has_more)


def _download(uploads: Uploads, record: UploadRecord) -> Download:
    def opened(start: int, length: int) -> AsyncGenerator[bytes, None]:
        return uploads.read(record, start=start, length=length)

    return Download(name=record.filename, size=record.bytes, etag=f'"{record.sha256}"', open=opened)


def file_object(record: UploadRecord) -> File:
    """One file on the wire. Purpose `evals` is shown as `user_data`: OpenAI's schema of the answer does not know the word, and strict
    clients refuse what it does not know."""
    return File(
        id=record.id,
        bytes=record.bytes,
        created_at=seconds(record.created_at),
        filename=record.filename,
        purpose="user_data" if record.purpose == "evals" else record.purpose,
        expires_at=UNSET if record.expires_at is None else seconds(record.expires_at),
    )


def described(filename: str, content_type: str | None, fields: dict[str, str]) -> NewUpload:
    """What the form says of its file. Raises RequestInvalid."""
    purpose = fields.get("purpose")
    if purpose not in PURPOSES:
        given = "it is missing" if purpose is None else f"got {purpose[:40]!r}"
        raise RequestInvalid(f"purpose: must be one of {', '.join(PURPOSES)} ({given}).", param="purpose")
    return NewUpload(
        filename=shown_name(filename),
        purpose=purpose,
        content_type=content_type[:NAME_CHARS] if content_type else None,
        expires_after=_expiry(fields, purpose),
    )


def shown_name(filename: str) -> str:
    """The name that a file is listed under: the last part of the client's, control characters replaced; never empty."""
    last = filename.replace("\\", "/").rsplit("/", 1)[-1]
    clean = "".join(letter if letter.isprintable() else "_" for letter in last).strip()
    return "upload" if clean in ("", ".", "..") else clean[:NAME_CHARS]


def _expiry(fields: dict[str, str], purpose: str) -> int | None:
    anchor, given = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and given is None:
        return MOST_SECONDS if purpose == "batch" else None  # as OpenAI has it
    if anchor != "created_at":
        raise RequestInvalid(
            f"expires_after[anchor]: must be created_at (got {anchor!r:.40}).", param="expires_after[anchor]"
        )
    digits = given is not None and given.isascii() and given.isdigit() and len(given) < 19
    if given is None or not digits or not LEAST_SECONDS <= int(given) <= MOST_SECONDS:
        raise RequestInvalid(
            f"expires_after[seconds]: must be a whole number from {LEAST_SECONDS} to {MOST_SECONDS} (got {given!r:.40}).",
            param="expires_after[seconds]",
        )
    return int(given)

"""`/v1/containers` and the files in them."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from limpet.containers.manager import ContainerManager
from limpet.containers.narrowing import checked_name
from limpet.containers.shapes import (
    container_file_object,
    container_object,
    deleted_container,
    deleted_container_file,
    shown,
)
from limpet.core.clock import Clock
from limpet.core.errors import RequestInvalid
from limpet.server.bodies import json_body, one_of, whole_number
from limpet.server.callers import tenant_of
from limpet.server.lists import ORDERS, list_object
from limpet.server.uploads import uploaded
from limpet.store.files import ContainerFileRecord


def container_routes(manager: ContainerManager, clock: Clock) -> list[Route]:
    """Create, list, read and delete containers."""

    async def create(request: Request) -> Response:
        body = await json_body(request)
        if not isinstance(body, dict):
            raise RequestInvalid('The body must be a JSON object such as {"name": "my-workspace"}.')
        name = checked_name(body.get("name"))
        record = await manager.create(tenant_of(request), name=name, spec=manager.narrow(body))
        return JSONResponse(container_object(record, clock.now(), manager.held))

    async def index(request: Request) -> Response:
        page = await manager.list(
            tenant_of(request),
            limit=whole_number(request, "limit", default=20, least=1, most=100),
            after=request.query_params.get("after"),
            order="asc" if one_of(request, "order", default="desc", allowed=ORDERS) == "asc" else "desc",
            name=request.query_params.get("name"),
        )
        return list_object(
            [container_object(record, clock.now(), manager.held) for record in page.records], page.has_more
        )

    async def read(request: Request) -> Response:
        record = await manager.get(tenant_of(request), request.path_params["container_id"])
        return JSONResponse(container_object(record, clock.now(), manager.held))

    async def delete(request: Request) -> Response:
        container_id = request.path_params["container_id"]
        await manager.delete(tenant_of(request), container_id)
        return JSONResponse(deleted_container(container_id))

    return [
        Route("/v1/containers", create, methods=["POST"]),
        Route("/v1/containers", index, methods=["GET"]),
        Route("/v1/containers/{container_id}", read, methods=["GET"]),
        Route("/v1/containers/{container_id}", delete, methods=["DELETE"]),
    ]


def file_routes(manager: ContainerManager) -> list[Route]:
    """Upload, list, read, download and delete the files of a container."""
    files = manager.files

    async def create(request: Request) -> Response:
        container_id = request.path_params["container_id"]
        await manager.require_running(tenant_of(request), container_id)
        async with uploaded(request, limit=files.max_bytes) as upload:
            record = await files.put(tenant_of(request), container_id, upload.filename or "upload", upload.pieces)
        return JSONResponse(container_file_object(record))

    async def index(request: Request) -> Response:
        page = await files.list(
            tenant_of(request),
            request.path_params["container_id"],
            limit=whole_number(request, "limit", default=20, least=1, most=100),
            after=request.query_params.get("after"),
            order="asc" if one_of(request, "order", default="desc", allowed=ORDERS) == "asc" else "desc",
        )
        return list_object([container_file_object(record) for record in page.records], page.has_more)

    async def read(request: Request) -> Response:
        return JSONResponse(container_file_object(await files.get(tenant_of(request), *_ids(request))))

    async def content(request: Request) -> Response:
        record, pieces = await files.open_content(tenant_of(request), *_ids(request))
        return StreamingResponse(_closing(pieces), headers=_headers(record))

    async def delete(request: Request) -> Response:
        container_id, file_id = _ids(request)
        await files.delete(tenant_of(request), container_id, file_id)
        return JSONResponse(deleted_container_file(file_id))

    root = "/v1/containers/{container_id}/files"
    return [
        Route(root, create, methods=["POST"]),
        Route(root, index, methods=["GET"]),
        Route(root + "/{file_id}", read, methods=["GET"]),
        Route(root + "/{file_id}", delete, methods=["DELETE"]),
        Route(root + "/{file_id}/content", content, methods=["GET"]),
    ]


def _ids(request: Request) -> tuple[str, str]:
    return request.path_params["container_id"], request.path_params["file_id"]


async def _closing(pieces: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece


def _headers(record: ContainerFileRecord) -> dict[str, str]:
    """A download: a browser must never show what a command wrote as a page of this origin."""
    name = quote(shown(record.path).rsplit("/", 1)[-1], safe="")
    return {
        "content-type": "application/octet-stream",
        "content-length": str(record.bytes),
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "x-content-type-options": "nosniff",
    }

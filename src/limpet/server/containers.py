"""`/v1/containers` and the files in them."""

import posixpath
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.containers.file_service import ContainerFileService
from limpet.containers.manager import ContainerManager
from limpet.containers.requested_spec import checked_name
from limpet.containers.wire_objects import (
    DeletedContainer,
    DeletedContainerFile,
    container_file_object,
    container_object,
    shown,
)
from limpet.core.clock import Clock
from limpet.core.errors import NotFound, RequestInvalid
from limpet.server.answers import ORDERS, json_answer, list_answer
from limpet.server.bodies import is_json, json_body, one_of, whole_number
from limpet.server.callers import tenant_of
from limpet.server.downloads import Download, chosen, download
from limpet.server.uploads import uploaded
from limpet.store.files import ContainerFileRecord
from limpet.store.uploads import UploadRecord, Uploads


def container_routes(manager: ContainerManager, clock: Clock) -> list[Route]:
    """Create, list, read, change and delete containers."""

    async def create(request: Request) -> Response:
        body = await json_body(request)
        if not isinstance(body, dict):
            raise RequestInvalid('The body must be a JSON object such as {"name": "my-workspace"}.')
        name = checked_name(body.get("name"))
        record = await manager.create(tenant_of(request), name=name, spec=manager.narrow(body))
        return json_answer(container_object(record, clock.now(), manager.held))

    async def index(request: Request) -> Response:
        page = await manager.list(
            tenant_of(request),
            limit=whole_number(request, "limit", default=20, least=1, most=100),
            after=request.query_params.get("after"),
            order="asc" if one_of(request, "order", default="desc", allowed=ORDERS) == "asc" else "desc",
            name=request.query_params.get("name"),
        )
        return list_answer(
            [container_object(record, clock.now(), manager.held) for record in page.records], page.has_more
        )

    async def read(request: Request) -> Response:
        record = await manager.get(tenant_of(request), request.path_params["container_id"])
        return json_answer(container_object(record, clock.now(), manager.held))

    async def delete(request: Request) -> Response:
        container_id = request.path_params["container_id"]
        await manager.delete(tenant_of(request), container_id)
        return json_answer(DeletedContainer(id=container_id))

    return [
        Route("/v1/containers", create, methods=["POST"]),
        Route("/v1/containers", index, methods=["GET"]),
        Route("/v1/containers/{container_id}", read, methods=["GET"]),
        _change_route(manager, clock),
        _network_route(manager),
        Route("/v1/containers/{container_id}", delete, methods=["DELETE"]),
    ]


def refusing_routes() -> list[Route]:
    """What stands before the others where clients run all commands: there is nothing to create."""

    async def create(request: Request) -> Response:
        raise RequestInvalid(
            "This gateway has no containers: its clients carry out shell calls themselves "
            '(features.shell.type = "client_passthrough").',
            code="containers_unavailable",
        )

    return [Route("/v1/containers", create, methods=["POST"])]


def _change_route(manager: ContainerManager, clock: Clock) -> Route:
    """Change what a running container may reach: an extension."""

    async def change(request: Request) -> Response:
        body = await json_body(request)
        if not isinstance(body, dict) or set(body) != {"network_policy"}:
            raise RequestInvalid(
                'Of a container only its network policy can be changed: {"network_policy": {"type": "disabled"}}.',
                param="network_policy",
            )
        spec, container_id = manager.narrow(body), request.path_params["container_id"]
        record = await manager.networks.change(tenant_of(request), container_id, spec.network_policy, spec.secrets)
        return json_answer(container_object(record, clock.now(), manager.held))

    return Route("/v1/containers/{container_id}", change, methods=["POST"])


def _network_route(manager: ContainerManager) -> Route:
    """What a running container has used of its network: an extension."""

    async def read(request: Request) -> Response:
        return json_answer(await manager.networks.seen(tenant_of(request), request.path_params["container_id"]))

    return Route("/v1/containers/{container_id}/network", read, methods=["GET"])


def file_routes(manager: ContainerManager, uploads: Uploads) -> list[Route]:
    """Upload, list, read, download and delete the files of a container; files of the Files API may be put into it by their ids."""
    files = manager.files

    async def create(request: Request) -> Response:
        container_id = request.path_params["container_id"]
        await manager.require_running(tenant_of(request), container_id)
        if is_json(request):
            upload = await _uploaded_before(uploads, tenant_of(request), _named(await json_body(request)))
            # Its size was bounded when it was uploaded.
            pieces = uploads.read(upload)
            record = await files.put(tenant_of(request), container_id, upload.filename, pieces, is_bounded=False)
            return json_answer(container_file_object(record))
        async with uploaded(request, limit=files.max_bytes) as form:
            record = await files.put(tenant_of(request), container_id, form.filename or "upload", form.pieces)
        return json_answer(container_file_object(record))

    async def index(request: Request) -> Response:
        page = await files.list(
            tenant_of(request),
            request.path_params["container_id"],
            limit=whole_number(request, "limit", default=20, least=1, most=100),
            after=request.query_params.get("after"),
            order="asc" if one_of(request, "order", default="desc", allowed=ORDERS) == "asc" else "desc",
        )
        return list_answer([container_file_object(record) for record in page.records], page.has_more)

    async def read(request: Request) -> Response:
        return json_answer(container_file_object(await files.get(tenant_of(request), *_ids(request))))

    async def delete(request: Request) -> Response:
        container_id, file_id = _ids(request)
        await files.delete(tenant_of(request), container_id, file_id)
        return json_answer(DeletedContainerFile(id=file_id))

    root = "/v1/containers/{container_id}/files"
    return [
        Route(root, create, methods=["POST"]),
        Route(root, index, methods=["GET"]),
        Route(root + "/{file_id}", read, methods=["GET"]),
        Route(root + "/{file_id}", delete, methods=["DELETE"]),
        content_route(root + "/{file_id}/content", files),
    ]


def content_route(path: str, files: ContainerFileService) -> Route:
    """Download one file, whole or a range of it."""

    async def content(request: Request) -> Response:
        def choose(row: ContainerFileRecord) -> tuple[int, int]:
            return chosen(request, size=row.bytes, etag=_etag(row), most=files.max_download)

        record, pieces = await files.open_content(tenant_of(request), *_ids(request), choose=choose)
        name = posixpath.basename(shown(record.path))
        file = Download(
            name=name,
            size=record.bytes,
            etag=_etag(record),
            open=lambda start, length: pieces,
            most=files.max_download,
        )
        return download(request, file)

    return Route(path, content, methods=["GET"])


def _ids(request: Request) -> tuple[str, str]:
    return request.path_params["container_id"], request.path_params["file_id"]


def _named(body: Any) -> str:
    match body:
        case {"file_id": str(file_id)}:
            return file_id
    raise RequestInvalid(
        'Send the file in a form, as a part named `file`, or the id of an uploaded one as JSON: {"file_id": "file-…"}.',
        param="file_id",
    )


async def _uploaded_before(uploads: Uploads, tenant: str, file_id: str) -> UploadRecord:
    try:
        return await uploads.get(tenant, file_id)
    except NotFound as error:
        raise NotFound(error.message, param="file_id", code="file_not_found") from error


def _etag(record: ContainerFileRecord) -> str | None:
    return f'"{record.sha256}"' if record.sha256 else None

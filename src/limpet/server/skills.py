"""`/v1/skills`: OpenAI's skills with their versions (its API reference, "Skills")."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from limpet.containers.quotas import Quotas
from limpet.containers.skill_bundle import MOST_FILES, MOST_UNPACKED, MOST_ZIP, Part, from_parts, from_zip
from limpet.containers.staging import Staging
from limpet.containers.unpack_budget import UnpackBudget
from limpet.core.clock import seconds
from limpet.core.errors import RequestInvalid, RequestTooLarge
from limpet.core.resources import DeletedResource, Moment, Resource
from limpet.server.answers import ORDERS, json_answer, list_answer
from limpet.server.bodies import json_body, one_of, whole_number
from limpet.server.callers import tenant_of
from limpet.server.forms import FormField, FormFile, form_parts
from limpet.store.records import Order
from limpet.store.skills import NewVersion, SkillListing, Skills, VersionRecord


class Skill(Resource, frozen=True, kw_only=True):
    object: Literal["skill"] = "skill"
    name: str
    description: str
    created_at: Moment
    default_version: str
    latest_version: str


class SkillVersion(Resource, frozen=True, kw_only=True):
    object: Literal["skill.version"] = "skill.version"
    skill_id: str
    version: str
    name: str
    description: str
    created_at: Moment


class DeletedSkill(DeletedResource, frozen=True, kw_only=True):
    object: Literal["skill.deleted"] = "skill.deleted"


class DeletedSkillVersion(DeletedResource, frozen=True, kw_only=True):
    object: Literal["skill.version.deleted"] = "skill.version.deleted"
    version: str


def skill_routes(skills: Skills, quotas: Quotas, staging: Staging) -> list[Route]:
    """Skills: create, list, read, choose the default version, download and delete."""

    async def create(request: Request) -> Response:
        async with _uploaded(request, quotas, staging) as (new, _):
            return json_answer(skill_object(await skills.create(tenant_of(request), new)))

    async def index(request: Request) -> Response:
        page = await skills.list(tenant_of(request), **_page(request))
        return list_answer([skill_object(listed) for listed in page.records], page.has_more)

    async def read(request: Request) -> Response:
        return json_answer(skill_object(await skills.get(tenant_of(request), _id(request))))

    async def choose(request: Request) -> Response:
        body = await json_body(request)
        version = body.get("default_version") if isinstance(body, dict) else None
        if not isinstance(version, str):
            raise RequestInvalid('Send {"default_version": "2"}: a version as text.', param="default_version")
        return json_answer(skill_object(await skills.set_default(tenant_of(request), _id(request), version)))

    async def content(request: Request) -> Response:
        return await _content(skills, await skills.version(tenant_of(request), _id(request), None))

    async def delete(request: Request) -> Response:
        id = await skills.delete(tenant_of(request), _id(request))
        return json_answer(DeletedSkill(id=id))

    return [
        Route("/v1/skills", create, methods=["POST"]),
        Route("/v1/skills", index, methods=["GET"]),
        Route("/v1/skills/{skill_id}", read, methods=["GET"]),
        Route("/v1/skills/{skill_id}", choose, methods=["POST"]),
        Route("/v1/skills/{skill_id}", delete, methods=["DELETE"]),
        Route("/v1/skills/{skill_id}/content", content, methods=["GET"]),
    ]


def version_routes(skills: Skills, quotas: Quotas, staging: Staging) -> list[Route]:
    """Versions of a skill: add, list, read, download and delete."""

    async def create(request: Request) -> Response:
        await skills.get(tenant_of(request), _id(request))
        async with _uploaded(request, quotas, staging) as (new, fields):
            becomes_default = fields.get("default", "false").lower() == "true"
            record = await skills.add(tenant_of(request), _id(request), new, becomes_default=becomes_default)
        return json_answer(version_object(record))

    async def index(request: Request) -> Response:
        page = await skills.versions(tenant_of(request), _id(request), **_page(request))
        return list_answer([version_object(record) for record in page.records], page.has_more)

    async def read(request: Request) -> Response:
        return json_answer(version_object(await skills.version(tenant_of(request), *_ids(request))))

    async def content(request: Request) -> Response:
        return await _content(skills, await skills.version(tenant_of(request), *_ids(request)))

    async def delete(request: Request) -> Response:
        record = await skills.delete_version(tenant_of(request), *_ids(request))
        return json_answer(DeletedSkillVersion(id=record.id, version=str(record.version)))

    root = "/v1/skills/{skill_id}/versions"
    return [
        Route(root, create, methods=["POST"]),
        Route(root, index, methods=["GET"]),
        Route(root + "/{version}", read, methods=["GET"]),
        Route(root + "/{version}", delete, methods=["DELETE"]),
        Route(root + "/{version}/content", content, methods=["GET"]),
    ]


def skill_object(listed: SkillListing) -> Skill:
    skill = listed.skill
    return Skill(
        id=skill.id,
        name=skill.name,
        description=skill.description,
        created_at=seconds(skill.created_at),
        default_version=str(skill.default_version),
        latest_version=str(listed.latest),
    )


def version_object(record: VersionRecord) -> SkillVersion:
    return SkillVersion(
        id=record.id,
        skill_id=record.skill_id,
        version=str(record.version),
        name=record.name,
        description=record.description,
        created_at=seconds(record.created_at),
    )


@asynccontextmanager
async def _uploaded(
    request: Request, quotas: Quotas, staging: Staging
) -> AsyncIterator[tuple[NewVersion, dict[str, str]]]:
    """The skill of a form, checked, and its fields: one zip as `files`, or parts `files[]` whose names are paths. On disk, until the
    block ends."""
    async with staging.directory() as directory:
        parts, fields = await _received(request, quotas, directory)
        new = await staging.run(lambda: _checked(parts, directory))
        yield new, fields


async def _received(request: Request, quotas: Quotas, directory: Path) -> tuple[list[tuple[str, Part]], dict[str, str]]:
    """The parts with the names of their fields, and the other fields."""
    parts: list[tuple[str, Part]] = []
    fields: dict[str, str] = {}
    too_many = RequestTooLarge(f"The upload has more than {MOST_FILES} files.", param="files", code="skill_too_large")
    async with aclosing(form_parts(request, limit=MOST_UNPACKED, max_files=MOST_FILES, too_many=too_many)) as form:
        async for part in form:
            match part:
                case FormField():
                    fields[part.name] = part.value
                case FormFile(name="files" | "files[]"):
                    if len(parts) == MOST_FILES:
                        raise too_many
                    file = directory / f"part-{len(parts)}"
                    await _write(file, quotas.bounded(tenant_of(request), part.pieces))
                    parts.append((part.name, Part(path=part.filename, file=file)))
                case FormFile():
                    raise RequestInvalid(f"A part named {part.name[:40]!r} is not known; use `files`.", param="files")
    if not parts:
        raise RequestInvalid("Send the skill as a zip in `files`, or its files as `files[]`.", param="files")
    return parts, fields


async def _write(path: Path, pieces: AsyncIterator[bytes]) -> None:
    """Raises RequestTooLarge for more than a zip may have; other files are held to less once all are known."""
    size = 0
    async with await anyio.open_file(path, "xb") as file:
        async for piece in pieces:
            size += len(piece)
            if size > MOST_ZIP:
                raise RequestTooLarge(
                    f"A file of a skill has more than {MOST_ZIP} bytes.", param="files", code="skill_too_large"
                )
            await file.write(piece)


def _checked(parts: Sequence[tuple[str, Part]], directory: Path) -> NewVersion:
    """Blocking. Leaves the skill's zip in the directory."""
    budget = UnpackBudget()
    unpacked = directory / "unpacked"
    unpacked.mkdir(mode=0o700)
    if _is_zip(parts):
        with parts[0][1].file.open("rb") as file:
            bundle = from_zip(file, unpacked, budget=budget)
    else:
        bundle = from_parts([part for _, part in parts], unpacked, budget=budget)
    zipped = directory / "packed"
    with zipped.open("xb") as file:
        bundle.pack(file)
    return NewVersion(name=bundle.name, description=bundle.description, zipped=zipped)


def _is_zip(parts: Sequence[tuple[str, Part]]) -> bool:
    if [name for name, _ in parts] == ["files"]:
        return True
    if len(parts) != 1:
        return False
    with parts[0][1].file.open("rb") as file:
        return file.read(2) == b"PK"


async def _content(skills: Skills, record: VersionRecord) -> Response:
    headers = {
        "content-disposition": f'attachment; filename="{record.name}.zip"',
        "content-length": str(record.bytes),
        "x-content-type-options": "nosniff",
        "etag": f'"{record.sha256}"',
    }
    return StreamingResponse(_closing(skills.read(record)), media_type="application/zip", headers=headers)


async def _closing(pieces: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece


def _page(request: Request) -> Any:
    order: Order = "asc" if one_of(request, "order", default="desc", allowed=ORDERS) == "asc" else "desc"
    limit = whole_number(request, "limit", default=20, least=1, most=100)
    return {"limit": limit, "after": request.query_params.get("after"), "order": order}


def _id(request: Request) -> str:
    return str(request.path_params["skill_id"])


def _ids(request: Request) -> tuple[str, str]:
    return _id(request), str(request.path_params["version"])

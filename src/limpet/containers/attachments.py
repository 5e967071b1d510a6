"""Skills and uploaded files that a request names for a container: found before the container is created, then copied in."""

import base64
import errno
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from anyio import to_thread

from limpet.containers.changes import safe_name
from limpet.containers.skill_bundle import SkillBundle, checked_description, checked_name, from_markdown, from_zip
from limpet.containers.staging import Staging
from limpet.containers.unpack_budget import UnpackBudget, UnpackLimits
from limpet.core.errors import NotFound, RequestInvalid, RequestTooLarge
from limpet.store.skills import Skills, VersionRecord
from limpet.store.uploads import Uploads

SKILLS = "/skills"
MARKDOWN, ZIP = "text/markdown", "application/zip"


@dataclass(frozen=True, slots=True)
class SkillReference:
    """A stored skill: an id, a bare UUID or a name; `version` a number or "latest", None for the default one."""

    skill_id: str
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineSkill:
    """A skill that comes with the request. `encoded` is base64, of which nothing was looked at yet but its length."""

    name: str
    description: str
    media_type: str
    encoded: str


RequestedSkill = SkillReference | InlineSkill


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill that can be mounted, under the name and with the description that the model is given."""

    name: str
    description: str
    bundle: SkillBundle

    def stored(self) -> dict[str, Any]:
        """As the container's row remembers it; `bytes` is its size on the disk of the container."""
        return {"name": self.name, "description": self.description, "bytes": self.bundle.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingFile:
    """A file on its way into a container. `id` is the upload's, None for one that is none."""

    name: str
    open: Callable[[], AsyncIterator[bytes]]
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachments:
    """All that a request names, found."""

    skills: tuple[Skill, ...] = ()
    files: tuple[IncomingFile, ...] = ()


class AttachmentStore:
    """Finds what requests name among a tenant's skills and uploads, and unpacks its skills in `staging`."""

    def __init__(
        self, skills: Skills, uploads: Uploads, *, staging: Staging, limits: UnpackLimits | None = None
    ) -> None:
        self._skills = skills
        self._uploads = uploads
        self._staging = staging
        self._limits = limits or UnpackLimits()

    async def clear(self) -> None:
        """Remove what an earlier process of this home had unpacked when it died."""
        await self._staging.clear()

    @asynccontextmanager
    async def found(
        self, tenant: str, *, skills: Sequence[RequestedSkill], file_ids: Sequence[str], place: str = ""
    ) -> AsyncIterator[Attachments]:
        """All of it, or RequestInvalid for the first thing that is not there or not sound; `place` goes before its `param`.
        RequestTooLarge where its skills together are more than one request may bring. What the block does not move away goes."""
        files = [
            await self._file(tenant, id, f"{place}file_ids[{index}]")
            for index, id in enumerate(dict.fromkeys(file_ids))
        ]
        if not skills:
            yield Attachments(files=tuple(files))
            return
        budget = UnpackBudget(self._limits)
        async with self._staging.directory() as directory:
            found: dict[str, Skill] = {}
            for index, asked in enumerate(skills):
                below = directory / str(index)
                skill = await self._skill(tenant, asked, below, budget, f"{place}skills[{index}]")
                if skill.name in found:
                    raise RequestInvalid(
                        f"Two skills are named {skill.name!r}. Leave one out.",
                        param=f"{place}skills[{index}]",
                        code="invalid_skill",
                    )
                found[skill.name] = skill
            yield Attachments(skills=tuple(found.values()), files=tuple(files))

    async def _skill(
        self, tenant: str, asked: RequestedSkill, directory: Path, budget: UnpackBudget, param: str
    ) -> Skill:
        match asked:
            case SkillReference(skill_id, version):
                record = await self._version(tenant, skill_id, version, param)
                with tempfile.TemporaryFile(dir=directory.parent) as packed:
                    await self._copy(record, packed, budget, param)
                    bundle = await self._staging.run(
                        lambda: from_zip(packed, _made(directory), budget=budget, param=param)
                    )
                return Skill(name=record.name, description=record.description, bundle=bundle)
            case InlineSkill():
                bundle = await self._staging.run(lambda: _inline(asked, _made(directory), budget, param))
                return Skill(name=asked.name, description=asked.description, bundle=bundle)

    async def _version(self, tenant: str, skill_id: str, version: str | None, param: str) -> VersionRecord:
        try:
            return await self._skills.version(tenant, skill_id, version)
        except NotFound as error:
            is_version = error.code == "skill_version_not_found"
            field, code = ("version", "unsupported_skill_version") if is_version else ("skill_id", error.code)
            raise RequestInvalid(error.message, param=f"{param}.{field}", code=code) from error

    async def _copy(self, record: VersionRecord, into: IO[bytes], budget: UnpackBudget, param: str) -> None:
        async with aclosing(self._skills.read(record)) as pieces:
            async for piece in pieces:
                await to_thread.run_sync(into.write, piece)
                budget.check_time(param)

    async def _file(self, tenant: str, id: str, param: str) -> IncomingFile:
        try:
            record = await self._uploads.get(tenant, id)
        except NotFound as error:
            raise RequestInvalid(error.message, param=param, code="file_not_found") from error
        return IncomingFile(name=record.filename, open=lambda: self._uploads.read(record), id=record.id)


def final_names(wanted: Sequence[str], taken: Collection[str]) -> list[str]:
    """Names for files that come together, made safe, none of them in `taken` or twice: the second of a name gets -2 before its
    extension, and so on. Names that differ in capitals alone count as the same."""
    used = {name.casefold() for name in taken}
    final = []
    for name in map(safe_name, wanted):
        stem, dot, extension = name.rpartition(".")
        if not stem:
            stem, dot, extension = name, "", ""
        number = 1
        while name.casefold() in used:
            number += 1
            name = f"{stem}-{number}{dot}{extension}"
        used.add(name.casefold())
        final.append(name)
    return final


def check_room(record_skills: Sequence[dict[str, Any]], skills: Sequence[Skill], limits: UnpackLimits) -> None:
    """Whether a container that has those can take these too; one of the same name is replaced. Raises RequestTooLarge."""
    sizes = {skill["name"]: int(skill.get("bytes", 0)) for skill in record_skills}
    sizes |= {skill.name: skill.bundle.size for skill in skills}
    if sum(sizes.values()) > limits.max_bytes:
        raise RequestTooLarge(
            f"The skills of this container would take {sum(sizes.values())} bytes; {limits.max_bytes} are allowed. Begin a new container.",
            param="skills",
            code="skill_too_large",
        )


def write_skills(directory: Path, skills: Sequence[Skill]) -> None:
    """Move skills from where they were unpacked below a directory that a box sees at /skills, read-only; whole ones, also while
    the box lives: until then they lie beside it, where no box looks. Blocking."""
    if not directory.is_dir():
        directory.mkdir(parents=True)
        directory.chmod(0o755)
    for skill in skills:
        fresh = directory.parent / f".skill-{secrets.token_hex(8)}"
        try:
            _move(skill.bundle.directory, fresh)
            fresh.chmod(0o755)
            target = directory / skill.name
            if target.exists():
                target.rename(old := directory.parent / f".skill-{secrets.token_hex(8)}")
                fresh.rename(target)
                shutil.rmtree(old)
            else:
                fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(source, target)  # another file system; the source goes with its staging directory


def _inline(asked: InlineSkill, directory: Path, budget: UnpackBudget, param: str) -> SkillBundle:
    where = f"{param}.source.data"
    try:
        data = base64.b64decode(asked.encoded, validate=True)
    except ValueError as error:
        raise RequestInvalid("`data` is not base64.", param=where) from error
    if asked.media_type == MARKDOWN:
        return from_markdown(
            data, directory, name=asked.name, description=asked.description, budget=budget, param=where
        )
    with tempfile.TemporaryFile(dir=directory.parent) as packed:
        packed.write(data)
        del data
        checked_name(asked.name, f"{param}.name")
        checked_description(asked.description, f"{param}.description")
        return from_zip(packed, directory, budget=budget, param=where)


def _made(directory: Path) -> Path:
    directory.mkdir(mode=0o755)
    return directory

"""What a container is given: skills and uploaded files that a request names, found before anything is created, then brought in."""

import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio import to_thread

from limpet.containers.bundle import Bundle, checked_name, from_markdown, from_zip
from limpet.containers.changes import safe_name
from limpet.core.errors import NotFound, RequestInvalid
from limpet.store.skills import Skills
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
    """A skill that comes with the request."""

    name: str
    description: str
    media_type: str
    data: bytes


AskedSkill = SkillReference | InlineSkill


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill that can be mounted, under the name and with the description that the model is told."""

    name: str
    description: str
    bundle: Bundle

    def stored(self) -> dict[str, Any]:
        """As the container's row remembers it."""
        return {"name": self.name, "description": self.description}


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A file on its way into a container. `id` is the upload's, None for one that is none."""

    name: str
    open: Callable[[], AsyncIterator[bytes]]
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplied:
    """All that a request names, found."""

    skills: tuple[Skill, ...] = ()
    files: tuple[Incoming, ...] = ()


class Supplies:
    """Finds what requests name among a tenant's skills and uploads."""

    def __init__(self, skills: Skills, uploads: Uploads) -> None:
        self._skills = skills
        self._uploads = uploads

    async def find(
        self, tenant: str, *, skills: Sequence[AskedSkill], file_ids: Sequence[str], place: str = ""
    ) -> Supplied:
        """All of it, or RequestInvalid for the first thing that is not there or not sound; `place` goes before its `param`."""
        found = [await self._skill(tenant, asked, f"{place}skills[{index}]") for index, asked in enumerate(skills)]
        names = [skill.name for skill in found]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise RequestInvalid(
                    f"Two skills are named {name!r}. Leave one out.",
                    param=f"{place}skills[{index}]",
                    code="invalid_skill",
                )
        files = [
            await self._file(tenant, id, f"{place}file_ids[{index}]")
            for index, id in enumerate(dict.fromkeys(file_ids))
        ]
        return Supplied(skills=tuple(found), files=tuple(files))

    async def _skill(self, tenant: str, asked: AskedSkill, param: str) -> Skill:
        match asked:
            case SkillReference(skill_id, version):
                try:
                    record = await self._skills.version(tenant, skill_id, version)
                except NotFound as error:
                    is_version = error.code == "skill_version_not_found"
                    field, code = ("version", "unsupported_skill_version") if is_version else ("skill_id", error.code)
                    raise RequestInvalid(error.message, param=f"{param}.{field}", code=code) from error
                data = await self._skills.zipped(record)
                bundle = await to_thread.run_sync(lambda: from_zip(data, param=param))
                return Skill(name=record.name, description=record.description, bundle=bundle)
            case InlineSkill(media_type="text/markdown"):
                bundle = from_markdown(
                    asked.data, name=asked.name, description=asked.description, param=f"{param}.source.data"
                )
            case InlineSkill():
                data = asked.data
                bundle = await to_thread.run_sync(lambda: from_zip(data, param=f"{param}.source.data"))
        return Skill(name=checked_name(asked.name, f"{param}.name"), description=asked.description, bundle=bundle)

    async def _file(self, tenant: str, id: str, param: str) -> Incoming:
        try:
            record = await self._uploads.get(tenant, id)
        except NotFound as error:
            raise RequestInvalid(error.message, param=param, code="file_not_found") from error
        return Incoming(name=record.filename, open=lambda: self._uploads.read(record), id=record.id)


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


def write_skills(directory: Path, skills: Sequence[Skill]) -> None:
    """Put skills below a directory that a box sees at /skills, read-only; whole ones, also while the box lives: until then
    they lie beside it, where no box looks. Blocking."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o755)
    for skill in skills:
        fresh = directory.parent / f".skill-{secrets.token_hex(8)}"
        try:
            _write(fresh, skill.bundle)
            target = directory / skill.name
            if target.exists():
                target.rename(old := directory.parent / f".skill-{secrets.token_hex(8)}")
                fresh.rename(target)
                shutil.rmtree(old)
            else:
                fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _write(root: Path, bundle: Bundle) -> None:
    root.mkdir(mode=0o755)
    for file in bundle.files:
        path = root / file.path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.write_bytes(file.data)
        os.chmod(path, 0o755 if file.is_program else 0o644)

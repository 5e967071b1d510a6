"""Skills and their versions as rows; the bytes of each version are in blob storage."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import anyio
from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from limpet.core.clock import Clock, SystemClock
from limpet.core.errors import NotFound, RequestInvalid
from limpet.core.ids import SKILL, SKILL_VERSION, new_id
from limpet.store.blob_records import doom, keep
from limpet.store.blob_storage import BlobStorage
from limpet.store.database import Database
from limpet.store.quotas import check_added_bytes, hold_for_bytes
from limpet.store.records import Order, Page, columns_of, read_page, record_of
from limpet.store.settings import NO_QUOTA, QuotaSettings
from limpet.store.tables import skill_versions, skills

BLOCK = 1 << 20
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SkillRecord:
    """One skill. It says what its default version says; `last_version` is the highest that was ever made; `created_at` in
    microseconds UTC."""

    id: str
    tenant: str
    number: int = 0
    name: str
    description: str
    default_version: int
    last_version: int
    created_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionRecord:
    """One version, which never changes. `bytes` and `sha256` are of its zip, `blob` is where that is."""

    id: str
    tenant: str
    number: int = 0
    skill_id: str
    version: int
    name: str
    description: str
    bytes: int
    sha256: str
    blob: str
    created_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NewVersion:
    """What a checked bundle says of itself, and the file that holds its zip."""

    name: str
    description: str
    zipped: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class SkillListing:
    """A skill and the highest of its versions that is still there."""

    skill: SkillRecord
    latest: int


class Skills:
    """All skills of all tenants. StoreFailed where the store cannot be used; another tenant's skill is NotFound like one that
    never was."""

    def __init__(
        self, db: Database, blob_storage: BlobStorage, *, clock: Clock | None = None, quota: QuotaSettings = NO_QUOTA
    ) -> None:
        self._db = db
        self._blob_storage = blob_storage
        self._quota = quota
        self._clock = clock or SystemClock()

    async def create(self, tenant: str, new: NewVersion) -> SkillListing:
        """A new skill with this as its version 1. Raises QuotaExceeded where its tenant would have more than its quota."""
        skill = SkillRecord(
            id=new_id(SKILL),
            tenant=tenant,
            name=new.name,
            description=new.description,
            default_version=1,
            last_version=1,
            created_at=self._clock.now(),
        )
        await self._add(skill, new, is_new=True, becomes_default=True)
        return SkillListing(skill=skill, latest=1)

    async def add(self, tenant: str, asked: str, new: NewVersion, *, becomes_default: bool) -> VersionRecord:
        """One more version of a skill. RequestInvalid where its name is another's. NotFound."""
        skill = (await self.get(tenant, asked)).skill
        if new.name != skill.name:
            raise RequestInvalid(
                f"The skill is {skill.name!r}, this version names itself {new.name!r}. Give it the same name, or create another skill.",
                param="files",
                code="invalid_skill",
            )
        return await self._add(skill, new, is_new=False, becomes_default=becomes_default)

    async def get(self, tenant: str, asked: str) -> SkillListing:
        """A skill by its id, by the bare UUID in it, or by its name (of several the newest). NotFound."""
        id = f"{SKILL}_{asked.replace('-', '')}" if _UUID.fullmatch(asked.lower()) else asked
        async with self._db.reading() as connection:
            return await _found(
                connection, asked, skills.c.tenant == tenant, (skills.c.id == id) | (skills.c.name == asked)
            )

    async def version(self, tenant: str, asked: str, version: str | None) -> VersionRecord:
        """A version by its number, "latest", or None for the default one. NotFound; RequestInvalid `unsupported_skill_version`."""
        listed = await self.get(tenant, asked)
        number = listed.skill.default_version if version is None else _numbered(version, listed.latest)
        async with self._db.reading() as connection:
            record = await _version(connection, listed.skill.id, number)
        if record is None:
            raise NotFound(f"The skill {asked} has no version {version}.", code="skill_version_not_found")
        return record

    async def list(
        self, tenant: str, *, limit: int, after: str | None = None, order: Order = "desc"
    ) -> Page[SkillListing]:
        """A page by age. RequestInvalid for an `after` that is not in the list."""
        mine = skills.c.tenant == tenant
        async with self._db.reading() as connection:
            page = await read_page(
                connection, skills, mine, kind=SkillRecord, limit=limit, after=after, order=order, cursor_in=mine
            )
            latest = await _latest(connection, [skill.id for skill in page.records])
        return Page(
            [SkillListing(skill=skill, latest=latest[skill.id]) for skill in page.records], has_more=page.has_more
        )

    async def versions(
        self, tenant: str, asked: str, *, limit: int, after: str | None = None, order: Order = "desc"
    ) -> Page[VersionRecord]:
        """A page of a skill's versions. NotFound; RequestInvalid for an `after` that is not in the list."""
        mine = skill_versions.c.skill_id == (await self.get(tenant, asked)).skill.id
        async with self._db.reading() as connection:
            return await read_page(
                connection,
                skill_versions,
                mine,
                kind=VersionRecord,
                limit=limit,
                after=after,
                order=order,
                cursor_in=mine,
            )

    def read(self, record: VersionRecord, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """A version's zip as it was stored, from `start` on, at most `length` bytes; see `Vault.read`."""
        return self._blob_storage.read(record.blob, start=start, length=length)

    async def set_default(self, tenant: str, asked: str, version: str) -> SkillListing:
        """From now on a reference without a version means this one. NotFound."""
        chosen = await self.version(tenant, asked, version)
        changed = {"default_version": chosen.version, "name": chosen.name, "description": chosen.description}
        async with self._db.writing() as connection:
            await connection.execute(update(skills).where(skills.c.id == chosen.skill_id).values(**changed))
        return await self.get(tenant, chosen.skill_id)

    async def delete(self, tenant: str, asked: str) -> str:
        """A skill with all its versions; gives its id. Containers keep what they mounted. NotFound."""
        id = (await self.get(tenant, asked)).skill.id
        async with self._db.writing() as connection:
            await _delete(connection, skills.c.id == id, skill_versions.c.skill_id == id)
        self._blob_storage.nudge()
        return id

    async def delete_version(self, tenant: str, asked: str, version: str) -> VersionRecord:
        """One version; the last one takes the skill with it. The default one of several is refused. Raises NotFound, RequestInvalid."""
        record = await self.version(tenant, asked, version)
        async with self._db.writing() as connection:
            listed = await _found(connection, asked, skills.c.id == record.skill_id)
            others = await connection.execute(
                select(func.count()).where(
                    skill_versions.c.skill_id == record.skill_id, skill_versions.c.version != record.version
                )
            )
            is_last = others.scalar_one() == 0
            if not is_last and listed.skill.default_version == record.version:
                raise RequestInvalid(
                    f"Version {record.version} is the default. Make another one the default first.",
                    param="version",
                    code="default_skill_version",
                )
            skill = skills.c.id == record.skill_id if is_last else None
            await _delete(connection, skill, skill_versions.c.id == record.id)
        self._blob_storage.nudge()
        return record

    async def _add(self, skill: SkillRecord, new: NewVersion, *, is_new: bool, becomes_default: bool) -> VersionRecord:
        async with (
            self._blob_storage.put(_blocks(new.zipped), tenant=skill.tenant, area="files") as blob,
            self._db.writing() as connection,
        ):
            await hold_for_bytes(connection, skill.tenant, self._quota)
            await keep(connection, blob.id)
            await check_added_bytes(connection, skill.tenant, self._quota, added=blob.bytes)
            if is_new:
                await connection.execute(insert(skills).values(columns_of(skill)))
            record = VersionRecord(
                id=new_id(SKILL_VERSION),
                tenant=skill.tenant,
                skill_id=skill.id,
                version=1 if is_new else await _next_version(connection, skill.id),
                name=new.name,
                description=new.description,
                bytes=blob.bytes,
                sha256=blob.sha256,
                blob=blob.id,
                created_at=self._clock.now(),
            )
            await connection.execute(insert(skill_versions).values(columns_of(record)))
            if becomes_default:
                changed = {"default_version": record.version, "description": new.description}
                await connection.execute(update(skills).where(skills.c.id == skill.id).values(**changed))
        return record


async def _found(connection: AsyncConnection, asked: str, *where: ColumnElement[bool]) -> SkillListing:
    query = select(skills).where(*where).order_by(skills.c.number.desc()).limit(1)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFound(
            f"There is no skill {asked[:100]}. GET /v1/skills lists those that there are.", code="skill_not_found"
        )
    skill = record_of(SkillRecord, row)
    return SkillListing(skill=skill, latest=(await _latest(connection, [skill.id]))[skill.id])


async def _latest(connection: AsyncConnection, ids: "list[str]") -> dict[str, int]:
    query = select(skill_versions.c.skill_id, func.max(skill_versions.c.version))
    rows = await connection.execute(query.where(skill_versions.c.skill_id.in_(ids)).group_by(skill_versions.c.skill_id))
    return {row[0]: row[1] for row in rows}


async def _version(connection: AsyncConnection, skill_id: str, number: int) -> VersionRecord | None:
    where = (skill_versions.c.skill_id == skill_id, skill_versions.c.version == number)
    row = (await connection.execute(select(skill_versions).where(*where))).one_or_none()
    return None if row is None else record_of(VersionRecord, row)


async def _next_version(connection: AsyncConnection, skill_id: str) -> int:
    counted = update(skills).where(skills.c.id == skill_id).values(last_version=skills.c.last_version + 1)
    row = (await connection.execute(counted.returning(skills.c.last_version))).one_or_none()
    if row is None:
        raise NotFound(f"The skill {skill_id} was deleted meanwhile.", code="skill_not_found")
    return int(row[0])


async def _delete(
    connection: AsyncConnection, skill: ColumnElement[bool] | None, versions: ColumnElement[bool]
) -> None:
    await doom(connection, select(skill_versions.c.blob).where(versions))
    await connection.execute(delete(skill_versions).where(versions))
    if skill is not None:
        await connection.execute(delete(skills).where(skill))


def _numbered(version: str, latest: int) -> int:
    if version == "latest":
        return latest
    if version.isascii() and version.isdigit() and 0 < len(version) <= 9 and int(version) > 0:
        return int(version)
    raise RequestInvalid(
        f"{version[:40]!r} is not a version. Use a number from 1 on, latest, or leave it out for the default one.",
        param="version",
        code="unsupported_skill_version",
    )


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while block := await file.read(BLOCK):
            yield block

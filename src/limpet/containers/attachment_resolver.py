"""Gives containers what requests name for them: skills at /skills, uploaded files in /mnt/data; their rows remember it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from limpet.containers.attachments import Attachments, AttachmentStore, check_room
from limpet.containers.boxes import Boxes
from limpet.containers.container import ContainerSpec
from limpet.containers.file_service import ContainerFileService
from limpet.containers.messages import has_expired
from limpet.containers.unpack_budget import UnpackLimits
from limpet.store.containers import ContainerRecord, Containers


class AttachmentResolver:
    """`attachments` None is for containers whose requests name nothing."""

    def __init__(
        self, rows: Containers, boxes: Boxes, file_service: ContainerFileService, attachments: AttachmentStore | None
    ) -> None:
        self._rows = rows
        self._boxes = boxes
        self._file_service = file_service
        self._attachments = attachments
        self._limits = UnpackLimits()

    async def clear(self) -> None:
        """Remove what an earlier process had unpacked when it died."""
        if self._attachments is not None:
            await self._attachments.clear()

    @asynccontextmanager
    async def found(self, tenant: str, spec: ContainerSpec) -> AsyncIterator[Attachments]:
        """What a request names, for the block to give. Raises RequestInvalid for what is not there, RequestTooLarge."""
        if not spec.skills and not spec.file_ids:
            yield Attachments()
            return
        assert self._attachments is not None, "opened without skills and uploads"
        async with self._attachments.found(
            tenant, skills=spec.skills, file_ids=spec.file_ids, place=spec.place
        ) as supplied:
            yield supplied

    async def give(self, record: ContainerRecord, found: Attachments) -> ContainerRecord:
        """Bring in what was found, also while the box lives, and let the row say so. RequestTooLarge where its skills would be too
        many; RequestInvalid `container_expired` where it ended meanwhile."""
        if not found.skills and not found.files:
            return record
        async with self._boxes.of(record.id).receiving:
            if found.skills:
                record = await self._give_skills(record, found)
            brought = await self._file_service.bring(record, found.files)
            # Read again: what the row says of its skills and files only changes here, under this lock.
            now = await self._rows.get_any(record.id) or record
            spec = {
                **now.spec,
                "file_ids": [*now.spec.get("file_ids", ()), *(file.id for file in found.files if file.id)],
                "files": [*now.spec.get("files", ()), *(row.path for row in brought)],
            }
            await self._rows.update(record.id, spec=spec)
        return replace(record, spec=spec)

    async def _give_skills(self, record: ContainerRecord, found: Attachments) -> ContainerRecord:
        async with self._boxes.of(record.id).booting() as booting:
            now = await self._rows.get_any(record.id)
            if now is None or now.status != "running":
                raise has_expired(record.id)
            before = now.spec.get("skills", ())
            check_room(before, found.skills, self._limits)
            await booting.give_skills(record, found.skills)
            named = {skill["name"]: skill for skill in before} | {skill.name: skill.stored() for skill in found.skills}
            spec = {**now.spec, "skills": list(named.values())}
            await self._rows.update(record.id, spec=spec)
        return replace(record, spec=spec)

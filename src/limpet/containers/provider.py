"""Gives containers what requests name for them: skills at /skills, uploaded files in /mnt/data; their rows remember it."""

from dataclasses import replace

from limpet.containers.boxes import Boxes
from limpet.containers.container import ContainerSpec
from limpet.containers.files import Shelf
from limpet.containers.supplies import Supplied, Supplies
from limpet.store.containers import ContainerRecord, Containers


class Provider:
    """`supplies` None is for containers whose requests name nothing."""

    def __init__(self, rows: Containers, boxes: Boxes, shelf: Shelf, supplies: Supplies | None) -> None:
        self._rows = rows
        self._boxes = boxes
        self._shelf = shelf
        self._supplies = supplies

    async def find(self, tenant: str, spec: ContainerSpec) -> Supplied:
        """What a request names. RequestInvalid for what is not there."""
        if not spec.skills and not spec.file_ids:
            return Supplied()
        assert self._supplies is not None, "opened without skills and uploads"
        return await self._supplies.find(tenant, skills=spec.skills, file_ids=spec.file_ids, place=spec.place)

    async def give(self, record: ContainerRecord, found: Supplied) -> ContainerRecord:
        """Bring in what was found, also while the box lives, and let the row say so."""
        if not found.skills and not found.files:
            return record
        if found.skills:
            await self._boxes.give_skills(record, found.skills)
        brought = await self._shelf.bring(record, found.files)
        named = {skill["name"]: skill for skill in record.spec.get("skills", ())}
        named |= {skill.name: skill.stored() for skill in found.skills}
        spec = {
            **record.spec,
            "skills": list(named.values()),
            "file_ids": [*record.spec.get("file_ids", ()), *(file.id for file in found.files if file.id)],
            "files": [*record.spec.get("files", ()), *(row.path for row in brought)],
        }
        await self._rows.update(record.id, spec=spec)
        return replace(record, spec=spec)

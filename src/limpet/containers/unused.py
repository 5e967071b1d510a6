"""Containers that a response created and never used: they are deleted with their response, and nothing is lost."""

from collections.abc import Awaitable, Callable

from limpet.containers.box import BootingBox
from limpet.containers.boxes import Boxes
from limpet.containers.captures import LockedFiles
from limpet.containers.file_service import ContainerFileService
from limpet.store.containers import ContainerRecord, Containers

End = Callable[[BootingBox, LockedFiles, str, str], Awaitable[None]]


class UnusedContainers:
    """`end` gives a container, by its id, its last status."""

    def __init__(self, rows: Containers, boxes: Boxes, files: ContainerFileService, *, end: End) -> None:
        self._rows = rows
        self._boxes = boxes
        self._files = files
        self._end = end
        self._taken_up: set[str] = set()

    def take_up(self, record: ContainerRecord) -> None:
        """Another response goes on in it: it does not end with the one that made it."""
        if record.boot_id is None:
            self._taken_up.add(record.id)

    async def have_lost_nothing(self, tenant: str, container_id: str) -> bool:
        """Whether that container ended, or was deleted, before anything ran in it or was given to it."""
        record = await self._rows.get(tenant, container_id)
        return record is not None and record.status != "running" and bool(record.spec.get("unused"))

    async def end(self, container_id: str, *, response_id: str) -> bool:
        """End the container that this response made, if it is unused; whether it was. Raises StoreError, OSError."""
        if not self._was_made_for(await self._rows.get_any(container_id), response_id):
            return False
        box = self._boxes.of(container_id)
        async with box.booting() as booting, self._files.locked(container_id) as files:
            record = await self._rows.get_any(container_id)
            if record is None or box.leases > 0 or not self._was_made_for(record, response_id):
                return False
            if not await self.is_unused(record, files):
                return False
            await self._end(booting, files, container_id, "expired")
            return True

    async def is_unused(self, record: ContainerRecord, files: LockedFiles) -> bool:
        """Whether nothing ever ran in it and it was given nothing. `files` are its own."""
        return record.boot_id is None and not was_given(record) and not await files.known()

    async def last_spec(self, record: ContainerRecord, files: LockedFiles) -> dict[str, object]:
        """The `spec` of a container that ends now: it remembers whether it was unused. `files` are its own."""
        self._taken_up.discard(record.id)
        # Of one that has expired nothing tells any more whether it had a box; it was asked then.
        is_unused = record.status == "running" and await self.is_unused(record, files)
        return {**record.spec, "unused": True} if is_unused else record.spec

    def _was_made_for(self, record: ContainerRecord | None, response_id: str) -> bool:
        return (
            record is not None
            and record.status == "running"
            and record.boot_id is None
            and record.source_response_id == response_id
            and not self._rows.is_elsewhere(record)
            and record.id not in self._taken_up
        )


def was_given(record: ContainerRecord) -> bool:
    """Whether it was made with skills or files."""
    return any(record.spec.get(what) for what in ("skills", "file_ids", "files"))

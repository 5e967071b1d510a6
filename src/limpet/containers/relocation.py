"""Containers of gateways that are gone: each wakes at the gateway that is asked for it, from the copies of its files.

Only what was copied comes along: files that were captured, where `[storage.container_files]` keeps them in the database or in a bucket.
Skills, links and empty directories do not.
"""

from contextlib import aclosing
from dataclasses import replace

import structlog

from limpet.containers.boxes import Boxes
from limpet.containers.messages import cannot_come_now, left_behind, lies_elsewhere
from limpet.containers.nodes import NodeDirectory
from limpet.containers.settings import ContainerHost, ContainerSettings
from limpet.core.errors import BlobDamaged, BlobMissing, FileError, StoreError
from limpet.core.ports import Offer, Runtime
from limpet.store.blob_storage import BlobStorage
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.files import ContainerFiles

TRIES = 3  # other requests for the container, which are uses of it, may come while its files do
log = structlog.get_logger()


class ContainerRelocation:
    """`nodes` None: this gateway knows no other one. `copies` None: files lie in the homes alone."""

    def __init__(
        self,
        rows: Containers,
        files: ContainerFiles,
        boxes: Boxes,
        *,
        runtime: Runtime,
        nodes: NodeDirectory | None,
        copies: BlobStorage | None,
        host: ContainerHost,
        settings: ContainerSettings,
    ) -> None:
        self._rows = rows
        self._files = files
        self._boxes = boxes
        self._runtime = runtime
        self._nodes = nodes
        self._copies = copies
        self._directories = boxes.directories
        self._host = host
        self._settings = settings

    async def here(self, record: ContainerRecord) -> ContainerRecord:
        """A running container of another home, as one of this home from now on. Raises ContainerElsewhere where its gateway lives, or its
        files cannot come; Overloaded where they cannot be read now; StoreError."""
        node = None if self._nodes is None else await self._nodes.settled(record.home)
        if node is None or self._nodes is None or not self._nodes.is_gone(node):
            raise lies_elsewhere(record.id, record.home)
        copies = self._copies
        if copies is None or Offer.DIRECTORY not in self._runtime.offers:
            raise left_behind(record.id, node)
        async with self._boxes.of(record.id).receiving:
            for _ in range(TRIES):
                now = await self._rows.get_any(record.id) or record
                if not self._rows.is_elsewhere(now):
                    return now  # another request has brought it here
                if now.status != "running" or node is None or not self._nodes.is_gone(node):
                    break
                if (here := await self._brought(now, copies, silence=self._nodes.silence)) is not None:
                    return here
                node = await self._nodes.find(now.home)
            raise lies_elsewhere(record.id, record.home)

    async def _brought(self, record: ContainerRecord, copies: BlobStorage, *, silence: float) -> ContainerRecord | None:
        """None where its gateway came back meanwhile, or it was used."""
        directory = None if self._host.directory is None else str(self._host.directory)
        user_id = await self._boxes.next_user_id(self._settings.first_user_id, self._settings.user_ids)
        moved = replace(record, directory=directory, user_id=user_id, spec={**record.spec, "skills": []})
        # The files first: what has a row here has its files here, also where this process ends in between.
        try:
            await self._restore(moved, copies)
        except StoreError as problem:
            log.warning("container_not_moved", container=record.id, from_home=record.home, reason=problem.message)
            await self._remove_half_made(moved)
            raise cannot_come_now(record.id) from problem
        here = await self._rows.move_here(
            record, silence=silence, directory=directory, user_id=user_id, spec=moved.spec
        )
        if here is None:
            await self._remove_half_made(moved)
            return None
        log.warning("container_moved_here", container=record.id, from_home=record.home)
        return here

    async def _remove_half_made(self, record: ContainerRecord) -> None:
        """A directory of the operator's may be shared with the gateway that has the container: what lies there is its."""
        if record.directory is None:
            await self._directories.remove(record)

    async def _restore(self, record: ContainerRecord, copies: BlobStorage) -> None:
        """A copy that is gone for good, or has no place here, stays a row without a file: the next box counts it as missing, and says so.
        Raises StoreError where copies cannot be read now."""
        await self._remove_half_made(record)  # what an earlier stay in this home has left
        await self._directories.make(record)
        files = self._directories.files(record)
        for row in await self._files.of_container(record.id):
            if row.blob is None:
                continue
            try:
                async with aclosing(copies.read(row.blob, length=row.bytes)) as pieces:
                    await files.write(row.path, pieces)
            except (FileError, BlobMissing, BlobDamaged) as problem:
                log.warning("file_not_moved", container=record.id, path=row.path, reason=str(problem))

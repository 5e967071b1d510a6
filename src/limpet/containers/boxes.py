"""The boxes of all containers of one home, as far as this process knows them."""

import os
from collections.abc import Sequence
from functools import partial

from limpet.containers.box import Box, BoxServices
from limpet.containers.directories import ContainerDirectories
from limpet.containers.directory_remover import DirectoryRemover
from limpet.core.ports import Offer
from limpet.store.containers import ContainerRecord


class Boxes:
    """Gives each container's box. The runtime is open, and closes after this."""

    def __init__(self, services: BoxServices) -> None:
        self._services = services
        self._boxes: dict[str, Box] = {}

    def of(self, container_id: str) -> Box:
        """What this process knows of that container's box; the same object until the container ends."""
        box = self._boxes.get(container_id)
        if box is None:
            box = Box(self._services, forget=partial(self._boxes.pop, container_id, None))
            self._boxes[container_id] = box
        return box

    def held(self) -> frozenset[str]:
        """The containers that are leased now."""
        return frozenset(key for key, box in self._boxes.items() if box.leases > 0)

    def entered(self) -> frozenset[str]:
        """The containers whose box this process has entered."""
        return frozenset(key for key, box in self._boxes.items() if box.sandbox is not None)

    @property
    def directories(self) -> ContainerDirectories:
        """Where those of their containers lie."""
        return self._services.directories

    @property
    def remover(self) -> DirectoryRemover:
        """Removes the directories of those that end; it is open while containers are."""
        return self._services.directories.remover

    async def sweep(self, running: Sequence[ContainerRecord]) -> list[str]:
        """Clear what no running container owns, box or directory; one sentence each. PlaceUnusable where new ones cannot be made."""
        # A box that no row names was being booted when the process before this one died: it cannot be attached to any more.
        named = frozenset(record.id for record in running if record.ref is not None)
        directories = self._services.directories
        await directories.prepare()
        return [*await self._services.runtime.sweep(named), *await directories.sweep(running, self._services.rows)]

    async def leave(self, *, ending: Sequence[ContainerRecord] = ()) -> None:
        """Release every box. Those of `ending` are ended, also those that an earlier process booted and that were not used since."""
        for record in ending:
            async with self.of(record.id).booting() as booting:
                await booting.destroy(record)
        for box in self._boxes.values():
            await box.release()

    async def keep_alive(self, record: ContainerRecord, *, every: float) -> None:
        """Touch its box if no call has reached it for `every` seconds, so that only the row's time to live decides when it ends.

        A box that is gone is no error here: the next caller that enters it is told.
        """
        box = self.of(record.id)
        if record.ref is not None and self._services.clock.monotonic() - box.spoken_at >= every:
            async with box.booting() as booting:
                await booting.find(record)

    async def is_lost(self, record: ContainerRecord) -> bool:
        """Whether the box that the container had is gone; not so where it is used or booted now. SandboxError."""
        box = self.of(record.id)
        if record.boot_id is None or box.leases > 0 or box.is_booting:
            return False
        async with box.booting() as booting:
            return await booting.is_lost(record)

    async def next_user_id(self, first: int, count: int) -> int | None:
        """A host user of its own for a new container, of these `count` ids; None where this process cannot become others or the box is
        no wall."""
        if os.geteuid() != 0 or Offer.ISOLATION not in self._services.runtime.offers:
            return None
        return await self._services.rows.next_user_id(first, count)

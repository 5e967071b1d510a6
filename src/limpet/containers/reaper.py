"""Ends containers: those that are idle too long, in rounds, others when they are told to; and boxes that must make room."""

import logging
from dataclasses import replace

import anyio

from limpet.containers.admission import BoxAdmission
from limpet.containers.box import BootingBox
from limpet.containers.boxes import Boxes
from limpet.containers.captures import LockedFiles
from limpet.containers.container import CONTAINER_MOVES, is_due, plan_expiry
from limpet.containers.file_service import ContainerFileService
from limpet.containers.messages import no_container
from limpet.containers.rounds import Round
from limpet.containers.running_commands import runs_a_command
from limpet.containers.unused import UnusedContainers
from limpet.core.clock import Clock
from limpet.core.events import move
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.executions import Executions

REAP_EVERY = 5.0  # seconds
KEEP_ALIVE = 150.0  # seconds of silence after which a box of a running container is spoken to

log = logging.getLogger("limpet.containers")


class ContainerReaper:
    """Of one home's containers."""

    def __init__(
        self,
        rows: Containers,
        executions: Executions,
        boxes: Boxes,
        files: ContainerFileService,
        *,
        admission: BoxAdmission,
        clock: Clock,
    ) -> None:
        self.unused = UnusedContainers(rows, boxes, files, end=self._end)
        self._rows = rows
        self._executions = executions
        self._boxes = boxes
        self._files = files
        self._admission = admission
        self._clock = clock
        self._unended: dict[str, ContainerRecord] = {}
        self._logged = ""

    async def reap_for_ever(self) -> None:
        """Rounds, until it is cancelled."""
        while True:
            await self.round()
            await anyio.sleep(REAP_EVERY)

    async def round(self) -> None:
        """`reap_once`; what goes wrong is logged, once for as long as it stays the same. The next round tries again."""
        problem = ""
        try:
            await self.reap_once()
        except Exception as error:  # noqa: BLE001 - neither a full disk nor a fault of ours must end every running response
            problem = str(error) or type(error).__name__
        if problem and problem != self._logged:
            log.warning("What is due for containers could not be done: %s", problem)
        self._logged = problem

    async def reap_once(self) -> tuple[str, ...]:
        """What is in use stays fresh, what was idle too long expires. Gives the expired ids, or raises what went wrong first, last."""
        turns, now = Round(), self._clock.now()
        plan = plan_expiry(await self._rows.idle(now), now, self._boxes.held())
        for held in plan.held:
            await turns.turn(held, self._rows.touch(held, now))
        expired = [record.id for record in plan.expired if await turns.turn(record.id, self.expire(record))]
        for record in await self._rows.housed():
            await turns.turn(record.id, self._boxes.keep_alive(record, every=KEEP_ALIVE))
        for record in list(self._unended.values()):
            await turns.turn(record.id, self._end_again(record))
        for container_id in await self._rows.moved(self._boxes.entered()):
            await turns.turn(container_id, self._let_go(container_id))
        turns.end()
        return tuple(expired)

    async def expire(self, due: ContainerRecord) -> bool:
        """End a container that was due a moment ago, unless it is in use after all."""
        box = self._boxes.of(due.id)
        async with box.booting() as booting, self._files.locked(due.id) as files:
            record = await self._rows.get_any(due.id)
            if record is None or not is_due(record, self._clock.now()) or box.leases > 0:
                return False
            if await runs_a_command(self._executions, booting, record):
                await self._rows.touch(record.id, self._clock.now())
                return False
            await files.capture_last(record)
            await self._end(booting, files, record.id, "expired")
            return True

    async def delete(self, container_id: str) -> None:
        """End a container with all that it has, and forget its files. NotFound, also when it is deleted twice."""
        async with self._boxes.of(container_id).booting() as booting, self._files.locked(container_id) as files:
            await self._end(booting, files, container_id, "deleted")
            await self._files.clear(container_id)

    async def _let_go(self, container_id: str) -> None:
        """Another gateway has gone on with it while this one was silent: its box here ends."""
        async with self._boxes.of(container_id).booting() as booting:
            record = await self._rows.get_any(container_id)
            if record is not None and self._rows.is_elsewhere(record):
                await booting.destroy(replace(record, ref=None))
                self._admission.leave(container_id)

    async def put_to_sleep(self, container_id: str) -> bool:
        """End the box of an idle container to make room for another. False where it is in use after all."""
        box = self._boxes.of(container_id)
        if box.leases > 0 or box.is_booting:
            return False
        async with box.booting() as booting:
            record = await self._rows.get_any(container_id)
            if record is None or record.status != "running":
                return True
            if box.leases > 0 or await runs_a_command(self._executions, booting, record):
                return False
            async with self._files.locked(container_id) as files:
                await files.capture_last(record)
            await booting.sleep(record)
            return True

    async def _end(self, booting: BootingBox, files: LockedFiles, container_id: str, status: str) -> None:
        """Make it `status`, then take its box and its data away."""
        record = await self._rows.get_any(container_id)
        if record is None or record.status == "deleted":
            raise no_container(container_id)
        move(CONTAINER_MOVES, record.status, status)
        spec = await self.unused.last_spec(record, files)
        # The row first: if this process ends in between, the next one sweeps what has no running row.
        await self._rows.update(
            container_id,
            status=status,
            ended_at=record.ended_at or self._clock.now(),
            ref=None,
            boot_id=None,
            spec=spec,
            sealed=None,
        )
        self._unended[container_id] = record
        await self._take_away(booting, files, record)

    async def _end_again(self, record: ContainerRecord) -> None:
        """Another attempt at the box and the data of a container whose row has ended."""
        if record.id not in self._unended:
            return
        async with self._boxes.of(record.id).booting() as booting, self._files.locked(record.id) as files:
            if record.id in self._unended:
                await self._take_away(booting, files, record)

    async def _take_away(self, booting: BootingBox, files: LockedFiles, record: ContainerRecord) -> None:
        await booting.end(record, files.state)
        self._admission.leave(record.id)
        del self._unended[record.id]

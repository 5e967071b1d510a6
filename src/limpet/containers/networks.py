"""The networks of running containers: their policies changed while they live, and held again by a gateway that starts; what was used."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from limpet.containers.boxes import Boxes
from limpet.containers.doors import ContainerDoors
from limpet.containers.network_objects import ContainerNetwork, network_summary
from limpet.containers.requested_secrets import GrantedSecret
from limpet.egress.usage import NetworkUsage
from limpet.store.containers import ContainerRecord, Containers

log = structlog.get_logger()


class ContainerNetworks:
    """`running` gives a container that can be used, or raises."""

    def __init__(
        self,
        doors: ContainerDoors,
        rows: Containers,
        boxes: Boxes,
        *,
        running: Callable[[str, str], Awaitable[ContainerRecord]],
    ) -> None:
        self._doors = doors
        self._rows = rows
        self._boxes = boxes
        self._running = running

    async def change(
        self,
        tenant: str,
        container_id: str,
        policy: Mapping[str, Any],
        secrets: Sequence[GrantedSecret] | None = None,
    ) -> ContainerRecord:
        """Give a running container another policy (as `narrow` has it), at once, in open connections too, and these secrets of its own
        (None: those that it has). Raises NotFound, RequestInvalid `container_expired`. Where its door cannot be opened the container
        reaches nothing, and the log says why."""
        async with self._boxes.of(container_id).booting() as booting:
            record = await self._running(tenant, container_id)
            if secrets is not None:
                await self._doors.secrets.change(record, secrets)
            elif record.spec.get("network_policy") == policy:
                return record
            spec = {**record.spec, "network_policy": dict(policy)}
            # The row first: whatever fails now, the next box and the next gateway hold the new policy.
            await self._rows.update(container_id, spec=spec)
            record = replace(record, spec=spec)
            await booting.find(record)
            return record

    def usage_from_now(self, container_id: str | None) -> Callable[[], NetworkUsage | None]:
        """A function that says what a container has used since this call. None where there is no container."""
        if container_id is None:
            return lambda: None
        before = self._doors.usage(container_id)
        return lambda: self._doors.usage(container_id).since(before)

    async def seen(self, tenant: str, container_id: str) -> ContainerNetwork:
        """What a running container has used since this process began. NotFound, RequestInvalid `container_expired`."""
        record = await self._running(tenant, container_id)
        usage = network_summary(self._doors.usage(record.id))
        return ContainerNetwork(id=record.id, is_open=self._doors.has_door(record.id), usage=usage)

    async def open_again(self, running: Sequence[ContainerRecord]) -> None:
        """Boxes that an earlier process booted have their doors as soon as this one serves: what runs in them goes on."""
        for record in running:
            policy = record.spec.get("network_policy", {})
            try:
                if record.ref is None or (record.sealed is None and self._doors.grants.policy(policy).grants_nothing):
                    continue
                async with self._boxes.of(record.id).booting() as booting:
                    await booting.find(record)
            except Exception as error:  # noqa: BLE001 - one container ends neither the others' doors nor the gateway
                log.error("the door of a container could not be opened again", container=record.id, reason=str(error))

"""The network policies of running containers: changed while they live, and held again by a gateway that starts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from limpet.containers.boxes import Boxes
from limpet.containers.network_grants import NetworkGrants
from limpet.core.errors import LimpetError
from limpet.store.containers import ContainerRecord, Containers

log = structlog.get_logger()


class ContainerNetworks:
    """`running` gives a container that can be used, or raises."""

    def __init__(
        self,
        grants: NetworkGrants,
        rows: Containers,
        boxes: Boxes,
        *,
        running: Callable[[str, str], Awaitable[ContainerRecord]],
    ) -> None:
        self._grants = grants
        self._rows = rows
        self._boxes = boxes
        self._running = running

    async def change(self, tenant: str, container_id: str, policy: Mapping[str, Any]) -> ContainerRecord:
        """Give a running container another policy (as `narrow` has it), at once, in open connections too. Raises NotFound, RequestInvalid
        `container_expired`. Where its door cannot be opened the container reaches nothing, and the log says why."""
        async with self._boxes.of(container_id).booting() as booting:
            record = await self._running(tenant, container_id)
            if record.spec.get("network_policy") == policy:
                return record
            spec = {**record.spec, "network_policy": dict(policy)}
            # The row first: whatever fails now, the next box and the next gateway hold the new policy.
            await self._rows.update(container_id, spec=spec)
            record = replace(record, spec=spec)
            await booting.find(record)
            return record

    async def open_again(self, running: Sequence[ContainerRecord]) -> None:
        """Boxes that an earlier process booted have their doors as soon as this one serves: what runs in them goes on."""
        for record in running:
            if record.ref is None or self._grants.policy(record.spec.get("network_policy", {})).grants_nothing:
                continue
            try:
                async with self._boxes.of(record.id).booting() as booting:
                    await booting.find(record)
            except (LimpetError, OSError) as error:
                log.error("the door of a container could not be opened again", container=record.id, reason=str(error))

"""The doors of containers: each box that may reach something has one, for as long as this process serves and the box lives.

A container without a door reaches nothing. So a failure here, or the end of this process, leaves it closed.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Self, cast

import anyio
import structlog
from anyio.abc import TaskGroup

from limpet.containers.meter import Meter, NullMeter
from limpet.containers.network_grants import DISABLED, NetworkGrants
from limpet.core.errors import BootFailed
from limpet.core.network import DoorListeners, NetworkedSandbox
from limpet.core.ports import Sandbox
from limpet.egress.door import ConnectionBudget, Door
from limpet.egress.network import plan_for
from limpet.egress.policy import EgressPolicy
from limpet.egress.records import EgressRecord
from limpet.egress.usage import NetworkLedger, NetworkUsage
from limpet.store.containers import ContainerRecord
from limpet.workspace.network import MARK, serve_closed

MOST_CLOSED = 256  # containers without a door whose usage is still known
log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorCounts:
    """How many doors there are, and connections through them."""

    doors: int = 0
    connections: int = 0


@dataclass(slots=True, eq=False)
class _OpenDoor:
    door: Door
    sandbox: Sandbox
    stored: Mapping[str, Any]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    closed: anyio.Event = field(default_factory=anyio.Event)


class ContainerDoors:
    """`async with` holds the doors."""

    def __init__(self, grants: NetworkGrants, *, meter: Meter | None = None) -> None:
        self.grants = grants
        self._meter = meter or NullMeter()
        self._budget = ConnectionBudget()
        self._open: dict[str, _OpenDoor] = {}
        self._closed: dict[str, NetworkLedger] = {}
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        await self._stack.aclose()
        self._tasks = None

    async def hold(self, record: ContainerRecord, sandbox: Sandbox) -> None:
        """See to it that this box of the container has the door that its row grants, and no other. Raises BootFailed, SandboxGone."""
        stored = record.spec.get("network_policy", DISABLED)
        found = self._open.get(record.id)
        if found is not None and found.sandbox is sandbox and found.stored == stored:
            return
        policy = EgressPolicy() if stored == DISABLED else self.grants.policy(stored)
        if found is not None and (
            found.sandbox is not sandbox or policy.grants_nothing or plan_for(policy) != plan_for(found.door.policy)
        ):
            await self.close(record.id)
            found = None
        if policy.grants_nothing or self._tasks is None:
            return
        if found is not None:
            found.stored = stored
            found.door.apply(policy)
            return
        listeners = await cast(NetworkedSandbox, sandbox).listen(plan_for(policy))
        door = Door(
            record.id,
            policy,
            resolve=self.grants.resolve,
            on_record=self._count,
            audit=_write,
            ledger=self._closed.pop(record.id, None),
            budget=self._budget,
        )
        opened = _OpenDoor(door, sandbox, stored)
        self._open[record.id] = opened
        self._tasks.start_soon(self._serve, opened, listeners)

    async def hold_again(self, record: ContainerRecord, sandbox: Sandbox) -> None:
        """As `hold`, for a box that runs commands already: where its door cannot be opened it reaches nothing, and goes on. SandboxGone."""
        try:
            await self.hold(record, sandbox)
        except BootFailed as error:
            log.error(
                "a container reaches nothing: its door could not be opened", container=record.id, reason=error.reason
            )

    async def close(self, container_id: str) -> None:
        """Close its door, if it has one: open connections end, and the sockets in its box are gone when this returns."""
        found = self._open.pop(container_id, None)
        if found is not None:
            self._closed[container_id] = found.door.ledger
            while len(self._closed) > MOST_CLOSED:
                del self._closed[next(iter(self._closed))]
            found.scope.cancel()
            with anyio.CancelScope(shield=True):
                await found.closed.wait()

    def usage(self, container_id: str) -> NetworkUsage:
        """What a container has used of its network since this process began; nothing where that is long ago."""
        if (found := self._open.get(container_id)) is not None:
            return found.door.usage()
        ledger = self._closed.get(container_id)
        return NetworkUsage() if ledger is None else ledger.usage()

    def has_door(self, container_id: str) -> bool:
        """Whether it has a door that works."""
        found = self._open.get(container_id)
        return found is not None and not found.closed.is_set()

    def counts(self) -> DoorCounts:
        """How things stand now."""
        return DoorCounts(
            doors=sum(not each.closed.is_set() for each in self._open.values()),
            connections=sum(each.door.connections for each in self._open.values()),
        )

    async def _serve(self, opened: _OpenDoor, listeners: DoorListeners) -> None:
        try:
            with opened.scope:
                await serve_closed(opened.door, listeners)
        finally:
            listeners.close()
            opened.closed.set()

    def _count(self, record: EgressRecord) -> None:
        result = record.rule if record.verdict == "refused" else "allowed"
        self._meter.reached(result, sent=record.sent, received=record.received)


def _write(record: EgressRecord) -> None:
    log.info(MARK, **record.fields())

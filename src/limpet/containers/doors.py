"""The doors of containers: each box that may reach something has one, for as long as this process serves and the box lives.

A container without a door reaches nothing. So a failure here, or the end of this process, leaves it closed.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import anyio
import structlog
from anyio.abc import TaskGroup

from limpet.containers.container_secrets import ContainerSecrets
from limpet.containers.meter import Meter, NullMeter
from limpet.containers.network_grants import DISABLED, NetworkGrants
from limpet.core.errors import BootFailed
from limpet.core.network import DoorListeners, NetworkedSandbox
from limpet.core.ports import Sandbox
from limpet.egress.connection_budget import ConnectionBudget
from limpet.egress.door import Door
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
    version: int
    certificate: bytes | None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    closed: anyio.Event = field(default_factory=anyio.Event)


class ContainerDoors:
    """`async with` holds the doors. `secrets` are what they put into requests."""

    def __init__(self, grants: NetworkGrants, secrets: ContainerSecrets, *, meter: Meter | None = None) -> None:
        self.grants = grants
        self.secrets = secrets
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
        stored, version = record.spec.get("network_policy", DISABLED), self.secrets.read(record)
        found = self._open.get(record.id)
        is_same = found is not None and found.sandbox is sandbox
        if found is not None and is_same and (found.stored, found.version) == (stored, version):
            return
        if found is None and stored == DISABLED and version == 0:
            return
        try:
            interceptor = await self.secrets.interceptor(record)
            policy = self._policy(record.id, stored)
            if found is not None and (
                not is_same or policy.grants_nothing or plan_for(policy) != plan_for(found.door.policy)
            ):
                await self.close(record.id)
                found = None
            if policy.grants_nothing or self._tasks is None:
                return
            certificate = None if interceptor is None else interceptor.certificate
            if certificate is not None and (found is None or found.certificate != certificate):
                await cast(NetworkedSandbox, sandbox).trust(certificate)
        except BaseException:
            await self.close(record.id)  # what it held until now may be more than it may reach
            raise
        if found is not None:
            found.stored, found.version, found.certificate = stored, version, certificate or found.certificate
            found.door.apply(self._policy(record.id, stored), interceptor)
            return
        listeners = await cast(NetworkedSandbox, sandbox).listen(plan_for(policy))
        door = Door(
            record.id,
            self._policy(record.id, stored),  # a run may have ended meanwhile
            resolve=self.grants.resolve,
            on_record=self._count,
            audit=_write,
            ledger=self._closed.pop(record.id, None),
            budget=self._budget,
            holder=record.tenant,
            interceptor=interceptor,
        )
        opened = _OpenDoor(door, sandbox, stored, version, certificate)
        self._open[record.id] = opened
        self._tasks.start_soon(self._serve, opened, listeners)

    def take_back(self, container_id: str, run: str) -> None:
        """A run has ended: its secrets are used no more, also in open connections."""
        found = self._open.get(container_id)
        if self.secrets.take_back(container_id, run) and found is not None:
            found.door.apply(self._policy(container_id, found.stored))

    def _policy(self, container_id: str, stored: Mapping[str, Any]) -> EgressPolicy:
        try:
            policy = EgressPolicy() if stored == DISABLED else self.grants.policy(stored)
        except ValueError as error:
            raise BootFailed(f"its network policy cannot be held: {error}.") from error
        hosts = () if stored.get("type") != "allowlist" else self.secrets.hosts(container_id)
        return replace(policy, secret_hosts=hosts)

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

"""The doors of containers: each box that may reach something has one, for as long as this process serves and the box lives.

A container without a door reaches nothing. So a failure here, or the end of this process, leaves it closed.
"""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Self, cast

import anyio
import structlog
from anyio.abc import TaskGroup

from limpet.containers.network_grants import DISABLED, NetworkGrants
from limpet.core.errors import BootFailed
from limpet.core.network import DoorListeners, NetworkedSandbox
from limpet.core.ports import Sandbox
from limpet.egress.door import ConnectionBudget, Door
from limpet.egress.network import plan_for
from limpet.egress.policy import EgressPolicy
from limpet.egress.records import EgressRecord
from limpet.store.containers import ContainerRecord
from limpet.workspace.network import MARK, serve_closed

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _OpenDoor:
    door: Door
    sandbox: Sandbox
    stored: Mapping[str, Any]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    closed: anyio.Event = field(default_factory=anyio.Event)


class ContainerDoors:
    """`async with` holds the doors. `on_record` is called with the record of each decision, beside the log."""

    def __init__(self, grants: NetworkGrants, *, on_record: Callable[[EgressRecord], None] | None = None) -> None:
        self.grants = grants
        self._on_record = on_record
        self._budget = ConnectionBudget()
        self._open: dict[str, _OpenDoor] = {}
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
        door = Door(record.id, policy, resolve=self.grants.resolve, on_record=self._note, budget=self._budget)
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
            found.scope.cancel()
            with anyio.CancelScope(shield=True):
                await found.closed.wait()

    async def _serve(self, opened: _OpenDoor, listeners: DoorListeners) -> None:
        try:
            with opened.scope:
                await serve_closed(opened.door, listeners)
        finally:
            listeners.close()
            opened.closed.set()

    def _note(self, record: EgressRecord) -> None:
        log.info(MARK, **record.fields())
        if self._on_record is not None:
            self._on_record(record)

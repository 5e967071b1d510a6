"""Connections to what listens in containers' boxes. Never boots a box: where none lives, nothing listens."""

import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from limpet.containers.admission import BoxAdmission
from limpet.containers.boxes import Boxes
from limpet.core.errors import NotFound, Overloaded, RequestInvalid, SandboxClosed, SandboxGone
from limpet.core.ports import Offer, Runtime, Sandbox
from limpet.core.shares import may_take
from limpet.store.containers import ContainerRecord

MOST_OF_ONE = 32  # connections to one container's ports at once
MOST_OF_ALL = 512
ALWAYS_OF_A_TENANT = 64  # while there are any
Running = Callable[[str, str], Awaitable[ContainerRecord]]


class PortAccess:
    """The ports of one gateway's containers. `running` is as `ContainerManager.require_running`."""

    def __init__(self, runtime: Runtime, boxes: Boxes, admission: BoxAdmission, *, running: Running) -> None:
        self._runtime = runtime
        self._boxes = boxes
        self._admission = admission
        self._running = running
        self._open: Counter[str] = Counter()
        self._of_tenants: Counter[str] = Counter()

    async def listening(self, tenant: str, container_id: str) -> Sequence[int]:
        """The ports on which its commands listen. NotFound, RequestInvalid `container_expired` or `ports_unsupported`."""
        sandbox = await self._sandbox(await self._usable(tenant, container_id))
        if sandbox is None:
            return ()
        try:
            return await sandbox.listening_ports()
        except (SandboxGone, SandboxClosed):
            return ()

    @asynccontextmanager
    async def connected(self, tenant: str, container_id: str, port: int) -> AsyncIterator[socket.socket]:
        """A connection to a port; the container stays in use until the block ends.

        Raises as `listening`; NotFound `port_not_open`; Overloaded where too many are open.
        """
        record = await self._usable(tenant, container_id)
        if not may_connect(
            of_container=self._open[container_id], of_tenant=self._of_tenants[tenant], of_all=self._open.total()
        ):
            raise Overloaded(
                f"Too many connections to ports are open; a container may have {MOST_OF_ONE}, and you no more than are left for others."
                " Close some, or try again later.",
                code="too_many_port_connections",
            )
        box = self._boxes.of(container_id)
        _count(1, (self._open, container_id), (self._of_tenants, tenant))
        box.leases += 1
        try:
            with await self._connection(record, port) as connection:
                yield connection
        finally:
            box.leases -= 1
            _count(-1, (self._open, container_id), (self._of_tenants, tenant))
            if box.leases == 0:
                self._admission.rest(container_id)

    async def _connection(self, record: ContainerRecord, port: int) -> socket.socket:
        if (sandbox := await self._sandbox(record)) is not None:
            await self._admission.take(record.id, record.tenant)
            try:
                return await sandbox.connect(port)
            except (ConnectionRefusedError, SandboxGone, SandboxClosed):
                pass  # as where there is no box
        raise NotFound(
            f"Nothing in the container {record.id} accepts connections on port {port}. Start a server there first.",
            code="port_not_open",
        )

    async def _usable(self, tenant: str, container_id: str) -> ContainerRecord:
        record = await self._running(tenant, container_id)
        if Offer.PORTS not in self._runtime.offers:
            raise RequestInvalid(
                f"The runtime {self._runtime.name} does not connect to ports of its containers.",
                code="ports_unsupported",
            )
        return record

    async def _sandbox(self, record: ContainerRecord) -> Sandbox | None:
        async with self._boxes.of(record.id).booting() as booting:
            return await booting.find(record)


def may_connect(*, of_container: int, of_tenant: int, of_all: int) -> bool:
    """Whether one more is admitted beside those that are open; no tenant gets them all."""
    return of_container < MOST_OF_ONE and may_take(
        held=of_tenant, taken=of_all, most=MOST_OF_ALL, always=ALWAYS_OF_A_TENANT
    )


def _count(change: int, *counted: tuple[Counter[str], str]) -> None:
    for counter, key in counted:
        counter[key] += change
        if not counter[key]:
            del counter[key]

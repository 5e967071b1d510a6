"""Containers from their creation to their end: leased for use, kept while they are used, expired when they are idle, deleted.

The rows are the truth and survive this process; boxes are found again by them. One gateway per home directory.
"""

from collections.abc import AsyncIterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import anyio

from limpet.containers.admission import AdmissionLimits, BoxAdmission
from limpet.containers.attachment_resolver import AttachmentResolver
from limpet.containers.attachments import AttachmentStore
from limpet.containers.box import BoxServices
from limpet.containers.boxes import Boxes
from limpet.containers.captures import CaptureResult
from limpet.containers.container import ContainerSpec, is_due
from limpet.containers.container_secrets import ContainerSecrets
from limpet.containers.directories import ContainerDirectories
from limpet.containers.doors import ContainerDoors
from limpet.containers.file_copies import FileCopies
from limpet.containers.file_service import ContainerFileService
from limpet.containers.hosted_shells import HostedShells
from limpet.containers.lease import Lease
from limpet.containers.lost_boxes import LostBoxes
from limpet.containers.messages import ContainerElsewhere, has_expired, lies_elsewhere, lost_box, no_container
from limpet.containers.meter import Meter, NullMeter
from limpet.containers.network_grants import NetworkGrants
from limpet.containers.networks import ContainerNetworks
from limpet.containers.nodes import NodeDirectory
from limpet.containers.operator_secrets import OperatorSecrets
from limpet.containers.port_access import PortAccess
from limpet.containers.quotas import Quotas
from limpet.containers.reaper import ContainerReaper
from limpet.containers.relocation import ContainerRelocation
from limpet.containers.requested_spec import adapted, narrow
from limpet.containers.settings import ContainerHost, ContainerSettings, ShellLimits
from limpet.containers.shell_rules import ShellRules
from limpet.containers.unused import was_given
from limpet.core.box_settings import BoxSettings
from limpet.core.clock import MICROSECONDS, Clock, SystemClock
from limpet.core.errors import StoreError
from limpet.core.ids import CONTAINER, new_id
from limpet.core.ports import Held, Offer, Runtime
from limpet.store.blob_storage import BlobStorage
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.database import Database
from limpet.store.executions import Executions
from limpet.store.files import ContainerFiles
from limpet.store.records import Order, Page
from limpet.store.sealing import Sealer
from limpet.store.settings import QuotaSettings

CLOSING = 15.0
FRESH = MICROSECONDS  # a use that ends so soon after it began is not written down twice


class ContainerManager:
    """All containers of one home directory. `async with` opens it; runtime and database are open before and close after.

    Leaving it lets go of the boxes, which live on where the runtime offers that; `stop_boxes` ends them. `files` are the
    containers' files, which are also copied to `copies` where that is given; `networks` changes what they reach. `swept` says what
    earlier processes had left and was cleared at the start, a sentence each.
    """

    def __init__(
        self,
        runtime: Runtime,
        db: Database,
        *,
        home: Path,
        settings: ContainerSettings | None = None,
        limits: ShellLimits | None = None,
        box: BoxSettings | None = None,
        clock: Clock | None = None,
        stop_boxes: bool = False,
        copies: BlobStorage | None = None,
        attachments: AttachmentStore | None = None,
        quotas: Quotas | None = None,
        host: ContainerHost | None = None,
        meter: Meter | None = None,
        rules: ShellRules | None = None,
        grants: NetworkGrants | None = None,
        sealer: Sealer | None = None,
        nodes: NodeDirectory | None = None,
    ) -> None:
        self._runtime, self._stop_boxes = runtime, stop_boxes
        self._settings, self._limits = settings or ContainerSettings(), limits or ShellLimits()
        self._clock, self._meter = clock or SystemClock(), meter or NullMeter()
        self._quotas = quotas or Quotas(db, QuotaSettings())
        self._host, self._rows = host or ContainerHost(), Containers.of_home(db, home)
        self._shells = HostedShells(runtime, rules or ShellRules(), clock=self._clock)
        self._operator = OperatorSecrets(self._limits.allowed_domain_secrets, clock=self._clock)
        grants, sealer = grants or NetworkGrants(), sealer or Sealer(home)
        self.secrets = ContainerSecrets(self._rows, grants, self._operator, sealer, self._shells)
        self.doors = ContainerDoors(grants, self.secrets, meter=self._meter)
        self._boxes, self._box = self._made_boxes(home, box or BoxSettings()), box or BoxSettings()
        self._relocation = self._made_relocation(ContainerFiles(db), nodes, copies)
        self.networks = ContainerNetworks(self.doors, self._rows, self._boxes, running=self._still_running)
        self.files = self._file_service(ContainerFiles(db), FileCopies(copies))
        self._attachments = AttachmentResolver(self._rows, self._boxes, self.files, attachments)
        self.admission = self._admission()
        self._reaper = ContainerReaper(
            self._rows, Executions(db), self._boxes, self.files, admission=self.admission, clock=self._clock
        )
        self.unused = self._reaper.unused
        self.ports = PortAccess(self._runtime, self._boxes, self.admission, running=self.require_running)
        self.swept: tuple[str, ...] = ()
        self._stack = AsyncExitStack()

    def _made_relocation(
        self, files: ContainerFiles, nodes: NodeDirectory | None, copies: BlobStorage | None
    ) -> ContainerRelocation:
        return ContainerRelocation(
            self._rows,
            files,
            self._boxes,
            runtime=self._runtime,
            nodes=nodes,
            copies=copies,
            host=self._host,
            settings=self._settings,
        )

    def _made_boxes(self, home: Path, box: BoxSettings) -> Boxes:
        services = BoxServices(
            runtime=self._runtime,
            rows=self._rows,
            directories=ContainerDirectories(home, named=self._host.directory),
            shells=self._shells,
            settings=box,
            limits=self._limits,
            quota=self._quotas.settings,
            clock=self._clock,
            meter=self._meter,
            doors=self.doors,
        )
        return Boxes(services)

    def _admission(self) -> BoxAdmission:
        return BoxAdmission(
            AdmissionLimits.of(self._settings, self._quotas.settings),
            put_to_sleep=self._put_to_sleep,
            can_sleep=Offer.DIRECTORY in self._runtime.offers,
            clock=self._clock,
            meter=self._meter,
        )

    def _file_service(self, rows: ContainerFiles, copies: FileCopies) -> ContainerFileService:
        return ContainerFileService(
            rows,
            self._boxes,
            running=self.require_running,
            still_running=self._still_running,
            readable=self._readable,
            settings=self._settings,
            clock=self._clock,
            copies=copies,
            quotas=self._quotas,
            meter=self._meter,
        )

    @property
    def held(self) -> Held:
        """How the limits of containers are held on this host."""
        return self._runtime.held

    async def __aenter__(self) -> Self:
        await self._attachments.clear()
        running = await self._rows.running()
        async with AsyncExitStack() as stack:  # which closes what is open where the next one cannot be
            await stack.enter_async_context(self._boxes.remover)
            self.swept = tuple(await self._boxes.sweep(running))
            for record in running:
                if record.ref is not None:
                    self.admission.found(record.id, record.tenant)
            await stack.enter_async_context(self._operator)
            await stack.enter_async_context(self.doors)
            await stack.enter_async_context(self._shells)
            await stack.enter_async_context(self.files)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(self._reaper.reap_for_ever)
            tasks.start_soon(self._operator.refresh_for_ever)
            tasks.start_soon(self.networks.open_again, running)
            stack.callback(tasks.cancel_scope.cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()
        with anyio.move_on_after(CLOSING, shield=True):
            await self._boxes.leave(ending=await self._rows.running() if self._stop_boxes else ())

    def narrow(self, fields: Mapping[str, Any], *, place: str = "") -> ContainerSpec:
        """What these request fields ask for, inside this gateway's limits (see `narrowing.narrow`). RequestInvalid."""
        offers, host = self._runtime.offers, self._host.memory_mb
        return narrow(
            fields,
            settings=self._settings,
            limits=self._limits,
            offers=offers,
            host_memory_mb=host,
            place=place,
            grants=self.doors.grants,
        )

    async def create(
        self, tenant: str, *, name: str, spec: ContainerSpec, source_response_id: str | None = None
    ) -> ContainerRecord:
        """A new container: its row, its skills and files, and no box. The box boots when it is first leased.

        RequestInvalid where a skill or a file that it names is not there, before anything is created.
        """
        await self._quotas.allow_container(tenant)
        async with self._attachments.found(tenant, spec) as found:
            record = await self._insert(tenant, name=name, spec=spec, source_response_id=source_response_id)
            try:
                return await self._attachments.give(record, found)
            except BaseException:
                with anyio.move_on_after(CLOSING, shield=True):
                    await self.delete(tenant, record.id)
                raise

    async def _insert(
        self, tenant: str, *, name: str, spec: ContainerSpec, source_response_id: str | None
    ) -> ContainerRecord:
        now, container_id = self._clock.now(), new_id(CONTAINER)
        record = ContainerRecord(
            id=container_id,
            tenant=tenant,
            name=name,
            status="running",
            created_at=now,
            last_active_at=now,
            idle_ttl=spec.idle_ttl,
            memory_limit=spec.memory_limit,
            spec=spec.stored(image=self._box.image),
            user_id=await self._boxes.next_user_id(self._settings.first_user_id, self._settings.user_ids),
            source_response_id=source_response_id,
            directory=None if self._host.directory is None else str(self._host.directory),
            # Those of a response are its run's, and end with it.
            sealed=None if source_response_id is not None else self.secrets.seal(container_id, spec.secrets),
        )
        return await self._rows.insert(record, quota=self._quotas.settings)

    async def adapt(
        self, tenant: str, container_id: str, spec: ContainerSpec, *, fields: AbstractSet[str]
    ) -> ContainerRecord:
        """Let the `container_auto` of a later turn apply to the container that the chain has: `expires_after`
        replaces, skills and files are added once, what cannot change while it lives is refused by its name. `fields` are those that
        the request names. RequestInvalid."""
        record = await self.take_up(tenant, container_id)
        idle_ttl = adapted(record, spec, fields)
        known = record.spec.get("file_ids", ())
        asked = replace(spec, file_ids=tuple(id for id in spec.file_ids if id not in known))
        async with self._attachments.found(tenant, asked) as found:
            if idle_ttl != record.idle_ttl:
                await self._rows.update(container_id, idle_ttl=idle_ttl)
            if "network_policy" in fields:
                record = await self.networks.change(tenant, container_id, spec.network_policy)
            return await self._attachments.give(replace(record, idle_ttl=idle_ttl), found)

    async def get(self, tenant: str, container_id: str) -> ContainerRecord:
        """A container, running or expired; asking for a running one keeps it alive. NotFound for all others."""
        now = self._clock.now()
        record = await self._rows.use(tenant, container_id, now)
        if record is None or record.status == "deleted":
            raise no_container(container_id)
        if not is_due(record, now) or self._rows.is_elsewhere(record):
            return record
        if await self._reaper.expire(record):
            return await self._rows.get(tenant, container_id) or record
        return await self._rows.touch(record.id, self._clock.now()) or record

    async def require_running(self, tenant: str, container_id: str) -> ContainerRecord:
        """A container that can be used; using it keeps it alive. NotFound; RequestInvalid `container_expired`."""
        record = await self._readable(tenant, container_id)
        if record.status != "running":
            raise has_expired(container_id)
        return record

    async def _readable(self, tenant: str, container_id: str) -> ContainerRecord:
        """As `get`, for one whose files are looked at. ContainerElsewhere."""
        return await self._here(await self.get(tenant, container_id))

    async def _here(self, record: ContainerRecord) -> ContainerRecord:
        """One that never had a box and was given nothing is at home wherever it is used first; one whose gateway is gone, where its files
        can come."""
        if record.status != "running" or not self._rows.is_elsewhere(record):
            return record
        adopted = await self._rows.adopt(record) if not was_given(record) else None
        return adopted or await self._relocation.here(record)

    async def elsewhere(self, tenant: str, container_id: str) -> ContainerElsewhere | None:
        """Why a container cannot be used here, where another gateway has it; None for all others, also those that there are not."""
        record = await self._rows.get(tenant, container_id)
        try:
            if record is not None:
                await self._here(record)
        except ContainerElsewhere as problem:
            return problem
        return None

    async def _still_running(self, tenant: str, container_id: str) -> ContainerRecord:
        """The same for a caller that holds one of its box's locks, without which nothing can expire: it is asked for its row alone."""
        record = await self._rows.get(tenant, container_id)
        if record is None or record.status == "deleted":
            raise no_container(container_id)
        if record.status != "running":
            raise has_expired(container_id)
        if self._rows.is_elsewhere(record):  # it was moved while this gateway was silent
            raise lies_elsewhere(container_id, record.home)
        return record

    async def take_up(self, tenant: str, container_id: str) -> ContainerRecord:
        """As `require_running`, for a response that goes on in a container of another one: it does not end with that."""
        record = await self.require_running(tenant, container_id)
        self.unused.take_up(record)
        return record

    @property
    def lost(self) -> LostBoxes:
        """Says of which containers the box is gone."""
        return LostBoxes(self._boxes, self.files)

    async def list(
        self, tenant: str, *, limit: int = 20, after: str | None = None, order: Order = "desc", name: str | None = None
    ) -> Page[ContainerRecord]:
        """A page of a tenant's containers, running and expired. Does not keep them alive."""
        return await self._rows.list(tenant, limit=limit, after=after, order=order, name=name)

    async def delete(self, tenant: str, container_id: str) -> None:
        """End it with its box, its commands and its files. NotFound, also when it is deleted twice."""
        record = await self._rows.get(tenant, container_id)
        if record is None or record.status == "deleted":
            raise no_container(container_id)
        await self._here(record)
        await self._reaper.delete(container_id)

    @asynccontextmanager
    async def lease(self, tenant: str, container_id: str, *, run: str | None = None) -> AsyncIterator[Lease]:
        """Use a container. Its box is found or booted before the block begins, and the container does not expire within. `run` is the
        response whose secrets its commands get.

        Raises NotFound, RequestInvalid `container_expired`, BootFailed, OfferMissing, RuntimeUnavailable. A box that dies within
        makes commands end as Lost; the next lease gets a new one on the same files and says so in `note`.
        """
        used = (await self.require_running(tenant, container_id)).last_active_at
        box = self._boxes.of(container_id)
        box.leases += 1
        try:
            async with AsyncExitStack() as stack:
                if Offer.CONCURRENT not in self._runtime.offers:
                    await stack.enter_async_context(box.turn)
                await self.admission.take(container_id, tenant)
                try:
                    lease = await self._enter(tenant, container_id, run)
                except BaseException:
                    if box.sandbox is None:
                        self.admission.leave(container_id)
                    raise
                yield lease
        finally:
            box.leases -= 1
            if box.leases == 0:
                self.admission.rest(container_id)
            # A failing store is reported by the next write; raised here it would hide how the block ended.
            if self._clock.now() - used >= FRESH:
                with anyio.move_on_after(CLOSING, shield=True), suppress(StoreError):
                    await self._rows.touch(container_id, self._clock.now())

    async def capture(self, tenant: str, container_id: str, response_id: str, exec_id: str) -> CaptureResult:
        """Record what changed among a container's files, without a lease. As `require_running` and `ContainerFileService.capture`."""
        record = await self.require_running(tenant, container_id)
        return await self.files.capture(record, response_id=response_id, exec_id=exec_id)

    async def reap_once(self) -> tuple[str, ...]:
        """One round of the reaper. See `ContainerReaper.reap_once`."""
        return await self._reaper.reap_once()

    async def _enter(self, tenant: str, container_id: str, run: str | None) -> Lease:
        async with self._boxes.of(container_id).booting() as booting:
            record = await self._still_running(tenant, container_id)
            if record.boot_id is None and record.source_response_id is not None:
                await self._quotas.allow_container(tenant)  # before it boots; what holds is decided once it has
            entered = await booting.enter(record)
        note = lost_box(await self.files.count_missing(record)) if entered.lost_before else None
        shell = await self.secrets.screened(entered.shell, container_id)
        env = self.secrets.environment(container_id, run)
        return Lease(record=record, shell=shell, note=note, file_service=self.files, env=env)

    async def _put_to_sleep(self, container_id: str) -> bool:
        return await self._reaper.put_to_sleep(container_id)  # which is made with what asks this

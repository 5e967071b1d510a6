"""The containers of a home that no gateway uses: their boxes booted, their files given out, removed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from limpet.config import Config
from limpet.containers.manager import ContainerManager
from limpet.containers.network_grants import NetworkGrants
from limpet.core.errors import NotFound
from limpet.server.gateway import sealer_of
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.database import Database
from limpet.store.home import HomeLock, prepare_home
from limpet.wiring.gateway import runtime_of, settings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeContainers:
    """Every tenant's containers, for the operator."""

    rows: Containers
    manager: ContainerManager

    async def find(self, container_id: str) -> ContainerRecord:
        """The container of any tenant. Raises NotFound, also once it was deleted."""
        record = await self.rows.get_any(container_id)
        if record is None or record.status == "deleted":
            raise NotFound(f"There is no container {container_id}.")
        return record


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[HomeContainers]:
    """See `wiring.open_containers`."""
    runtime = runtime_of(config)
    settings = settings_of(config, runtime)
    prepare_home(config.home)
    async with (
        HomeLock(config.home),
        Database(settings.database, home=config.home) as database,
        runtime,
        ContainerManager(
            runtime,
            database,
            home=config.home,
            settings=settings.containers,
            # No command of theirs is run here: no secret of the operator's is needed.
            limits=replace(settings.tools.shell_limits, allowed_domain_secrets={}),
            box=settings.box,
            rules=settings.rules,
            host=settings.container_host,
            grants=NetworkGrants.of(settings.tools.shell_limits, settings.host_services),
            sealer=sealer_of(settings),
        ) as manager,
    ):
        yield HomeContainers(rows=Containers(database), manager=manager)


async def boot(config: Config, container_id: str) -> str | None:
    """See `wiring.boot_box`."""
    async with opened(config) as containers:
        record = await containers.find(container_id)
        async with containers.manager.lease(record.tenant, container_id) as lease:
            return lease.note

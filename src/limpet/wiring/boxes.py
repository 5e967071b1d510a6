"""A container's box, booted while no gateway runs."""

from limpet.config import Config
from limpet.containers.manager import ContainerManager
from limpet.core.errors import NotFound
from limpet.store.containers import Containers
from limpet.store.database import Database
from limpet.store.home import HomeLock, prepare_home
from limpet.wiring.gateway import runtime_of, settings_of


async def boot(config: Config, container_id: str) -> str | None:
    """See `wiring.boot_box`."""
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
            limits=settings.limits,
            box=settings.box,
        ) as manager,
    ):
        record = await Containers(database).get_any(container_id)
        if record is None:
            raise NotFound(f"There is no container {container_id}.")
        async with manager.lease(record.tenant, container_id) as lease:
            return lease.note

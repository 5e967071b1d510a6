"""The keys of a gateway, as its operator sees them; the gateway may serve meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from limpet.config import Config
from limpet.store.database import Database
from limpet.store.home import prepare_home
from limpet.store.keys import ApiKeys


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[ApiKeys]:
    """See `wiring.open_keys`."""
    prepare_home(config.home)
    async with Database(config.database, home=config.home) as database:
        yield ApiKeys(database)

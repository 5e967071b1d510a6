from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.containers.manager import ContainerManager
from limpet.core.ports import Runtime
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.store.database import Database
from limpet.store.settings import DatabaseSettings
from tests.containers.turned import TurnedClock


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(DatabaseSettings(), home=tmp_path) as opened:
        yield opened


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with LocalRuntime() as opened:
        yield opened


@pytest.fixture
async def containers(
    runtime: Runtime, db: Database, tmp_path: Path, clock: TurnedClock
) -> AsyncIterator[ContainerManager]:
    async with ContainerManager(runtime, db, home=tmp_path, clock=clock) as manager:
        yield manager

"""What the tests of the store share: an open database, once in a file and once in memory, and records to put into it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from limpet.store.database import Database
from limpet.store.journal import Journal
from limpet.store.settings import DatabaseSettings
from tests.store.disk import Disk, small_disk


@pytest.fixture(params=["file", "memory"])
async def db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    url = "" if request.param == "file" else "sqlite::memory:"
    async with Database(DatabaseSettings(url=url), home=tmp_path) as db:
        yield db


@pytest.fixture
async def journal(db: Database) -> AsyncIterator[Journal]:
    async with Journal(db) as journal:
        yield journal


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path) as disk:
        yield disk

"""What the tests of the store share: an open database, in a file, in memory and on PostgreSQL, and records to put into it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from limpet.store.database import Database
from limpet.store.journal import Journal
from limpet.store.settings import DatabaseSettings
from tests.store.disk import Disk, small_disk


@pytest.fixture(params=["file", "memory", "postgres"])
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "postgres":
        with request.getfixturevalue("postgres").database() as url:
            yield url
    else:
        yield "" if request.param == "file" else "sqlite::memory:"


@pytest.fixture
async def db(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(DatabaseSettings(url=database_url), home=tmp_path) as db:
        yield db


@pytest.fixture
async def journal(db: Database) -> AsyncIterator[Journal]:
    async with Journal(db) as journal:
        yield journal


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path) as disk:
        yield disk

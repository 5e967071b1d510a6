"""Containers of a gateway that is gone: each comes with all its copies, or stays where it is."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from limpet.containers.manager import ContainerManager
from limpet.containers.nodes import NodeDirectory
from limpet.core.clock import MICROSECONDS, SystemClock
from limpet.core.errors import Overloaded, StoreFailed
from limpet.core.ports import Runtime
from limpet.store.blob_locations import Directory, InDatabase
from limpet.store.blob_storage import BlobStorage, StorageSettings
from limpet.store.blobs_database import DatabaseBlobs
from limpet.store.blobs_filesystem import FilesystemBlobs
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.database import Database
from limpet.store.files import ContainerFiles
from limpet.store.home import home_id
from limpet.store.nodes import Nodes
from limpet.store.settings import DatabaseSettings
from tests.store.samples import a_container, a_file

pytestmark = pytest.mark.anyio
SILENCE = 60.0


async def nothing() -> None:
    pass


class WatchedBlobs(DatabaseBlobs):
    """Something happens before each read."""

    before_read: Callable[[], Awaitable[None]] = staticmethod(nothing)

    async def read(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        await self.before_read()
        async for piece in super().read(key, start=start, length=length):
            yield piece


@dataclass(frozen=True)
class LostGateway:
    """It is silent, and had one container with one file."""

    db: Database
    nodes: Nodes
    blobs: WatchedBlobs
    manager: ContainerManager
    container: ContainerRecord
    directory: Path

    async def speak(self) -> None:
        await self.nodes.announce("away", address=None, at=SystemClock().now())

    async def row(self) -> ContainerRecord | None:
        return await Containers(self.db).get_any(self.container.id)


@pytest.fixture
async def lost(postgres: Any, runtime: Runtime, tmp_path: Path) -> AsyncIterator[LostGateway]:
    async def data() -> AsyncIterator[bytes]:
        yield b"data"

    clock = SystemClock()
    with postgres.database() as url:
        async with Database(DatabaseSettings(url=url), home=tmp_path) as db:
            blobs, nodes = WatchedBlobs(db), Nodes(db)
            settings = StorageSettings(
                places={"files": Directory(), "container_files": InDatabase()},
                open_place=lambda place, _: blobs if place == InDatabase() else FilesystemBlobs(tmp_path / "blobs"),
            )
            directory = NodeDirectory(nodes, home=home_id(tmp_path), address=None, silence=SILENCE, clock=clock)
            async with (
                BlobStorage(db, settings) as copies,
                ContainerManager(runtime, db, home=tmp_path, copies=copies, nodes=directory) as manager,
            ):
                now = clock.now()
                made = await Containers(db, home="away").insert(a_container(boot_id="b", last_active_at=now))
                async with copies.put(data(), tenant="default", area="container_files") as blob:
                    await ContainerFiles(db).upsert(a_file(made.id, bytes=4, sha256=blob.sha256, blob=blob.id))
                await nodes.announce("away", address=None, at=now - int(2 * SILENCE) * MICROSECONDS)
                yield LostGateway(db, nodes, blobs, manager, made, tmp_path / "boxes" / made.id)


async def test_it_stays_while_its_copies_cannot_be_read_and_comes_whole_after(lost: LostGateway) -> None:
    async def fail() -> None:
        raise StoreFailed("The bucket did not answer in time.")

    lost.blobs.before_read = fail
    with pytest.raises(Overloaded) as refused:
        await lost.manager.elsewhere("default", lost.container.id)
    assert refused.value.code == "container_files_unavailable"
    assert await lost.row() == lost.container
    assert not lost.directory.exists()

    lost.blobs.before_read = nothing
    assert await lost.manager.elsewhere("default", lost.container.id) is None
    assert (lost.directory / "data" / "a").read_bytes() == b"data"


async def test_it_stays_with_a_gateway_that_comes_back_meanwhile(lost: LostGateway) -> None:
    lost.blobs.before_read = lost.speak
    problem = await lost.manager.elsewhere("default", lost.container.id)
    assert problem is not None
    assert problem.home == "away"
    assert await lost.row() == lost.container
    assert not lost.directory.exists()


async def test_a_use_meanwhile_lets_its_files_be_read_again(lost: LostGateway) -> None:
    uses: list[ContainerRecord | None] = []

    async def use() -> None:
        if not uses:
            later = lost.container.last_active_at + MICROSECONDS
            uses.append(await Containers(lost.db).use("default", lost.container.id, later))

    lost.blobs.before_read = use
    assert await lost.manager.elsewhere("default", lost.container.id) is None
    moved = await lost.row()
    assert moved is not None
    assert uses[0] is not None
    assert (moved.home, moved.last_active_at) == (home_id(lost.directory.parents[1]), uses[0].last_active_at)
    assert (lost.directory / "data" / "a").read_bytes() == b"data"

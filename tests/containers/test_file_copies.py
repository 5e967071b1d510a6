"""Captured files that lie only in their containers' directories are copied when captured bytes are to be kept elsewhere."""

from pathlib import Path

import pytest

from limpet.containers.file_copies import copy_captured
from limpet.store.blob_storage import BlobStorage, kept_in
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.database import Database
from limpet.store.files import ContainerFileRecord, ContainerFiles
from limpet.store.settings import DatabaseSettings
from tests.store.samples import a_container, a_file

pytestmark = pytest.mark.anyio
SHA256_OF_DATA = "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7"


async def a_captured_file(db: Database, home: Path, name: str, **given: object) -> ContainerFileRecord:
    container: ContainerRecord = await Containers(db).insert(a_container())
    directory = home / "boxes" / container.id / "data"
    directory.mkdir(parents=True)
    (directory / name).write_text("data")
    record = a_file(container.id, f"/mnt/data/{name}", bytes=4, sha256=SHA256_OF_DATA, **given)
    return await ContainerFiles(db).upsert(record)


async def blob_of(db: Database, row: ContainerFileRecord) -> str | None:
    found = await ContainerFiles(db).get(row.tenant, row.container_id, row.id)
    assert found is not None
    return found.blob


async def test_each_is_copied_once_and_goes_with_its_row(tmp_path: Path) -> None:
    async with Database(DatabaseSettings(), home=tmp_path) as db, BlobStorage(db, kept_in(tmp_path)) as blob_storage:
        row = await a_captured_file(db, tmp_path, "a b.txt")

        assert [len(await copy_captured(db, blob_storage, home=tmp_path)) for _ in range(2)] == [1, 0]

        blob = await blob_of(db, row)
        assert blob is not None
        assert b"".join([piece async for piece in blob_storage.read(blob)]) == b"data"
        await ContainerFiles(db).delete(row.container_id, row.id)
        await blob_storage.sweep()
        assert not await blob_storage.exists(blob)


async def test_what_changed_went_or_was_never_kept_is_left_alone(tmp_path: Path) -> None:
    async with Database(DatabaseSettings(), home=tmp_path) as db, BlobStorage(db, kept_in(tmp_path)) as blob_storage:
        changed = await a_captured_file(db, tmp_path, "changed")
        gone = await a_captured_file(db, tmp_path, "gone")
        link = await a_captured_file(db, tmp_path, "link")
        await a_captured_file(db, tmp_path, "large", too_large=True)
        data = {row.path: tmp_path / "boxes" / row.container_id / "data" for row in (changed, gone, link)}
        (data[changed.path] / "changed").write_text("DATA")
        (data[gone.path] / "gone").unlink()
        (data[link.path] / "link").unlink()
        (tmp_path / "outside").write_text("data")
        (data[link.path] / "link").symlink_to(tmp_path / "outside")

        assert await copy_captured(db, blob_storage, home=tmp_path) == []

        assert [await blob_of(db, row) for row in (changed, gone, link)] == [None, None, None]


async def test_a_file_that_is_captured_anew_lets_its_old_copy_go(tmp_path: Path) -> None:
    async with Database(DatabaseSettings(), home=tmp_path) as db, BlobStorage(db, kept_in(tmp_path)) as blob_storage:
        row = await a_captured_file(db, tmp_path, "a")
        await copy_captured(db, blob_storage, home=tmp_path)
        blob = await blob_of(db, row)
        assert blob is not None
        again = await ContainerFiles(db).upsert(a_file(row.container_id, row.path, bytes=4, sha256="0" * 64))
        await blob_storage.sweep()
        assert (again.id, await blob_storage.exists(blob)) == (row.id, False)

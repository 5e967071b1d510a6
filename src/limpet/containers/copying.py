"""Copies captured files that lie only in their containers' directories to where the settings keep captured bytes."""

from pathlib import Path

from limpet.containers.boxes import ROOTS, directory_of
from limpet.containers.files import DATA
from limpet.core.errors import FileError
from limpet.core.ports import Files
from limpet.runtimes.hostfiles import HostFiles
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.database import Database
from limpet.store.files import ContainerFileRecord, ContainerFiles
from limpet.store.vault import Vault


async def copy_captured(db: Database, vault: Vault, *, home: Path) -> int:
    """Copy them, of every running container; how many were. A file that changed since it was captured is left to the next capture.

    May be broken off and begun again; a gateway may serve meanwhile. StoreError."""
    rows = ContainerFiles(db)
    copied = 0
    for container in await Containers(db).running():
        files = _files(container, home)
        for row in await rows.of_container(container.id):
            if row.blob is None and not row.too_large and await _copied(rows, vault, files, row):
                copied += 1
    return copied


async def _copied(rows: ContainerFiles, vault: Vault, files: Files, row: ContainerFileRecord) -> bool:
    try:
        async with vault.put(
            files.stream(row.path, length=row.bytes), tenant=row.tenant, area="container_files"
        ) as blob:
            return blob.sha256 == row.sha256 and await rows.attach(row, blob.id)
    except FileError:
        return False  # it went away, or something else stands in its place


def _files(container: ContainerRecord, home: Path) -> Files:
    return HostFiles({DATA: directory_of(container, home / "boxes") / ROOTS[DATA]}, container.user_id)

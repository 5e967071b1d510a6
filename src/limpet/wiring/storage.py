"""From the operator's settings to the places that keep bytes. What reaches a kind of place is loaded when one is used."""

from functools import partial
from pathlib import Path

from limpet import wiring
from limpet.config import Config
from limpet.config.storage import ContainerFiles, Files
from limpet.containers.file_copies import copy_captured
from limpet.core.errors import PlaceUnusable
from limpet.core.secret import Secret
from limpet.store.blob_locations import Bucket, Directory, InDatabase, Place
from limpet.store.blob_migration import Progress, Tell, move
from limpet.store.blob_storage import BlobStorage, StorageSettings
from limpet.store.blobs import Blobs
from limpet.store.blobs_filesystem import DIRECTORY
from limpet.store.database import Database
from limpet.store.home import HomeLock, prepare_home
from limpet.wiring.logs import protect_secrets

BLOBS = {
    "filesystem": "limpet.store.blobs_filesystem:FilesystemBlobs",
    "database": "limpet.store.blobs_database:DatabaseBlobs",
    "s3": "limpet.store.blobs_s3:S3Blobs",
}
EARLIER = ""  # a bucket that no section names any more
Keys = tuple[Secret | None, Secret | None]


def storage_of(config: Config) -> StorageSettings:
    """Where bytes go, as the file's sections say."""
    storage = config.storage
    keys: dict[str, Keys] = {
        section.bucket or EARLIER: (section.access_key_id, section.secret_access_key)
        for section in (storage.files, storage.container_files)
        if section.bucket is not None or section.access_key_id is not None
    }
    return StorageSettings(
        places={"files": place_of(storage.files), "container_files": _beside_boxes(storage.container_files)},
        open_place=partial(_blobs, home=config.home, keys=keys),
        max_file_bytes=storage.files.max_file_bytes,
    )


async def move_all(config: Config, tell: Tell) -> Progress:
    """See `wiring.move_storage`."""
    protect_secrets(config)
    settings = storage_of(config)
    prepare_home(config.home)
    async with (
        HomeLock(config.home, name="storage.lock"),
        Database(config.database, home=config.home) as database,
        BlobStorage(database, settings, is_serving=False) as blob_storage,
    ):
        progress = Progress()
        for area, place in settings.places.items():
            progress = await move(blob_storage, area, place, tell=tell, begun=progress)
        if config.storage.container_files.backend != "filesystem":
            copied = await copy_captured(database, blob_storage, home=config.home)
            count, size = len(copied), sum(row.bytes for row in copied)
            progress = Progress(
                moved=progress.moved + count,
                bytes=progress.bytes + size,
                all=progress.all + count,
                all_bytes=progress.all_bytes + size,
                failed=progress.failed,
            )
            tell(progress)
        return progress


def place_of(section: Files) -> Place:
    """Where new bytes of a section go."""
    match section.backend:
        case "s3":
            return Bucket(
                bucket=section.bucket or "", prefix=section.prefix, endpoint=section.endpoint, region=section.region
            )
        case "database":
            return InDatabase()
        case _:
            return Directory(section.path)


def _beside_boxes(section: ContainerFiles) -> Place:
    """The same; in a directory that holds boxes, copies that were moved there have one of their own."""
    place = place_of(section)
    return Directory(place.path / DIRECTORY) if isinstance(place, Directory) and place.path is not None else place


def _blobs(place: Place, database: Database, *, home: Path, keys: dict[str, Keys]) -> Blobs:
    match place:
        case Directory(path=path):
            blobs: Blobs = wiring.load(BLOBS["filesystem"])(path or home / DIRECTORY)
        case InDatabase():
            blobs = wiring.load(BLOBS["database"])(database)
        case Bucket():
            # A bucket of earlier settings, which name it no more, is read with the keys that stayed, else the environment's.
            access_key_id, secret_access_key = keys.get(place.bucket) or keys.get(EARLIER) or (None, None)
            try:
                made = wiring.load(BLOBS["s3"])
            except ModuleNotFoundError as error:
                remedy = 'Install it: pip install "limpet[s3]".'
                raise PlaceUnusable(place.bucket, "The package obstore is missing.", remedy) from error
            blobs = made(place, access_key_id=access_key_id, secret_access_key=secret_access_key)
    return blobs

"""What the sections of [storage] mean together: which keys belong to which backend, and what one section takes from the other."""

from collections.abc import Iterator
from dataclasses import replace

from limpet.config.sections import ContainerFiles, Files, Storage

# With another backend too: what was kept in a bucket before is read and moved back with them.
KEYS = ("access_key_id", "secret_access_key")
OF_A_BUCKET = ("bucket", "region", "endpoint", "prefix")


def settled(storage: Storage) -> Storage:
    """With a backend for uploaded files too: that of the container files and its bucket, where the file names none. Not a path:
    a directory of container files holds boxes."""
    if storage.files.backend is not None:
        return storage
    like = {key: getattr(storage.container_files, key) for key in ("backend", *OF_A_BUCKET, *KEYS)}
    return replace(storage, files=replace(storage.files, **like))


def conflicts(storage: Storage) -> Iterator[tuple[str, str]]:
    """Each key that does not fit the others, and why. Of the sections as they were written."""
    yield from _of("storage.container_files", storage.container_files)
    if storage.files.backend is not None:
        yield from _of("storage.files", storage.files)
        return
    for key in ("path", *OF_A_BUCKET, *KEYS):
        if getattr(storage.files, key):
            yield f"storage.files.{key}", "says nothing without storage.files.backend; write that too"


def _of(section: str, keys: ContainerFiles | Files) -> Iterator[tuple[str, str]]:
    if keys.backend != "filesystem" and keys.path is not None:
        yield f"{section}.path", f'is for backend = "filesystem"; with "{keys.backend}" leave it out'
    if bool(keys.access_key_id) != bool(keys.secret_access_key):
        yield (
            f"{section}.secret_access_key",
            "access_key_id and secret_access_key come together; write both, or none and set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY in the environment",
        )
    if keys.backend == "s3":
        if not keys.bucket:
            yield f"{section}.bucket", 'is missing; backend = "s3" keeps files in a bucket'
        if keys.endpoint is not None and not keys.endpoint.startswith(("http://", "https://")):
            yield f"{section}.endpoint", "should be an address such as https://objects.example.com"
        if keys.endpoint is not None and "@" in keys.endpoint:
            yield f"{section}.endpoint", "has no place for a user; write access_key_id and secret_access_key"
        return
    for key in OF_A_BUCKET:
        if getattr(keys, key):
            yield f"{section}.{key}", f'is for backend = "s3"; with "{keys.backend}" leave it out'

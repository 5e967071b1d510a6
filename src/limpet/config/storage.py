"""`[storage]`: its sections, which keys belong to which backend, and what one section takes from the other."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from limpet.core.secret import Secret
from limpet.core.settings import MIB, Positive

Backend = Literal["filesystem", "database", "s3"]
# With another backend too: what was kept in a bucket before is read and moved back with them.
KEYS = ("access_key_id", "secret_access_key")
OF_A_BUCKET = ("bucket", "region", "endpoint", "prefix")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """`path` is None for the home directory; `backend` None is that of the container files, bucket and all. The others are a
    bucket's; keys that are None come from the environment."""

    backend: Backend | None = None
    path: Path | None = None
    bucket: str | None = None
    region: str | None = None
    endpoint: str | None = None
    prefix: str = ""
    access_key_id: Secret | None = None
    secret_access_key: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFiles(Files):
    """Where captured files are kept."""

    backend: Backend = "filesystem"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFiles(Files):
    """Where uploaded files are kept, and how large one may be."""

    max_file_bytes: Positive = 2048 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Both sections."""

    container_files: ContainerFiles = field(default_factory=ContainerFiles)
    files: UploadedFiles = field(default_factory=UploadedFiles)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`. Of the sections as they were written."""
        yield from _of("container_files", self.container_files)
        if self.files.backend is not None:
            yield from _of("files", self.files)
            return
        for key in ("path", *OF_A_BUCKET, *KEYS):
            if getattr(self.files, key):
                yield f"files.{key}", "says nothing without storage.files.backend; write that too"


def settled(storage: Storage) -> Storage:
    """With a backend for uploaded files too: that of the container files and its bucket, where the file names none. Not a path:
    a directory of container files holds boxes."""
    if storage.files.backend is not None:
        return storage
    like = {key: getattr(storage.container_files, key) for key in ("backend", *OF_A_BUCKET, *KEYS)}
    return replace(storage, files=replace(storage.files, **like))


def _of(section: str, keys: Files) -> Iterator[tuple[str, str]]:
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

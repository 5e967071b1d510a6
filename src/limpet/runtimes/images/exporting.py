"""Writes a stored image as an OCI archive, which any tool of images reads."""

import io
import json
import os
import tarfile
from pathlib import Path

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.images.blobs import MAKING
from limpet.runtimes.images.documents import MANIFEST, architecture
from limpet.runtimes.images.store import ImageStore, StoredImage


def export(store: ImageStore, image: StoredImage, file: Path) -> None:
    """Into a new file, whole or not at all. Raises ImageUnusable where there is one, or a part is missing; OSError. Blocking."""
    if os.path.lexists(file):
        raise ImageUnusable(f"{file} is there already", image=image.name)
    made = file.with_name(f"{MAKING}{os.getpid()}-{file.name}")
    try:
        with tarfile.open(made, "w", format=tarfile.PAX_FORMAT) as tar:
            _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
            _add(tar, "index.json", _index(store, image))
            for digest in dict.fromkeys((image.id, image.config, *image.layers)):
                if not store.blobs.has(digest):
                    raise ImageUnusable(f"its part {digest} is not here any more", image=image.name)
                _add_file(tar, f"blobs/{digest.replace(':', '/')}", store.blobs.path(digest))
        made.rename(file)
    finally:
        made.unlink(missing_ok=True)


def _index(store: ImageStore, image: StoredImage) -> bytes:
    entry = {
        "mediaType": MANIFEST,
        "digest": image.id,
        "size": store.blobs.path(image.id).stat().st_size,
        "platform": {"os": "linux", "architecture": architecture()},
    }
    return json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size = len(content)
    tar.addfile(about, io.BytesIO(content))


def _add_file(tar: tarfile.TarFile, name: str, path: Path) -> None:
    about = tarfile.TarInfo(name)
    about.size = path.stat().st_size
    with open(path, "rb") as content:
        tar.addfile(about, content)

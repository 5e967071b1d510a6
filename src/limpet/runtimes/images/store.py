"""The images of a home, below `LIMPET_HOME/images`: their parts by digest, and a root file system of each, unpacked once.

    blobs/sha256/HEX    manifests, configurations and compressed layers
    roots/HEX           the root file system of the image whose manifest has that digest; there when it is whole
    about/HEX.json      its layers and its variables
    names/HEX.json      which image a name stands for
    lock                held by what changes any of it

What begins with `making-` was not finished: it belongs to the holder of the lock, and is removed by the next one.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.images.blobs import MAKING, ImageBlobs
from limpet.runtimes.images.bounds import ImageBounds

ID = "sha256:"
_SHORTEST_ID = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image that can be shown to boxes. `id` is the digest of its manifest, `size` what its layers take up as they came."""

    id: str
    root: Path
    name: str = ""
    config: str = ""
    layers: tuple[str, ...] = ()
    size: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)


class ImageStore:
    """All methods block, and raise OSError where the disk refuses."""

    def __init__(self, home: Path, *, bounds: ImageBounds | None = None) -> None:
        self.directory = home / "images"
        self.bounds = bounds or ImageBounds()
        self.blobs = ImageBlobs(self.directory / "blobs")

    def find(self, name: str, *, fingerprint: object = None) -> StoredImage | None:
        """By its name, or by its id or the beginning of that. With a `fingerprint`, only if the name was given with the same."""
        said = _read(self._name_file(name))
        if said is not None:
            if fingerprint is not None and said.get("fingerprint") != fingerprint:
                return None
            return self._about(str(said.get("id")), name)
        prefix = name.removeprefix(ID)
        if (
            fingerprint is not None
            or len(prefix) < _SHORTEST_ID
            or any(one not in "0123456789abcdef" for one in prefix)
        ):
            return None
        found = [path.name for path in _entries(self.directory / "roots") if path.name.startswith(prefix)]
        return self._about(f"{ID}{found[0]}", "") if len(found) == 1 else None

    def all(self) -> list[StoredImage]:
        """By their names; those that have none at the end."""
        named = []
        for path in _entries(self.directory / "names"):
            said = _read(path)
            if said is not None and (image := self._about(str(said["id"]), str(said["name"]))) is not None:
                named.append(image)
        known = {image.id for image in named}
        hidden = (f"{ID}{path.name}" for path in _entries(self.directory / "roots") if not path.name.startswith(MAKING))
        nameless = [image for id in hidden if id not in known and (image := self._about(id, "")) is not None]
        return sorted(named, key=lambda image: image.name) + nameless

    @contextmanager
    def changing(self) -> Iterator[None]:
        """For the one caller that changes what is stored: waits for others, and clears what one that was killed has left."""
        for path in (self.directory, self.directory / "names", self.directory / "about", self.directory / "roots"):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o755)
        with open(self.directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._clear()
            yield

    @contextmanager
    def room(self) -> Iterator[Path]:
        """A directory to work in, for the holder of the lock; gone at the end."""
        made = Path(tempfile.mkdtemp(prefix=MAKING, dir=self.directory / "roots"))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def keep(self, image: StoredImage, made: Path) -> StoredImage:
        """Put a root file system that was made in a `room` in its place. Returns the image as it is stored."""
        about = {
            "config": image.config,
            "layers": image.layers,
            "size": image.size,
            "environment": dict(image.environment),
        }
        _write(self._about_file(image.id), about)
        place = self._root(image.id)
        if not place.is_dir():
            made.rename(place)
        return StoredImage(
            id=image.id, root=place, name=image.name, config=image.config, layers=image.layers, size=image.size,
            environment=image.environment,
        )  # fmt: skip

    def call(self, name: str, image: StoredImage, *, fingerprint: object = None) -> None:
        """Let the name stand for that image."""
        _write(self._name_file(name), {"name": name, "id": image.id, "fingerprint": fingerprint})

    def forget(self, name: str) -> None:
        """The name stands for nothing any more. Quiet where it did not."""
        self._name_file(name).unlink(missing_ok=True)

    def remove(self, image: StoredImage) -> None:
        """Its names, root file system, and the parts that no other image has."""
        for path in _entries(self.directory / "names"):
            if (said := _read(path)) is None or said.get("id") == image.id:
                path.unlink()
        gone = Path(tempfile.mkdtemp(prefix=MAKING, dir=self.directory / "roots"))
        if image.root.is_dir():
            image.root.rename(gone / "root")
        self._about_file(image.id).unlink(missing_ok=True)
        shutil.rmtree(gone, ignore_errors=True)
        self.remove_unused_blobs()

    def remove_unused_blobs(self) -> int:
        """Parts that no image has. Returns how many bytes that were."""
        used = {digest for image in self.all() for digest in (image.id, image.config, *image.layers)}
        freed = 0
        for digest in self.blobs.all():
            if digest not in used:
                freed += self.blobs.path(digest).stat().st_size
                self.blobs.path(digest).unlink()
        return freed

    def _about(self, id: str, name: str) -> StoredImage | None:
        root, said = self._root(id), _read(self._about_file(id))
        if said is None or not root.is_dir():
            return None
        return StoredImage(
            id=id, root=root, name=name, config=said["config"], layers=tuple(said["layers"]), size=said["size"],
            environment=said["environment"],
        )  # fmt: skip

    def _clear(self) -> None:
        for place in (
            self.directory / "roots",
            self.blobs.directory,
            self.directory / "names",
            self.directory / "about",
        ):
            for path in _entries(place):
                if path.name.startswith(MAKING):
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def _root(self, id: str) -> Path:
        return self.directory / "roots" / id.removeprefix(ID)

    def _about_file(self, id: str) -> Path:
        return self.directory / "about" / f"{id.removeprefix(ID)}.json"

    def _name_file(self, name: str) -> Path:
        return self.directory / "names" / f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}.json"


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, document: Mapping[str, object]) -> None:
    """Whole, or not at all."""
    made = path.with_name(f"{MAKING}{path.name}")
    made.write_text(json.dumps(document))
    made.rename(path)


def required(image: StoredImage | None, name: str) -> StoredImage:
    """The image. Raises ImageUnusable where there is none."""
    if image is None:
        raise ImageUnusable(f"it is not here; `limpet images pull {name}` brings it", image=name)
    return image

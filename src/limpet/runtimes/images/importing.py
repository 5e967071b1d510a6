"""Takes an image into the store: from an OCI layout, an OCI or docker archive, or a tar of a root file system."""

import tarfile
from collections.abc import Sequence
from pathlib import Path

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.images import documents
from limpet.runtimes.images.blobs import stat_of
from limpet.runtimes.images.documents import Descriptor, ImageConfig
from limpet.runtimes.images.layer_stream import layer_stream
from limpet.runtimes.images.members import next_member
from limpet.runtimes.images.sources import MOST_NAMES, DirectoryParts, ImageParts, PulledParts, archive, open_regular
from limpet.runtimes.images.store import ImageStore, StoredImage
from limpet.runtimes.images.unpacking import unpack

LAYOUT = "index.json"
_DOCKER = PULLED = "manifest.json"
_DEEPEST_INDEX = 4


class ImageImport:
    """Into one store, by the holder of its lock. Blocking. Every method raises ImageUnusable, and OSError where the disk refuses."""

    def __init__(self, store: ImageStore) -> None:
        self._store = store
        self._bounds = store.bounds

    def from_path(self, path: Path, name: str) -> StoredImage:
        """From a layout directory or a file, under that name."""
        image = self.from_layout(DirectoryParts(path)) if path.is_dir() else self._from_file(path)
        self._store.call(name, image, fingerprint=fingerprint(path))
        return image

    def from_layout(self, parts: ImageParts) -> StoredImage:
        """From an OCI layout."""
        found = documents.chosen(documents.parsed(self._read(parts, LAYOUT), LAYOUT))
        for _ in range(_DEEPEST_INDEX):
            content = self._document(parts, found)
            manifest = documents.parsed(content, "its manifest")
            if not documents.is_index(manifest):
                break
            found = documents.chosen(manifest)
        else:
            raise ImageUnusable("its indexes lie in each other without end")
        return self._from_manifest(parts, content)

    def from_pulled(self, directory: Path) -> StoredImage:
        """From what `registry.pull` wrote."""
        parts = PulledParts(directory)
        return self._from_manifest(parts, self._read(parts, PULLED))

    def _from_manifest(self, parts: ImageParts, content: bytes) -> StoredImage:
        manifest = documents.parsed(content, "its manifest")
        described, layers = documents.parts_of(manifest, self._bounds.max_layers)
        config = documents.config_of(
            documents.parsed(self._document(parts, described), "its configuration"), len(layers)
        )
        kept = [self._layer(parts, layer) for layer in layers]
        return self._unpacked(self._store.blobs.put(content), described, kept, config)

    def _from_file(self, path: Path) -> StoredImage:
        names = self._names(path)
        if len(names) == MOST_NAMES or (LAYOUT not in names and _DOCKER not in names):
            return self._from_root(path)
        with archive(path) as parts:
            return self.from_layout(parts) if LAYOUT in names else self._from_docker(parts)

    def _names(self, path: Path) -> set[str]:
        """The first names of a tar, read as a layer is: no bomb is unpacked for them."""
        open_regular(path, str(path)).close()
        found: set[str] = set()
        with layer_stream(path, self._bounds) as stream:
            try:
                with tarfile.open(fileobj=stream, mode="r:", errors="surrogateescape") as tar:  # type: ignore[call-overload]  # what it uses of a file
                    while len(found) < MOST_NAMES and (member := next_member(tar, stream)) is not None:
                        found.add(member.name.removeprefix("./"))
            except (tarfile.TarError, RecursionError, ValueError, OverflowError) as error:
                raise ImageUnusable(f"it is no tar that can be read: {error}") from error
        return found

    def _from_docker(self, parts: ImageParts) -> StoredImage:
        """From what `docker save` writes: the layers have no digests of their own, only their tars."""
        said = documents.parsed(b'{"images": ' + self._read(parts, _DOCKER) + b"}", _DOCKER)["images"]
        if not isinstance(said, list) or len(said) != 1 or not isinstance(said[0], dict):
            raise ImageUnusable("it holds none or several images; save one")
        layers = said[0].get("Layers")
        if not isinstance(layers, list) or not 0 < len(layers) <= self._bounds.max_layers:
            raise ImageUnusable(f"it has no layers, or more than {self._bounds.max_layers}")
        content = self._read(parts, str(said[0].get("Config")))
        config = documents.config_of(documents.parsed(content, "its configuration"), len(layers))
        kept = []
        for layer in layers:
            with parts.open(str(layer)) as source:
                kept.append(self._store.blobs.take(source, None, self._bounds.max_bytes))
        described = self._store.blobs.put(content)
        manifest = self._store.blobs.put(documents.made_manifest(described, kept))
        return self._unpacked(manifest, described, kept, config)

    def _from_root(self, path: Path) -> StoredImage:
        """From a tar of a root file system, as one layer."""
        with open_regular(path, str(path)) as source:
            kept = self._store.blobs.take(source, None, self._bounds.max_bytes)
        with layer_stream(self._store.blobs.path(kept.digest), self._bounds) as stream:
            tar = stream.rest()
        described = self._store.blobs.put(documents.made_config([tar], {}))
        manifest = self._store.blobs.put(documents.made_manifest(described, [kept]))
        return self._unpacked(manifest, described, [kept], ImageConfig(diff_ids=(tar,)))

    def _layer(self, parts: ImageParts, layer: Descriptor) -> Descriptor:
        if self._store.blobs.has(layer.digest):
            return Descriptor(layer.digest, self._store.blobs.path(layer.digest).stat().st_size)
        with parts.open(layer.blob) as source:
            return self._store.blobs.take(source, layer, self._bounds.max_bytes)

    def _document(self, parts: ImageParts, wanted: Descriptor) -> bytes:
        """A part that is a document, as it is stored then. Its digest is that of what was read."""
        with parts.open(wanted.blob) as source:
            self._store.blobs.take(source, wanted, self._bounds.max_document)
        return self._store.blobs.path(wanted.digest).read_bytes()

    def _read(self, parts: ImageParts, name: str) -> bytes:
        with parts.open(name) as source:
            content = source.read(self._bounds.max_document + 1)
        if len(content) > self._bounds.max_document:
            raise ImageUnusable(f"{name} is too long")
        return content

    def _unpacked(
        self, manifest: Descriptor, config: Descriptor, layers: Sequence[Descriptor], said: ImageConfig
    ) -> StoredImage:
        """The image with its root file system, unpacked now where it is not there."""
        if (known := self._store.find(manifest.digest)) is not None:
            return known
        blobs = [self._store.blobs.path(layer.digest) for layer in layers]
        with self._store.room() as room:
            unpack(list(zip(blobs, said.diff_ids, strict=True)), room, self._bounds)
            image = StoredImage(
                id=manifest.digest,
                root=room,
                config=config.digest,
                layers=tuple(layer.digest for layer in layers),
                size=sum(layer.size or 0 for layer in layers),
                environment=said.environment,
            )
            return self._store.keep(image, room)


def fingerprint(path: Path) -> list[int]:
    """Tells whether what lies at a path is what was taken from there."""
    return list(stat_of(path / LAYOUT if path.is_dir() else path))

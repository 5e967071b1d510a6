"""The documents of an image (OCI image specification): indexes, manifests and configurations, chosen and checked. Pure."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limpet.core.image_errors import ImageUnusable

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
Json = Mapping[str, Any]


def architecture() -> str:
    """This machine's, by the name that images use."""
    machine = os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A part of an image by its digest, with its size in bytes where that is told."""

    digest: str
    size: int | None = None

    @property
    def blob(self) -> str:
        """Its name in a layout."""
        return f"blobs/{self.digest.replace(':', '/')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """What of a configuration matters here: the digests of the layers' tars, and the variables that its author set."""

    diff_ids: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def parsed(content: bytes, name: str) -> Json:
    """Raises ImageUnusable where it is no JSON object, as where a server answered with a page."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ImageUnusable(f"{name} is no JSON") from error
    if not isinstance(found, dict):
        raise ImageUnusable(f"{name} is no JSON object")
    return found


def digest_of(said: object, what: str) -> str:
    """Raises ImageUnusable for what is no sha256 digest: others are not known here."""
    if not isinstance(said, str) or _DIGEST.fullmatch(said) is None:
        raise ImageUnusable(f"the digest of {what} is {str(said)[:100]!r}, where sha256 is needed")
    return said


def descriptor(said: object, what: str) -> Descriptor:
    if not isinstance(said, Mapping):
        raise ImageUnusable(f"{what} is not described")
    size = said.get("size")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise ImageUnusable(f"the size of {what} is no number of bytes")
    return Descriptor(digest_of(said.get("digest"), what), size)


def is_index(document: Json) -> bool:
    return isinstance(document.get("manifests"), list)


def chosen(index: Json) -> Descriptor:
    """The manifest, or index, of an index that is for this machine. Raises ImageUnusable, naming those that there are."""
    entries = [one for one in index["manifests"] if isinstance(one, Mapping)]
    platforms = [_platform(one) for one in entries]
    wanted = f"linux/{architecture()}"
    fitting = [one for one, platform in zip(entries, platforms, strict=True) if platform == wanted]
    fitting = fitting or [one for one, platform in zip(entries, platforms, strict=True) if platform is None]
    found = {descriptor(one, "an image of an index").digest: one for one in fitting}
    if not found:
        there = ", ".join(sorted({platform for platform in platforms if platform is not None})) or "none"
        raise ImageUnusable(f"it is not there for {wanted}, only for: {there}")
    if len(found) > 1:
        said = [one.get("annotations") for one in found.values()]
        names = [one if isinstance(one, Mapping) else {} for one in said]
        told = ", ".join(str(name.get("org.opencontainers.image.ref.name", "one without a name")) for name in names)
        raise ImageUnusable(f"it holds several images ({told}); give a layout with one")
    return descriptor(next(iter(found.values())), "an image of an index")


def _platform(entry: Json) -> str | None:
    said = entry.get("platform")
    if not isinstance(said, Mapping) or said.get("os") == "unknown":
        return None if not isinstance(said, Mapping) else "unknown"
    return f"{said.get('os')}/{said.get('architecture')}"


def parts_of(manifest: Json, most_layers: int) -> tuple[Descriptor, tuple[Descriptor, ...]]:
    """A manifest's configuration and layers. Raises ImageUnusable."""
    layers = manifest.get("layers")
    if not isinstance(layers, list) or not layers:
        raise ImageUnusable("it has no layers, so it is no image of a root file system")
    if len(layers) > most_layers:
        raise ImageUnusable(f"it has more than {most_layers} layers")
    config = descriptor(manifest.get("config"), "its configuration")
    return config, tuple(descriptor(layer, "a layer") for layer in layers)


def config_of(document: Json, layers: int) -> ImageConfig:
    """What its configuration says, for that many layers. Raises ImageUnusable."""
    machine = document.get("architecture")
    if machine not in (None, "", architecture()):
        raise ImageUnusable(f"it is for {machine}, and this machine is {architecture()}")
    rootfs = document.get("rootfs")
    told = rootfs.get("diff_ids") if isinstance(rootfs, Mapping) else None
    said: Sequence[object] = told if isinstance(told, list) else ()
    if len(said) != layers:
        raise ImageUnusable(f"it has {layers} layers, and its configuration tells of {len(said)}")
    inner = document.get("config")
    given = inner.get("Env") if isinstance(inner, Mapping) else None
    pairs = (
        [one.partition("=") for one in given or () if isinstance(one, str)] if isinstance(given, list | None) else []
    )
    return ImageConfig(
        diff_ids=tuple(digest_of(one, "a layer's tar") for one in said),
        environment={name: value for name, _, value in pairs},
    )


def made_config(diff_ids: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """The configuration of an image that had none."""
    document = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Env": [f"{name}={value}" for name, value in environment.items()]},
        "rootfs": {"type": "layers", "diff_ids": list(diff_ids)},
    }
    return json.dumps(document, sort_keys=True).encode()


def made_manifest(config: Descriptor, layers: Sequence[Descriptor]) -> bytes:
    """The manifest of an image that had none."""
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "digest": config.digest, "size": config.size},
        "layers": [{"mediaType": LAYER, "digest": one.digest, "size": one.size} for one in layers],
    }
    return json.dumps(document, sort_keys=True).encode()

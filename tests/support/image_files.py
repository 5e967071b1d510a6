"""Images made by a test: layers as tars of whatever entries, in an OCI layout, an OCI archive or docker's."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from limpet.runtimes.images.documents import architecture

Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, to: str = "", mode: int = 0o644) -> Entry:
    about = tarfile.TarInfo(name)
    about.type, about.linkname, about.mode, about.size = kind, to, mode, len(content)
    return about, content


def directory(name: str, mode: int = 0o755) -> Entry:
    return entry(name, kind=tarfile.DIRTYPE, mode=mode)


def link(name: str, to: str) -> Entry:
    return entry(name, kind=tarfile.SYMTYPE, to=to)


def hard_link(name: str, to: str) -> Entry:
    return entry(name, kind=tarfile.LNKTYPE, to=to)


def layer(*entries: Entry) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for about, content in entries:
            tar.addfile(about, io.BytesIO(content))
    return made.getvalue()


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def config_of(layers: Sequence[bytes], *, env: Sequence[str] = (), machine: str | None = None) -> bytes:
    diff_ids = [digest(gzip.decompress(one) if one[:2] == b"\x1f\x8b" else one) for one in layers]
    about = {"architecture": machine or architecture(), "os": "linux", "config": {"Env": list(env)}}
    return json.dumps({**about, "rootfs": {"type": "layers", "diff_ids": diff_ids}}).encode()


def layout_files(
    layers: Sequence[bytes], *, config: bytes | None = None, machine: str | None = None, **more: object
) -> dict[str, bytes]:
    """The files of an OCI layout by their names."""
    config = config if config is not None else config_of(layers)
    described = [
        {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest(one), "size": len(one)}
        for one in layers
    ]
    about = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(config), "size": len(config)}
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": about, "layers": described}).encode()
    platform = {"os": "linux", "architecture": machine or architecture()}
    index = {"mediaType": kind, "digest": digest(manifest), "size": len(manifest), "platform": platform, **more}
    return {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [index]}).encode(),
        **{f"blobs/{digest(one).replace(':', '/')}": one for one in (config, manifest, *layers)},
    }


def docker_files(layers: Sequence[bytes]) -> dict[str, bytes]:
    """The files of what `docker save` writes."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": ["x:latest"], "Layers": names}]
    files = dict(zip(names, layers, strict=True))
    return {**files, "config.json": config_of(layers), "manifest.json": json.dumps(manifest).encode()}


def write_layout(place: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return place


def write_archive(place: Path, files: Mapping[str, bytes]) -> Path:
    place.write_bytes(layer(*(entry(name, content) for name, content in files.items())))
    return place


def root_layer(root: Path) -> bytes:
    """A directory as a layer."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.add(root, arcname=".")
    return made.getvalue()

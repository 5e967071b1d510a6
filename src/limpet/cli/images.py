"""`limpet images`: the images of a home are pulled, listed, shown, removed and exported."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from limpet.config import Config, load_config
from limpet.core.image_errors import ImageUnusable
from limpet.core.settings import image_path
from limpet.runtimes.bubblewrap.box_images import images_in_use
from limpet.runtimes.images.exporting import export
from limpet.runtimes.images.resolver import ImageResolver, is_root_directory
from limpet.runtimes.images.store import ImageStore, StoredImage, required

_SHOWN = 12  # digits of an id in a table


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageHome:
    """The home of these settings, with its store."""

    config: Config
    store: ImageStore

    @classmethod
    def of(cls, path: Path | None) -> "ImageHome":
        config = load_config(path)
        return cls(config=config, store=ImageStore(config.home))

    def find(self, name: str) -> StoredImage:
        """By its name, path or id. Raises ImageUnusable."""
        return required(self.store.find(str(image_path(name, Path.cwd()))) or self.store.find(name), name)


def pull(name: str, config: Path | None, *, plain_http: bool) -> None:
    """Bring it, also where it is there already: the name may stand for another one by now. Prints its id."""
    home = ImageHome.of(config)
    path = image_path(name, Path.cwd())
    if is_root_directory(path):
        raise ImageUnusable("it is a root file system that lies unpacked, which boxes use as it is", image=name)
    allowed = home.config.features.shell.plain_http_registries
    if plain_http:
        allowed = (*allowed, name.partition("/")[0])
    image = anyio.run(ImageResolver(home.config.home, plain_http=allowed).bring, path)
    print(image.id)


def listed(config: Path | None, *, as_json: bool) -> None:
    home = ImageHome.of(config)
    used = images_in_use(home.config.home)
    images = home.store.all()
    if as_json:
        print(json.dumps([_shown(image, used) for image in images], indent=2))
        return
    for image in images:
        by = f"  used by {used[image.id]}" if image.id in used else ""
        print(
            f"{image.id.removeprefix('sha256:')[:_SHOWN]}  {image.size / (1 << 20):8.1f} MiB  {image.name or '(no name)'}{by}"
        )


def inspected(name: str, config: Path | None) -> None:
    home = ImageHome.of(config)
    print(json.dumps(_shown(home.find(name), images_in_use(home.config.home)), indent=2))


def removed(names: Sequence[str], config: Path | None) -> int:
    """Remove them with their root file systems. Returns 1 where one is in use or not there; the others are removed."""
    home = ImageHome.of(config)
    failed = 0
    with home.store.changing():
        used = images_in_use(home.config.home)
        for name in names:
            try:
                image = home.find(name)
                if image.id in used:
                    raise ImageUnusable(f"{used[image.id]} has it; end that first", image=name)
                home.store.remove(image)
            except ImageUnusable as error:
                print(f"limpet: {error.message}", file=sys.stderr)
                failed = 1
    return failed


def pruned(config: Path | None) -> None:
    """Remove those without a name that nothing has, and what is left of pulls and other work that was broken off."""
    home = ImageHome.of(config)
    with home.store.changing():
        used = images_in_use(home.config.home)
        gone = [image for image in home.store.all() if not image.name and image.id not in used]
        for image in gone:
            home.store.remove(image)
        freed = home.store.remove_unused_blobs() + sum(image.size for image in gone)
    print(f"Removed {len(gone)} images and {freed / (1 << 20):.1f} MiB of layers.")


def exported(name: str, file: Path, config: Path | None) -> None:
    home = ImageHome.of(config)
    export(home.store, home.find(name), file)


def _shown(image: StoredImage, used: dict[str, str]) -> dict[str, object]:
    return {
        "name": image.name,
        "id": image.id,
        "size": image.size,
        "layers": list(image.layers),
        "environment": dict(image.environment),
        "root": str(image.root),
        "used_by": used.get(image.id),
    }

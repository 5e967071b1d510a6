"""Which image a box has: resolved when it boots, remembered in the directory that its files last in, and kept while it is used."""

import json
from collections.abc import Iterator
from pathlib import Path

from limpet.core.errors import BootFailed
from limpet.core.image_errors import ImageUnusable
from limpet.core.ports import SandboxSpec
from limpet.runtimes.bubblewrap.settings import BubblewrapSettings
from limpet.runtimes.images.resolver import ImageResolver, ResolvedImage

_RECORD = "image"  # in a lasting directory, beside `data` and `home`: commands do not see it
RECORD_KEY = "image"  # in the record of a living box


class BoxImages:
    """For the boxes of one runtime."""

    def __init__(self, settings: BubblewrapSettings) -> None:
        self._settings = settings
        self._resolver = ImageResolver(settings.home, plain_http=settings.plain_http_registries)

    async def of(self, spec: SandboxSpec) -> ResolvedImage | None:
        """The image for that box; None for the host's programs. A directory that a box of that name's image had keeps that very image,
        also when the name stands for another one by now. Raises BootFailed."""
        name = spec.image or self._settings.image
        if name is None:
            return None
        try:
            return await self._resolver.resolve(name, remembered=_remembered(spec.directory, name))
        except ImageUnusable as error:
            raise BootFailed(f"{error.message[0].lower()}{error.message[1:]}") from error

    def remember(self, spec: SandboxSpec, image: ResolvedImage | None) -> None:
        """Where the box's files last. Blocking."""
        name = spec.image or self._settings.image
        if spec.directory is None or image is None or image.id is None:
            return
        place = spec.directory / _RECORD
        made = place.with_name(f"{_RECORD}.new")
        made.unlink(missing_ok=True)
        made.write_text(json.dumps({"name": str(name), "id": image.id}))
        made.rename(place)


def images_in_use(home: Path) -> dict[str, str]:
    """Ids of images that boxes or containers of this home have, each with the name of one. Blocking."""
    found = {}
    for place in (*_entries(home / "run", "*.json"), *_entries(home / "boxes", f"*/{_RECORD}")):
        said = _read(place)
        if isinstance(id := said.get("id") or said.get(RECORD_KEY), str):
            found[id] = place.parent.name if place.name == _RECORD else str(said.get("name"))
    return found


def _remembered(directory: Path | None, name: Path) -> str | None:
    if directory is None:
        return None
    said = _read(directory / _RECORD)
    return str(said["id"]) if said.get("name") == str(name) and "id" in said else None


def _entries(directory: Path, pattern: str) -> Iterator[Path]:
    if directory.is_dir():
        yield from directory.glob(pattern)


def _read(path: Path) -> dict[str, object]:
    """What was written there; nothing where there is no such thing. The directory may be a box's user's own."""
    try:
        found = json.loads(path.read_bytes()) if path.is_file() and not path.is_symlink() else None
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

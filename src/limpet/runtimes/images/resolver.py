"""From what a box's image is called to its root file system: a directory as it is, anything else from the store, brought there first."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.images import registry
from limpet.runtimes.images.importing import LAYOUT, ImageImport, fingerprint
from limpet.runtimes.images.pulls import PullRoom
from limpet.runtimes.images.store import ImageStore, StoredImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedImage:
    """`root` is shown to boxes. `id` is the stored image's, None for a directory of the operator's own."""

    root: Path
    id: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class ImageResolver:
    """For one home. `plain_http` are the registries that may be asked without TLS."""

    def __init__(self, home: Path, *, plain_http: Collection[str] = ()) -> None:
        self.store = ImageStore(home)
        self._plain_http = tuple(plain_http)
        # By name: a registry that is slow holds up its own image alone. Gone once no box waits for it.
        self._bringing: WeakValueDictionary[Path, anyio.Lock] = WeakValueDictionary()

    async def resolve(self, name: Path, *, remembered: str | None = None) -> ResolvedImage:
        """The image of that name: an absolute path, or a relative one that is the name of an image, with its registry or without.
        `remembered` is the id of one that is wanted whatever the name stands for now.

        Raises ImageUnusable.
        """
        if is_root_directory(name):
            return ResolvedImage(root=name)
        if remembered is not None:
            kept = await to_thread.run_sync(self.store.find, remembered)
            if kept is None:
                raise ImageUnusable(
                    f"its files have been made from {remembered}, which is not here any more; `limpet images pull {name}` may bring it",
                    image=str(name),
                )
            return _resolved(kept)
        found = await to_thread.run_sync(self._found, name)
        if found is None:
            async with self._bringing.setdefault(name, anyio.Lock()):
                found = await to_thread.run_sync(self._found, name) or await self.bring(name)
        return _resolved(found)

    async def bring(self, name: Path) -> StoredImage:
        """Take it into the store, also where the name stands for one that is there. Raises ImageUnusable."""
        try:
            if name.is_absolute():
                return await to_thread.run_sync(self._imported, name)
            return await self._pulled(str(name))
        except ImageUnusable as error:
            raise error if error.image else ImageUnusable(error.reason, image=str(name)) from error
        except OSError as error:
            raise ImageUnusable(f"{error.strerror or error}", image=str(name)) from error

    def _found(self, name: Path) -> StoredImage | None:
        if not name.is_absolute():
            return self.store.find(str(name))
        try:
            return self.store.find(str(name), fingerprint=fingerprint(name))
        except OSError as error:
            raise ImageUnusable(f"{error.strerror or error}", image=str(name)) from error

    def _imported(self, path: Path) -> StoredImage:
        with self.store.changing():
            return replace(ImageImport(self.store).from_path(path, str(path)), name=str(path))

    async def _pulled(self, name: str) -> StoredImage:
        room = await to_thread.run_sync(PullRoom.make, self.store.directory)
        try:
            await registry.pull(name, room.image, plain_http=self._plain_http)
            return await to_thread.run_sync(self._taken, room.image, name)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(room.remove)

    def _taken(self, pulled: Path, name: str) -> StoredImage:
        with self.store.changing():
            image = ImageImport(self.store).from_pulled(pulled)
            self.store.call(name, image)
            return replace(image, name=name)


def is_root_directory(name: Path) -> bool:
    """Whether it is a root file system that lies unpacked, and no layout of an image."""
    return name.is_absolute() and name.is_dir() and not (name / LAYOUT).is_file()


def _resolved(image: StoredImage) -> ResolvedImage:
    return ResolvedImage(root=image.root, id=image.id, environment=image.environment)

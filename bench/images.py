"""Boxes of images: their boot beside one on the host's /usr, and a pull from a registry on this machine beside skopeo alone."""

import os
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import anyio

from bench.table import Line, NotMeasured, Scale, by_turns, compared
from limpet.core.ports import SandboxSpec
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from limpet.runtimes.elf import Tree, closure
from limpet.runtimes.images.resolver import ImageResolver
from tests.support.image_files import entry, layer, layout_files, root_layer, write_archive
from tests.support.registry import Registry, serving

_LAYERS, _FILES, _SIZE = 4, 25, 1 << 20  # 100 MiB that do not compress


async def rows(scale: Scale) -> list[Line]:
    return [await _boot(scale), await _pull(scale)]


async def _boot(scale: Scale) -> Line:
    name = "boot on an image, bubblewrap"
    if scale.runtime != "bubblewrap" or shutil.which("bwrap") is None:
        return NotMeasured(name=name, reason="Images are bubblewrap's.")
    with tempfile.TemporaryDirectory(prefix="limpet-bench-") as place:
        archive = await anyio.to_thread.run_sync(_archive, Path(place))
        async with BubblewrapRuntime(home=Path(place) / "home") as runtime:

            async def boot(image: Path | None) -> None:
                box = await runtime.create(SandboxSpec(name=f"b{os.urandom(6).hex()}", image=image))
                await box.destroy()

            ours, floor = await by_turns(partial(boot, archive), partial(boot, None), n=scale.of(40))
    return compared(name, ours, "on the host's /usr", floor, target="≤ 1.1 ×")


def _archive(place: Path) -> Path:
    """An image in a directory that boxes' users can reach."""
    place.chmod(0o711)
    return write_archive(place / "image.tar", layout_files([root_layer(_root(place / "root"))]))


def _root(place: Path) -> Path:
    """bash and what it needs."""
    for file in closure(Tree(Path("/")), [os.path.realpath("/bin/bash")], None):
        (place / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place / file.lstrip("/"))
    for name in ("bin", "lib", "lib64"):
        (place / name).symlink_to(f"usr/{name}")
    return place


async def _pull(scale: Scale) -> Line:
    name = "pull of 100 MiB in 100 files"
    if shutil.which("skopeo") is None:
        return NotMeasured(name=name, reason="There is no skopeo on this host.", is_optional=True)
    layers = [
        layer(*(entry(f"{number}-{file}", os.urandom(_SIZE)) for file in range(_FILES))) for number in range(_LAYERS)
    ]
    with serving(Registry(layout_files(layers))) as registry, tempfile.TemporaryDirectory() as place:
        count = iter(range(1000))

        async def pull() -> None:
            home = Path(place) / str(next(count))
            await ImageResolver(home, plain_http=[registry.address]).bring(Path(f"{registry.name}:1"))
            await anyio.to_thread.run_sync(shutil.rmtree, home)

        async def skopeo() -> None:
            layout = Path(place) / str(next(count))
            words = ["skopeo", "copy", "-q", "--src-tls-verify=false", f"docker://{registry.name}:1", f"oci:{layout}:x"]
            await anyio.run_process(words, stdin=subprocess.DEVNULL)
            await anyio.to_thread.run_sync(shutil.rmtree, layout)

        ours, floor = await by_turns(pull, skopeo, n=scale.of(8))
    return compared(name, ours, "skopeo copy to a layout", floor, target="≤ 1.5 ×")

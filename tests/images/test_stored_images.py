"""Images that are stored: taken in from every form, checked by their digests, whole or not there, and shown to boxes."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from limpet.core.command import Exited
from limpet.core.errors import BootFailed
from limpet.core.image_errors import ImageUnusable
from limpet.core.ports import SandboxSpec
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from limpet.runtimes.bubblewrap.box_images import images_in_use
from limpet.runtimes.images.bounds import ImageBounds
from limpet.runtimes.images.exporting import export
from limpet.runtimes.images.importing import ImageImport
from limpet.runtimes.images.store import ImageStore, StoredImage
from tests.runtimes.bubblewrap.boxes import box_of, remains, run
from tests.support.image_files import (
    config_of,
    digest,
    docker_files,
    entry,
    layer,
    layout_files,
    root_layer,
    write_archive,
    write_layout,
)
from tests.support.images import image_without_bash
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio
ONE = [gzip.compress(layer(entry("a", b"1"), entry("b", b"1"))), layer(entry("b", b"2"), entry(".wh.a"))]


def taken(store: ImageStore, path: Path) -> StoredImage:
    with store.changing():
        return ImageImport(store).from_path(path, str(path))


@pytest.mark.parametrize("form", ["layout", "archive", "a compressed archive", "docker", "nested indexes"])
def test_every_form_gives_the_same_files(tmp_path: Path, form: str) -> None:
    files = docker_files(ONE) if form == "docker" else layout_files(ONE)
    if form == "nested indexes":
        inner = files["index.json"]
        name = f"blobs/{digest(inner).replace(':', '/')}"
        files |= {name: inner, "index.json": json.dumps({"manifests": [{"digest": digest(inner)}]}).encode()}
    place = tmp_path / "image"
    if form in ("layout", "nested indexes"):
        write_layout(place, files)
    else:
        write_archive(place, files)
        if form == "a compressed archive":
            place.write_bytes(gzip.compress(place.read_bytes()))
    store = ImageStore(tmp_path / "home")
    image = taken(store, place)

    assert {path.name: path.read_text() for path in image.root.iterdir()} == {"b": "2"}
    assert [found.id for found in store.all()] == [image.id]
    assert store.find(image.id[7:20]) is not None


def test_an_image_that_was_exported_is_the_same_again_and_parts_that_are_shared_are_kept_once(tmp_path: Path) -> None:
    store, other = ImageStore(tmp_path / "home"), ImageStore(tmp_path / "other")
    image = taken(store, write_layout(tmp_path / "layout", layout_files(ONE)))
    second = taken(store, write_layout(tmp_path / "second", layout_files([ONE[0]])))
    export(store, image, tmp_path / "out.tar")

    assert taken(other, tmp_path / "out.tar").id == image.id
    with pytest.raises(ImageUnusable, match="is there already"):
        export(store, image, tmp_path / "out.tar")
    with store.changing():
        store.remove(image)
    assert [found.id for found in store.all()] == [second.id]
    assert store.blobs.has(digest(ONE[0]))
    assert not store.blobs.has(digest(ONE[1]))


def _without(files: dict[str, bytes], part: bytes) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if content != part}


def _lying(files: dict[str, bytes], part: bytes, other: bytes) -> dict[str, bytes]:
    return {name: other if content == part else content for name, content in files.items()}


LAYOUT = layout_files(ONE)
NOTES = {"manifests": [{"digest": digest(one), "annotations": "a"} for one in ONE]}
BAD = {
    "a layer that lies about its digest": (_lying(LAYOUT, ONE[1], ONE[1][:-1] + b"x"), "where sha256:.* was said"),
    "a layer that is longer": (_lying(LAYOUT, ONE[1], ONE[1] + b"x"), "larger than was said"),
    "a layer that is missing": (_without(LAYOUT, ONE[1]), "cannot be read|has no file"),
    "a tar that is another": (layout_files(ONE, config=config_of([ONE[1], ONE[1]])), "where its image says"),
    "too few tars": (layout_files(ONE, config=config_of(ONE[:1])), "tells of 1"),
    "another architecture": (layout_files(ONE, machine="s390x"), "only for: linux/s390x"),
    "a configuration of another": (layout_files(ONE, config=config_of(ONE, machine="s390x")), "it is for s390x"),
    "no images": ({**LAYOUT, "index.json": b'{"manifests": []}'}, "only for: none"),
    "a page": ({**LAYOUT, "index.json": b"<html>"}, "is no JSON"),
    "a list": ({**LAYOUT, "index.json": b"[]"}, "no JSON object"),
    "depth": ({**LAYOUT, "index.json": b'{"manifests":' + b"[" * 100_000}, "is no JSON"),
    "a digest of another kind": ({**LAYOUT, "index.json": b'{"manifests": [{"digest": "md5:1"}]}'}, "sha256 is needed"),
    "a digest that is a path": ({**LAYOUT, "index.json": b'{"manifests": [{"digest": "../../x"}]}'}, "sha256 is needed"),
    "tars that are none": (layout_files(ONE, config=b'{"rootfs": {"diff_ids": null}}'), "tells of 0"),
    "notes that are none": ({**LAYOUT, "index.json": json.dumps(NOTES).encode()}, "several images .one without a name"),
    "no layers": (layout_files([]), "no layers"),
    "sizes that are none": ({**LAYOUT, "index.json": LAYOUT["index.json"].replace(b'"size": ', b'"size": -')}, "no number"),
    "several docker images": ({**docker_files(ONE), "manifest.json": b"[{}, {}]"}, "none or several"),
    "docker without a layer": ({**docker_files(ONE), "1/layer.tar": b""}, "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_image_is_refused_in_words_and_leaves_nothing(tmp_path: Path, what: str) -> None:
    files, words = BAD[what]
    store = ImageStore(tmp_path / "home")
    for place in (write_layout(tmp_path / "layout", files), write_archive(tmp_path / "archive.tar", files)):
        if place.is_dir() and "manifest.json" in files:
            continue  # docker has no such directories
        with pytest.raises(ImageUnusable, match=words):
            taken(store, place)

    assert store.all() == []
    assert [*(store.directory / "roots").iterdir(), *(store.directory / "names").iterdir()] == []


@pytest.mark.parametrize("what", ["a fifo", "a link to a file of the host", "a directory"])
def test_nothing_but_files_is_opened_in_a_layout(tmp_path: Path, what: str) -> None:
    place = write_layout(tmp_path / "layout", LAYOUT)
    blob = place / "blobs" / digest(ONE[1]).replace(":", "/")
    blob.unlink()
    if what == "a fifo":
        os.mkfifo(blob)
    elif what == "a directory":
        blob.mkdir()
    else:
        (tmp_path / "elsewhere").write_bytes(ONE[1])
        blob.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ImageUnusable, match=r"cannot be read|not a regular file"):
        taken(ImageStore(tmp_path / "home"), place)


def test_a_million_files_are_refused_before_they_are_there(tmp_path: Path) -> None:
    place = write_layout(tmp_path / "layout", layout_files([layer(*(entry(f"f{number}") for number in range(200)))]))
    store = ImageStore(tmp_path / "home", bounds=ImageBounds(max_entries=100))
    with pytest.raises(ImageUnusable, match="more than 100 files"):
        taken(store, place)
    assert list((store.directory / "roots").iterdir()) == []


_KILLED = """
import os, signal, sys
from pathlib import Path
from limpet.runtimes.images import importing
from limpet.runtimes.images.store import ImageStore

def killed(*arguments):
    at(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

at = importing.unpack
importing.unpack = killed
store = ImageStore(Path(sys.argv[1]))
with store.changing():
    importing.ImageImport(store).from_path(Path(sys.argv[2]), "x")
"""


def test_a_process_that_is_killed_while_it_unpacks_leaves_nothing_half(tmp_path: Path) -> None:
    place = write_layout(tmp_path / "layout", LAYOUT)
    store = ImageStore(tmp_path / "home")
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path / "home"), str(place)], check=False)

    assert done.returncode == -signal.SIGKILL
    assert store.all() == []
    assert len(list((store.directory / "roots").iterdir())) == 1
    image = taken(store, place)
    assert list((store.directory / "roots").iterdir()) == [image.root]


async def test_a_box_of_an_archive_has_its_files_and_plain_variables_and_they_are_unpacked_once(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    layers = [root_layer(image_without_bash(home / "root"))]
    env = ["PATH=/opt/tool/bin:/usr/bin:/bin", "TOOL=1", "LD_PRELOAD=/evil.so", "BASH_ENV=/evil", "HOME=/root", "X Y=1"]
    files = layout_files(layers, config=config_of(layers, env=env))
    place = write_archive(home / "image.tar", files)
    async with box_of(runtime, image=place) as box:
        outcome, stdout, _ = await run(
            box, "cat /etc/issue; echo $TOOL $LD_PRELOAD$BASH_ENV $HOME; echo $PATH; echo x > /usr/x"
        )
    [root] = (home / "images/roots").iterdir()
    before = root.stat()
    async with box_of(runtime, image=place):
        assert [(path, path.stat().st_ino) for path in (home / "images/roots").iterdir()] == [(root, before.st_ino)]

    lines = stdout.splitlines()
    assert lines[:2] == ["of the image", "1 /home/agent"]
    assert lines[2] == "/etc/limpet/bin:/opt/tool/bin:/usr/bin:/bin:/home/agent/.local/bin"
    assert outcome != Exited(0)


async def test_a_tar_of_a_root_is_an_image_and_a_changed_one_is_another(runtime: BubblewrapRuntime, home: Path) -> None:
    root, place = image_without_bash(home / "root"), home / "root.tar"
    for text in ("first", "second, which is longer"):
        (root / "etc/issue").write_text(text)
        place.write_bytes(root_layer(root))
        async with box_of(runtime, image=place) as box:
            assert (await run(box, "cat /etc/issue"))[1] == text


async def test_a_lasting_directory_keeps_the_image_that_its_first_box_had(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    root, place = image_without_bash(home / "root"), home / "root.tar"
    directory = home / "boxes/lasting"
    said = []
    for text in ("first", "second"):
        (root / "etc/issue").write_text(text)
        place.write_bytes(root_layer(root))
        async with box_of(runtime, image=place, directory=directory) as box:
            said.append((await run(box, "cat /etc/issue; ls -A .."))[1])
    [id] = images_in_use(home)

    assert said[0] == said[1]
    assert said[0].startswith("first")
    store = ImageStore(home)
    with store.changing():
        store.remove(next(one for one in store.all() if one.id == id))
    with pytest.raises(BootFailed, match=f"{id}, which is not here any more"):
        await runtime.create(SandboxSpec(name="gone", image=place, directory=directory))
    assert remains(home, "gone") == []


@pytest.mark.parametrize(
    "name, words",
    [("./x", "neither a file"), ("-x", "neither a file"), ("a//b", "neither a file"), ("UP CASE", "neither")],
)
async def test_a_name_that_is_none_is_refused_in_words(runtime: BubblewrapRuntime, name: str, words: str) -> None:
    with pytest.raises(BootFailed, match=words):
        await runtime.create(SandboxSpec(name="never", image=Path(f"{name}@")))


def test_boxes_of_stored_images_are_the_same_for_an_ordinary_user() -> None:
    again_as_an_ordinary_user(__file__, "-k", "box or lasting or killed or every_form")

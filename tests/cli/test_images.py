"""`limpet images` and `limpet run --image`, as a person calls them."""

import json
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import Limpet
from tests.support.homes import home_apart
from tests.support.image_files import layout_files, root_layer, write_archive
from tests.support.images import image_without_bash


@pytest.fixture
def apart() -> Iterator[Path]:
    """A directory that boxes' users can reach."""
    with home_apart() as home:
        home.mkdir()
        home.chmod(0o755)
        yield home


def test_an_image_is_pulled_shown_used_exported_and_removed(limpet: Limpet, apart: Path) -> None:
    limpet_at = partial(limpet, LIMPET_HOME=str(apart / "home"))
    file = write_archive(apart / "image.tar", layout_files([root_layer(image_without_bash(apart / "root"))]))
    id = limpet_at("images", "pull", str(file)).stdout.strip()
    [listed] = json.loads(limpet_at("images", "ls", "--json").stdout)
    shown = json.loads(limpet_at("images", "inspect", str(file)).stdout)
    ran = limpet_at("run", "--image", id, "--", "cat /etc/issue; echo $0")
    table = limpet_at("images", "ls").stdout
    limpet_at("images", "export", id, str(apart / "out.tar"))
    again = limpet_at("images", "pull", str(apart / "out.tar")).stdout.strip()
    removed = limpet_at("images", "rm", id)

    assert (listed["id"], listed["name"]) == (shown["id"], shown["name"]) == (id, str(file))
    assert (ran.returncode, ran.stdout) == (0, "of the image\n/bin/sh\n"), ran.stderr
    assert id.removeprefix("sha256:")[:12] in table
    assert again == id
    with tarfile.open(apart / "out.tar") as archive:
        assert {"index.json", "oci-layout"} < set(archive.getnames())
    assert (removed.returncode, limpet_at("images", "ls").stdout) == (0, "")


def test_a_directory_is_an_image_as_it_is(limpet: Limpet, apart: Path) -> None:
    limpet_at = partial(limpet, LIMPET_HOME=str(apart / "home"))
    ran = limpet_at("run", "--image", str(image_without_bash(apart / "root")), "--", "cat", "/etc/issue")
    assert (ran.returncode, ran.stdout) == (0, "of the image\n"), ran.stderr
    assert "lies unpacked" in limpet_at("images", "pull", str(apart / "root")).stderr


def test_what_is_no_image_is_said_in_words(limpet: Limpet, tmp_path: Path) -> None:
    (tmp_path / "page.tar").write_text("<html>")
    for call, words in (
        (("run", "--image", str(tmp_path / "page.tar"), "--", "true"), "no tar that can be read"),
        (("run", "--image", "./nothing-here", "--", "true"), "No such file"),
        (("images", "pull", "UP CASE"), "neither a file or directory"),
        (("images", "inspect", "never-pulled"), "limpet images pull never-pulled"),
        (("images", "rm", "never-pulled"), "it is not here"),
    ):
        done = limpet(*call)
        assert (done.returncode, words in done.stderr) == (1, True), (call, done.stderr)
    assert limpet("images", "prune").stdout.startswith("Removed 0 images")

"""Images from a registry, through skopeo: what works, and what it says where that fails."""

import base64
import json
import os
import shutil
from pathlib import Path

import anyio
import pytest

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.images import registry as pulling
from limpet.runtimes.images.resolver import ImageResolver
from limpet.runtimes.images.store import ImageStore
from tests.support.image_files import digest, entry, layer, layout_files, write_archive
from tests.support.registry import PASSWORD, USER, Registry, serving

pytestmark = pytest.mark.anyio
FILES = layout_files([layer(entry("b", b"2"))])


@pytest.fixture(autouse=True)
def _needs_skopeo(request: pytest.FixtureRequest) -> None:
    if shutil.which("skopeo") is None and "missing" not in request.node.name:
        pytest.skip("needs skopeo: apt-get install skopeo")


def left_of(home: Path) -> list[Path]:
    images = home / "images"
    return [*(images / "pulls").iterdir(), *(path for path in (images / "roots").glob("making-*"))]


@pytest.mark.parametrize("mode", ["works", "redirects"])
async def test_an_image_is_pulled_once_and_by_its_digest_too(tmp_path: Path, mode: str) -> None:
    with serving(Registry(FILES, mode)) as registry:
        resolver = ImageResolver(tmp_path, plain_http=[registry.address])
        first = await resolver.resolve(Path(f"{registry.name}:1"))
        asked = len(registry.asked)
        again = await resolver.resolve(Path(f"{registry.name}:1"))
        assert len(registry.asked) == asked
        by_digest = await resolver.resolve(Path(f"{registry.name}:1@{digest(FILES['index.json'])}"))

    assert first == again == by_digest
    assert first.id == json.loads(FILES["index.json"])["manifests"][0]["digest"]
    assert (first.root / "b").read_text() == "2"
    assert left_of(tmp_path) == []


@pytest.mark.parametrize(
    "mode, words",
    [
        ("answers HTML", "invalid character '<'|HTML|parsing|unsupported"),
        ("needs a login", "log in with: skopeo login 127.0.0.1"),
        ("breaks off", "unexpected EOF|EOF|size"),
    ],
)
async def test_a_registry_that_fails_is_told_in_words_and_nothing_is_left(
    tmp_path: Path, mode: str, words: str
) -> None:
    with serving(Registry(FILES, mode)) as registry:
        resolver = ImageResolver(tmp_path, plain_http=[registry.address])
        with pytest.raises(ImageUnusable, match=words) as caught:
            await resolver.resolve(Path(f"{registry.name}:1"))

    assert f"The image {registry.name}:1 cannot be used" in caught.value.message
    assert left_of(tmp_path) == []
    assert ImageStore(tmp_path).all() == []


async def test_a_tag_that_is_not_there_and_a_registry_that_is_not(tmp_path: Path) -> None:
    with serving(Registry(FILES)) as registry:
        resolver = ImageResolver(tmp_path, plain_http=[registry.address])
        with pytest.raises(ImageUnusable, match=r"manifest|MANIFEST"):
            await resolver.resolve(Path(f"{registry.name}:missing"))
    with pytest.raises(ImageUnusable, match=r"refused|connect"):
        await resolver.resolve(Path(f"{registry.name}:1"))


async def test_plain_http_is_spoken_only_with_registries_that_are_named(tmp_path: Path) -> None:
    with serving(Registry(FILES)) as registry:
        with pytest.raises(ImageUnusable, match=r"plain_http_registries = ") as caught:
            await ImageResolver(tmp_path).resolve(Path(f"{registry.name}:1"))
        assert registry.asked == []
    assert registry.address in caught.value.message


async def test_a_registry_that_hangs_holds_nobody_for_ever_and_a_cancelled_pull_ends_skopeo(tmp_path: Path) -> None:
    with serving(Registry(FILES, "hangs")) as registry, pytest.raises(ImageUnusable, match="did not give it within"):
        await pulling.pull(f"{registry.name}:1", tmp_path / "layout", plain_http=[registry.address], within=0.3)
    with serving(Registry(FILES, "hangs")) as registry:
        resolver = ImageResolver(tmp_path, plain_http=[registry.address])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resolver.resolve, Path(f"{registry.name}:1"))
            with anyio.fail_after(20):
                while not registry.hanging.is_set():
                    await anyio.sleep(0.01)
                other = await resolver.resolve(write_archive(tmp_path / "other.tar", FILES))
            tasks.cancel_scope.cancel()

    assert (other.root / "b").read_text() == "2"
    assert left_of(tmp_path) == []
    assert _programs_at(registry.address) == []


def _programs_at(address: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "skopeo" in words and address in words and int(place.parent.name) != os.getpid():
            found.append(words)
    return found


async def test_credentials_are_the_usual_files_and_are_in_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Registry(FILES, "needs a login")) as registry:
        given = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (tmp_path / "auth.json").write_text(json.dumps({"auths": {registry.address: {"auth": given}}}))
        monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
        resolver = ImageResolver(tmp_path, plain_http=[registry.address])
        assert (await resolver.resolve(Path(f"{registry.name}:1"))).id is not None
        with pytest.raises(ImageUnusable) as caught:
            await resolver.resolve(Path(f"{registry.name}:missing"))

    assert PASSWORD not in caught.value.message
    assert given not in caught.value.message


async def test_a_missing_skopeo_is_named_with_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageUnusable, match="apt-get install skopeo"):
        await ImageResolver(tmp_path).resolve(Path("alpine"))

"""What a layer may do to the directory that it is unpacked into: everything below it, and nothing else."""

import gzip
import io
import os
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from limpet.core.image_errors import ImageUnusable
from limpet.runtimes.images.bounds import ImageBounds
from limpet.runtimes.images.unpacking import unpack
from tests.support.image_files import Entry, digest, directory, entry, hard_link, layer, link
from tests.support.users import again_as_an_ordinary_user

SMALL = ImageBounds(max_bytes=1 << 20, max_entries=50, ratio_from=1 << 16, max_ratio=20)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("of the host")
    return tmp_path


def unpacked(place: Path, *layers: bytes, bounds: ImageBounds | None = None) -> dict[str, str]:
    """What is there then: files with their contents, links with their targets, directories."""
    files = []
    for number, content in enumerate(layers):
        (file := place / f"layer-{number}").write_bytes(content)
        files.append((file, None))
    unpack(files, place / "root", bounds or ImageBounds())
    assert (place / "outside/file").read_text() == "of the host"
    assert os.listdir(place / "outside") == ["file"]
    return seen(place / "root")


def seen(root: Path) -> dict[str, str]:
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        else:
            found[name] = "/" if path.is_dir() else path.read_text()
    return found


def test_whiteouts_hide_what_earlier_layers_have_and_nothing_of_their_own(place: Path) -> None:
    first = layer(directory("d"), entry("d/old", b"1"), entry("d/kept", b"2"), directory("e"), directory("e/sub"),
                  entry("e/sub/old", b"3"), entry("gone", b"4"))  # fmt: skip
    second = layer(entry("d/.wh.old"), entry(".wh.gone"), directory("e"), directory("e/sub"), entry("e/sub/new", b"5"),
                   entry("e/.wh..wh..opq"), entry(".wh.never-was"), entry(".wh..wh.plnk/1.2"), entry("gone", b"again"))  # fmt: skip
    assert unpacked(place, first, second) == {
        "d": "/", "d/kept": "2", "e": "/", "e/sub": "/", "e/sub/new": "5", "gone": "again",
    }  # fmt: skip


def test_a_directory_that_a_layer_only_passes_through_is_its_own_to_whiteouts_above_it(place: Path) -> None:
    first = layer(directory("d"), directory("d/sub"), entry("d/sub/old", b"1"), entry("d/old", b"2"))
    opaque = layer(entry("d/sub/new", b"3"), entry("d/.wh..wh..opq"))
    hidden = layer(entry("d/sub/newer", b"4"), entry("d/.wh.sub"))
    assert unpacked(place, first, opaque) == {"d": "/", "d/sub": "/", "d/sub/new": "3"}
    shutil.rmtree(place / "root")
    (place / "root").mkdir()
    assert unpacked(place, first, opaque, hidden) == {"d": "/", "d/sub": "/", "d/sub/newer": "4"}


def test_kinds_replace_each_other_and_names_that_differ_in_case_are_two(place: Path) -> None:
    first = layer(
        entry("a", b"1"), entry("A", b"2"), directory("b"), entry("b/x", b"3"), link("c", "a"), link("l", "b")
    )
    second = layer(directory("a"), entry("b", b"now a file"), directory("l"), entry("l/y", b"4"), entry("c", b"5"))
    assert unpacked(place, first, second) == {"A": "2", "a": "/", "b": "now a file", "c": "5", "l": "/", "l/y": "4"}


def test_a_name_that_passes_a_link_stays_below_the_root(place: Path) -> None:
    entries = (
        directory("usr"), link("lib", "/usr"), entry("lib/in-usr", b"1"), link("up", "../../../usr"), entry("up/too", b"2"),
        directory("usr/deep"), link("usr/deep/back", ".."), entry("usr/deep/back/three", b"3"),
    )  # fmt: skip
    found = unpacked(place, layer(*entries))
    assert {name: text for name, text in found.items() if name.startswith("usr/") and text in "123"} == {
        "usr/in-usr": "1", "usr/too": "2", "usr/three": "3",
    }  # fmt: skip


def unpack_one(place: Path, *entries: Entry, bounds: ImageBounds | None = None) -> None:
    (place / "layer").write_bytes(layer(*entries))
    (target := place / f"t{len(os.listdir(place))}").mkdir()
    unpack([(place / "layer", None)], target, bounds or ImageBounds())


@pytest.mark.parametrize(
    "entries, words",
    [
        ([entry("../out", b"x")], "leads out"),
        ([entry("a/../../out", b"x")], "leads out"),
        ([hard_link("h", "../outside/file")], "leads out"),
        ([hard_link("h", "/outside/file")], "no file of the image"),
        ([link("l", "../outside"), hard_link("h", "l/file")], "no file of the image|is no directory"),
        ([link("l", "../outside"), entry("l/file", b"taken")], "is no directory"),
        ([directory("d"), hard_link("h", "d")], "no file of the image"),
        ([hard_link("h", ".")], "hard link to the root"),
        ([entry("f"), entry("f/below", b"x")], "is no directory"),
        ([link("a", "b"), link("b", "a"), entry("a/x", b"")], "is no directory"),
        ([entry(".wh...", b"")], "no name"),
        ([entry("d/.wh.", b"")], "no name"),
        ([entry("n" * 300, b"")], "File name too long"),
        ([entry("/".join("d" * 300), b"")], "deep"),
        ([entry(f"f{number}") for number in range(60)], "more than 50 files"),
        ([entry("big", bytes(1 << 20)), entry("more", b"1")], "MiB|bombs"),
    ],
)
def test_what_leads_out_or_makes_no_sense_is_refused_in_words(place: Path, entries: list[Entry], words: str) -> None:
    with pytest.raises(ImageUnusable, match=words):
        unpack_one(place, *entries, bounds=SMALL)
    assert (place / "outside/file").read_text() == "of the host"
    assert os.listdir(place / "outside") == ["file"]


def test_devices_fifos_rights_and_owners_count_for_nothing(place: Path) -> None:
    about, content = entry("owned", b"x", mode=0o6750)
    about.uid, about.gid, about.mtime = 1 << 40, 1 << 40, 1 << 40
    about.pax_headers = {"SCHILY.xattr.security.capability": "rights", "SCHILY.xattr.user.x": "1"}
    devices = [
        entry(name, kind=kind)
        for name, kind in [("c", tarfile.CHRTYPE), ("b", tarfile.BLKTYPE), ("p", tarfile.FIFOTYPE)]
    ]
    found = unpacked(
        place, layer((about, content), directory("secret", 0o4700), entry("secret/f", b"y", mode=0o000), *devices)
    )

    assert found == {"owned": "x", "secret": "/", "secret/f": "y"}
    owned = (place / "root/owned").stat()
    assert (stat.S_IMODE(owned.st_mode), owned.st_uid) == (0o755, os.geteuid())
    assert os.listxattr(place / "root/owned") == []
    assert [stat.S_IMODE((place / "root" / name).stat().st_mode) for name in ("secret", "secret/f")] == [0o755, 0o644]


def test_hard_links_are_one_file_until_a_layer_replaces_one_of_them(place: Path) -> None:
    first = layer(entry("a", b"1"), hard_link("b", "a"), link("l", "a"), hard_link("m", "l"), hard_link("a", "a"))
    found = unpacked(place, first, layer(entry("b", b"2")))
    assert found == {"a": "1", "b": "2", "l": "-> a", "m": "-> a"}


def bomb() -> bytes:
    return gzip.compress(layer(entry("zeros", bytes(4 << 20))))


def sparse() -> bytes:
    """GNU's old format: a file of 1 TiB that has one byte."""
    about = tarfile.TarInfo("huge")
    about.type, about.size = tarfile.GNUTYPE_SPARSE, 512
    block = bytearray(about.tobuf(tarfile.GNU_FORMAT))
    block[386:398], block[398:410] = b"%011o\0" % 0, b"%011o\0" % 512
    block[483:495] = b"\x80" + (1 << 40).to_bytes(11, "big")
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + bytes(512) + bytes(1024)


def long_header() -> bytes:
    about = tarfile.TarInfo("x")
    about.type, about.size = tarfile.XHDTYPE, 1 << 33
    return about.tobuf(tarfile.GNU_FORMAT) + bytes(4096)


def nested_headers() -> bytes:
    about = tarfile.TarInfo("x")
    about.type, about.size = tarfile.XHDTYPE, 0
    return about.tobuf(tarfile.GNU_FORMAT) * 3000 + bytes(1024)


def sparse_by_pax(map_of_it: bytes, size: int) -> bytes:
    """GNU's sparse format 1.0: the map stands before the data."""
    map_of_it += bytes(-len(map_of_it) % 512)
    about, content = entry("GNUSparseFile.0/s", map_of_it + bytes(512))
    about.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s", "GNU.sparse.realsize": str(size),
    }  # fmt: skip
    return layer((about, content))


def long_map() -> bytes:
    return sparse_by_pax(b"100000\n" + b"0\n" * 200_000, 0)


def unordered_map() -> bytes:
    return sparse_by_pax(b"2\n100\n5\n0\n5\n", 200)


def long_chain() -> bytes:
    about = tarfile.TarInfo("chain")
    about.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(about.tobuf(tarfile.GNU_FORMAT))
    block[482] = 1
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + (bytes(504) + b"\1" + bytes(7)) * 4000


def many_globals() -> bytes:
    headers = {f"LIMPET.{number}": "x" for number in range(100)}
    return tarfile.TarInfo.create_pax_global_header(headers) + layer(entry("f"))


WHOLE = layer(entry("a", bytes(3000)), entry("b", b"2"))


@pytest.mark.parametrize(
    "content, words",
    [
        pytest.param(bomb(), "bombs", id="a bomb"),
        pytest.param(sparse(), "bombs|MiB", id="a sparse file"),
        pytest.param(long_header(), "too long", id="a header without end"),
        pytest.param(long_map(), "too long", id="a sparse file with a map of millions"),
        pytest.param(long_chain(), "too long", id="a sparse file with a chain of maps"),
        pytest.param(many_globals(), "global headers", id="global headers that gather"),
        pytest.param(unordered_map(), "no order", id="a sparse file whose parts go back"),
        pytest.param(nested_headers(), "cannot be read", id="headers of headers"),
        pytest.param(WHOLE[:1500], "cannot be read|cut off", id="cut in a file"),
        pytest.param(WHOLE[:3584], "cut off", id="cut between files"),
        pytest.param(WHOLE[:3584] + b"garbage!" * 128, "makes no sense", id="garbage in it"),
        pytest.param(gzip.compress(WHOLE)[:-40], "decompressed", id="a cut gzip"),
        pytest.param(gzip.compress(WHOLE)[:30] + b"\xff" * 60, "decompressed", id="a broken gzip"),
        pytest.param(b"\x28\xb5\x2f\xfd" + b"\0" * 60, "cannot be read|zstd", id="a broken zstd"),
        pytest.param(b"<html>no</html>", "cannot be read", id="a page"),
        pytest.param(b"", "cannot be read", id="nothing"),
    ],
)  # fmt: skip
def test_a_layer_that_lies_or_swells_is_refused_in_words(place: Path, content: bytes, words: str) -> None:
    (place / "layer").write_bytes(content)
    with pytest.raises(ImageUnusable, match=words):
        unpack([(place / "layer", None)], place / "root", SMALL)
    assert sum(path.stat().st_blocks * 512 for path in (place / "root").rglob("*")) < 2 << 20


def test_the_digest_of_its_tar_is_that_of_all_of_it(place: Path) -> None:
    trailing = layer(entry("a", b"1")) + bytes(10_240) + b"behind the end"
    (place / "layer").write_bytes(gzip.compress(trailing))
    assert unpack([(place / "layer", digest(trailing))], place / "root", ImageBounds()) == [digest(trailing)]
    with pytest.raises(ImageUnusable, match="where its image says"):
        unpack([(place / "layer", digest(b"else"))], place / "root", ImageBounds())


def test_layers_of_zstd_are_read_where_the_program_is(place: Path) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("needs zstd: apt-get install zstd")
    packed = subprocess.run(["zstd", "-c"], input=layer(entry("a", b"1")), capture_output=True, check=True).stdout
    assert unpacked(place, packed) == {"a": "1"}


def test_all_of_it_holds_for_an_ordinary_user() -> None:
    again_as_an_ordinary_user(__file__)


def test_a_name_of_any_bytes_is_a_name(place: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
        tar.addfile(*_odd(b"\xff\n*".decode(errors="surrogateescape")))
    unpacked(place, made.getvalue())
    assert os.listdir(os.fsencode(place / "root")) == [b"\xff\n*"]


def _odd(name: str) -> tuple[tarfile.TarInfo, io.BytesIO]:
    return tarfile.TarInfo(name), io.BytesIO()

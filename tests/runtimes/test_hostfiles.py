"""Files of a sandbox in host directories: exact bytes, our errors, and no way out through a link."""

import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from limpet.core import errors
from limpet.runtimes import open_beneath
from limpet.runtimes.hostfiles import HostFiles

pytestmark = pytest.mark.anyio


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "secret").write_text("of the host")
    return tmp_path / "data"


@pytest.fixture
def files(data: Path) -> HostFiles:
    return HostFiles({"/mnt/data": data, "/home/agent": data.parent / "home"})


async def test_what_is_written_is_read_byte_for_byte(files: HostFiles, data: Path) -> None:
    content = bytes(range(256)) * 5000

    written = await files.write("/mnt/data/a/b/c.bin", content, mode=0o755)

    assert await files.read("a/b/c.bin") == content
    assert (data / "a/b/c.bin").read_bytes() == content
    assert written == await files.stat("/mnt/data/a/b/c.bin")
    assert (written.path, written.kind, written.size, written.mode) == ("/mnt/data/a/b/c.bin", "file", 1280000, 0o755)


async def test_a_range_is_read_without_the_rest(files: HostFiles) -> None:
    await files.write("f", b"0123456789")

    assert await files.read("f", start=3, length=4) == b"3456"
    assert await files.read("f", start=8, length=40) == b"89"
    assert await files.read("f", start=80) == b""


async def test_more_than_the_limit_is_refused_and_a_range_below_it_is_not(files: HostFiles) -> None:
    await files.write("f", b"0123456789")

    with pytest.raises(errors.FileTooLarge) as caught:
        await files.read("f", limit=4)

    assert (caught.value.size, caught.value.limit) == (10, 4)
    assert await files.read("f", length=4, limit=4) == b"0123"


async def test_a_large_file_comes_in_pieces_of_a_mebibyte(files: HostFiles, data: Path) -> None:
    content = os.urandom(2_500_000)
    (data / "big").write_bytes(content)

    pieces = [piece async for piece in files.stream("big")]
    part = [piece async for piece in files.stream("big", start=1_000_000, length=1_200_000)]

    assert [len(piece) for piece in pieces] == [1 << 20, 1 << 20, 2_500_000 - (2 << 20)]
    assert b"".join(pieces) == content
    assert b"".join(part) == content[1_000_000:2_200_000]


async def test_a_write_that_breaks_off_leaves_the_old_content_and_nothing_else(files: HostFiles, data: Path) -> None:
    await files.write("f", b"old")

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await files.write("f", broken())

    assert await files.read("f") == b"old"
    assert os.listdir(data) == ["f"]


async def test_a_write_under_way_is_not_listed(files: HostFiles) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"1"
        assert await files.list() == []
        yield b"2"

    await files.write("f", pieces())

    assert [entry.path for entry in await files.list()] == ["/mnt/data/f"]


async def test_a_list_goes_down_into_directories_but_not_through_links(files: HostFiles, data: Path) -> None:
    await files.write("b/deep/f", b"12")
    (data / "a").symlink_to("/etc")

    flat = [(entry.path, entry.kind) for entry in await files.list()]
    deep = [(entry.path, entry.kind) for entry in await files.list(recursive=True)]

    assert flat == [("/mnt/data/a", "link"), ("/mnt/data/b", "directory")]
    assert deep == [*flat, ("/mnt/data/b/deep", "directory"), ("/mnt/data/b/deep/f", "file")]


@pytest.mark.parametrize(
    "path", ["link", "/mnt/data/link", "out/secret", "in/f", "/etc/passwd", "../secret", "/mnt/data/../../etc/passwd"]
)
async def test_no_link_and_no_dots_lead_out(files: HostFiles, data: Path, path: str) -> None:
    (data / "link").symlink_to(data.parent / "secret")
    (data / "out").symlink_to(data.parent)
    (data / "real").mkdir()
    (data / "real/f").write_text("inside")
    (data / "in").symlink_to("real")

    for attempt in (files.read(path), files.write(path, b"x"), anext(files.stream(path))):
        with pytest.raises(errors.PathOutside):
            await attempt

    assert (data.parent / "secret").read_text() == "of the host"
    assert (data / "real/f").read_text() == "inside"


async def test_a_link_is_described_and_deleted_but_its_target_stays(files: HostFiles, data: Path) -> None:
    (data / "link").symlink_to(data.parent / "secret")

    described = await files.stat("link")
    await files.delete("link")

    assert described.kind == "link"
    assert os.listdir(data) == []
    assert (data.parent / "secret").read_text() == "of the host"


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize("make, kind", [(_fifo, "fifo"), (_socket, "socket"), (Path.mkdir, "directory")])
async def test_only_a_regular_file_is_read_or_replaced_and_nothing_waits(
    files: HostFiles, data: Path, make: Callable[[Path], None], kind: str
) -> None:
    make(data / "odd")

    for attempt in (files.read("odd"), files.write("odd", b"x")):
        with pytest.raises(errors.NotAFile, match=f"odd is a {kind}, not"):
            await attempt


async def test_every_failure_has_its_own_error_that_names_the_path(files: HostFiles) -> None:
    await files.write("f", b"")

    for attempt, error in (
        (files.read("none"), errors.FileMissing),
        (files.stat("none/at/all"), errors.FileMissing),
        (files.delete("none"), errors.FileMissing),
        (files.list("none"), errors.FileMissing),
        (files.list("f"), errors.NotADirectory),
        (files.read("f/below"), errors.NotADirectory),
        (files.write("f/below", b""), errors.NotADirectory),
        (files.delete("/mnt/data"), errors.FileForbidden),
        (files.read("a\0b"), errors.FileError),
        (files.read("x" * 300), errors.FileError),
    ):
        with pytest.raises(error):
            await attempt


@pytest.mark.parametrize("name", ["with space", "new\nline", "-rf", "ü…", "'\"$(id)", "...", ".hidden"])
async def test_odd_names_are_names(files: HostFiles, name: str) -> None:
    await files.write(f"d/{name}", b"x")

    assert [entry.path for entry in await files.list("d")] == [f"/mnt/data/d/{name}"]
    assert await files.read(f"d/{name}") == b"x"
    await files.delete(f"d/{name}")
    assert await files.list("d") == []


async def test_a_tree_deeper_than_any_path_is_listed_as_far_as_paths_go_and_deleted_whole(
    files: HostFiles, data: Path
) -> None:
    (data / "top").mkdir()
    here = os.open(data / "top", os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 100, dir_fd=here)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    listed = await files.list(recursive=True)
    await files.delete("top")

    assert len(listed) > 30
    assert os.listdir(data) == []


async def test_what_is_written_belongs_to_the_owner(data: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    files = HostFiles({"/mnt/data": data}, owner=2_000_000_007)

    await files.write("a/f", b"x")

    assert [(entry.stat().st_uid, entry.stat().st_gid) for entry in (data / "a", data / "a/f")] == [
        (2_000_000_007, 2_000_000_007)
    ] * 2
    assert stat.S_IMODE((data / "a").stat().st_mode) == 0o755


def test_the_walk_for_old_kernels_refuses_the_same_links(data: Path) -> None:
    (data / "real/below").mkdir(parents=True)
    (data / "link").symlink_to("real")
    base = os.open(data, open_beneath.DIRECTORY)
    try:
        with pytest.raises(open_beneath.LinkInTheWay):
            open_beneath.walk(base, ("link", "below"))
        found = open_beneath.walk(base, ("real", "below"))
        assert os.path.samestat(os.fstat(found), os.stat(data / "real/below"))
        os.close(found)
    finally:
        os.close(base)

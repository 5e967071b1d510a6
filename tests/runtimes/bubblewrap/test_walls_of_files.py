"""What can be changed, and what is there at all, in a box whose walls say so."""

import os
from pathlib import Path

import pytest

from limpet.core.command import Argv, Command, Exited, Script, Terminal
from limpet.core.ports import Walls
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import box_of, collect, run, text

pytestmark = pytest.mark.anyio

# Each line of output is a change that was made.
_CHANGES = """
import ctypes, os
places = ["/mnt/data/kept", "/home/agent/kept", "/tmp/kept", "/mnt/data/new", "/tmp/new", "/dev/shm/new", "/var/tmp/new"]
places += ["/etc/passwd", "/usr/x"]
for path in places:
    for name, change in {
        "open": lambda: os.open(path, os.O_WRONLY), "make": lambda: os.open(path, os.O_WRONLY | os.O_CREAT),
        "truncate": lambda: os.truncate(path, 0), "chmod": lambda: os.chmod(path, 0o777), "utime": lambda: os.utime(path),
        "xattr": lambda: os.setxattr(path, "user.x", b"1"), "remove": lambda: os.unlink(path), "move": lambda: os.rename(path, path + "y"),
        "link": lambda: os.link(path, path + "z"), "symlink": lambda: os.symlink("x", path + "s"), "mkdir": lambda: os.mkdir(path + "d"),
        "fifo": lambda: os.mkfifo(path + "f"), "chown": lambda: os.chown(path, 1000, 1000),
        "through /proc": lambda: os.open("/proc/self/fd/%d" % os.open(path, os.O_RDONLY), os.O_WRONLY),
        "nameless": lambda: os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY),
        "flags": lambda: __import__("fcntl").ioctl(os.open(path, os.O_RDONLY), 0x40086602, b"\\0" * 8),
    }.items():
        try:
            change()
            print(name, path)
        except OSError:
            pass
"""


async def test_no_file_can_be_changed_behind_a_wall_against_writing(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, walls=Walls(is_read_only=True)) as box:
        await box.files.write("/mnt/data/kept", b"data")
        await box.files.write("/home/agent/kept", b"home")
        await box.files.write("changes.py", _CHANGES.encode())

        assert await run(box, "cat kept ~/kept; python3 changes.py") == (Exited(0), "datahome", "")
        outcome, _, complaint = await run(box, "echo x > kept")
        assert (outcome, "Read-only file system" in complaint) == (Exited(1), True)
        assert (await run(box, "echo new >> kept; rm -f kept; cat <<< here; echo out > /dev/null; cat kept"))[
            1
        ] == "here\ndata"


async def test_without_that_wall_the_same_changes_are_made(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        await box.files.write("kept", b"data")
        await box.files.write("changes.py", _CHANGES.encode())

        assert {"open", "chmod", "utime", "remove", "symlink"} <= {
            line.split()[0] for line in (await run(box, "python3 changes.py"))[1].splitlines()
        }


async def test_programs_and_terminals_write_nothing_either(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, walls=Walls(is_read_only=True)) as box:
        program = await box.start(Command(what=Argv(("touch", "x"))), "argv")
        shown = await box.start(Command(what=Script("touch x; echo over"), terminal=Terminal()), "terminal")
        said = text(await collect(shown))

        assert (await program.wait(), said.endswith("over\r\n"), await box.files.list()) == (Exited(1), True, [])


async def test_much_output_is_kept_where_nothing_can_be_written(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, walls=Walls(is_read_only=True)) as box:
        assert len((await run(box, "head -c 3000000 /dev/zero | tr '\\0' x"))[1]) == 3_000_000


async def test_only_what_is_named_is_there_beside_the_boxs_own(runtime: BubblewrapRuntime, tmp_path: Path) -> None:
    for name in ("named", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    _open_to_all(tmp_path)
    shown = {
        "/srv/named": tmp_path / "named",
        "/srv/other": tmp_path / "other",
        "/home/agent/skill": tmp_path / "other",
    }
    async with box_of(runtime, read_only=shown, walls=Walls(paths=("/srv/named", "/usr/share/doc/bash"))) as box:
        seen = await run(
            box, "cd /; ls -d srv/* usr/s* usr/share/doc/*; cat srv/*/file ~/skill/file; python3 -c 'print(7)'"
        )
    assert seen == (
        Exited(0),
        "srv/named\nusr/sbin\nusr/share\nusr/share/doc/bash\nnamedother7\n",
        "",
    )


async def test_a_part_of_what_would_be_there_can_be_named(runtime: BubblewrapRuntime, tmp_path: Path) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/file").write_text("found")
    (tmp_path / "deep/out").symlink_to("/etc")
    _open_to_all(tmp_path)
    walls = Walls(paths=("/srv/deep/er", "/srv/deep/out", "/srv/../etc/shadow", "/root", "/work"))
    async with box_of(runtime, read_only={"/srv": tmp_path}, walls=walls) as box:
        assert await run(box, "cat /srv/deep/er/file; ls /srv/deep; ls -d /root /work 2> /dev/null || true") == (
            Exited(0),
            "founder\n",
            "",
        )


async def test_walls_add_up(runtime: BubblewrapRuntime) -> None:
    walls = Walls(programs=frozenset({"cat", "ls", "touch"}), hidden=frozenset({"touch"}), is_read_only=True, paths=())
    async with box_of(runtime, walls=walls) as box:
        await box.files.write("kept", b"data")
        await run(box, "true")

        assert (await run(box, "cat kept; python3 -c pass; touch kept; /usr/bin/touch kept; echo > kept; ls"))[
            1
        ] == "datakept\n"


def _open_to_all(directory: Path) -> None:
    """pytest's own directories are closed to a box's user; root's runtime carries them in, so this is for the names below."""
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            os.chmod(path, 0o755 if path.is_dir() else 0o644)

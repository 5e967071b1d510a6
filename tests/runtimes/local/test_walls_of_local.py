"""What Landlock and a filter hold on the host itself: writing for certain, the rest as far as they reach."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.core.command import Argv, Command, Exited, Outcome, Script, Terminal
from limpet.core.errors import OfferMissing
from limpet.core.ports import Offer, Sandbox, Walls
from limpet.guard.policy.policy import Policy
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.workspace.opening import WorkspaceOptions, open_in
from tests.runtimes.bubblewrap.boxes import box_of, collect, run, text
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio


@pytest.fixture
async def runtime() -> AsyncIterator[LocalRuntime]:
    async with LocalRuntime() as runtime:
        if Offer.WALL_READONLY not in runtime.offers:
            pytest.skip("this kernel has no Landlock of version 5, or the library libseccomp is missing")
        yield runtime


# Each line of output is a change that was made.
_CHANGES = """
import ctypes, fcntl, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
path = sys.argv[1]
def made(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
changes = {
    "open": lambda: os.open(path, os.O_WRONLY), "make": lambda: os.open(path + "n", os.O_WRONLY | os.O_CREAT),
    "truncate": lambda: os.truncate(path, 0), "chmod": lambda: os.chmod(path, 0o600), "utime": lambda: os.utime(path),
    "chown": lambda: os.chown(path, os.getuid(), os.getgid()), "xattr": lambda: os.setxattr(path, "user.x", b"1"),
    "move": lambda: os.rename(path, path + "y"), "link": lambda: os.link(path, path + "z"), "remove": lambda: os.unlink(path),
    "symlink": lambda: os.symlink("x", path + "s"), "mkdir": lambda: os.mkdir(path + "d"), "fifo": lambda: os.mkfifo(path + "f"),
    "nameless": lambda: os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY),
    "through /proc": lambda: os.open("/proc/self/fd/%d" % os.open(path, os.O_RDONLY), os.O_WRONLY),
    "flags": lambda: fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40086602, b"\\0" * 8),
    "verity": lambda: fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40806685, b"\\0" * 128),
    "a service's socket": lambda: socket.socket(socket.AF_UNIX), "the network": lambda: socket.socket(),
    "fchmodat2": lambda: made(libc.syscall(452, -100, path.encode(), 0o600, 0)),
    "setxattrat": lambda: made(libc.syscall(463, -100, path.encode(), 0, b"user.y", (ctypes.c_ulong * 2)(), 16)),
    "a ring": lambda: made(libc.syscall(425, 1, (ctypes.c_char * 120)())),
    "a namespace": lambda: made(libc.unshare(0x10000000)),
    "its parent": lambda: open("/proc/%d/mem" % os.getppid(), "r+b"),
}
for name, change in changes.items():
    try:
        change()
        print(name)
    except OSError:
        pass
"""


async def made_in(box: Sandbox) -> set[str]:
    await box.files.write("kept", b"data")
    await box.files.write("changes.py", _CHANGES.encode())
    outcome, output, complaint = await run(box, "exec python3 changes.py $PWD/kept")
    assert (outcome, complaint) == (Exited(0), "")
    return set(output.splitlines())


async def test_no_file_can_be_changed_behind_a_wall_against_writing(runtime: LocalRuntime) -> None:
    async with box_of(runtime, walls=Walls(is_read_only=True)) as box:
        assert await made_in(box) == set()
        assert (await box.files.read("kept"), await run(box, "cat kept; echo > kept || echo no; : > /dev/null")) == (
            b"data",
            (Exited(0), "datano\n", "/bin/bash: line 1: kept: Permission denied\n"),
        )


async def test_without_it_the_same_changes_are_made(runtime: LocalRuntime) -> None:
    async with box_of(runtime) as box:
        assert {"open", "make", "chmod", "utime", "move", "symlink", "a service's socket"} <= await made_in(box)


async def test_programs_terminals_and_what_is_left_running_write_nothing_either(
    runtime: LocalRuntime, tmp_path: Path
) -> None:
    async with box_of(runtime, walls=Walls(is_read_only=True)) as box:
        program = await box.start(Command(what=Argv(("touch", str(tmp_path / "x")))), "argv")
        shown = await box.start(Command(what=Script(f"touch {tmp_path}/x; echo over"), terminal=Terminal()), "terminal")
        said = text(await collect(shown))
        await run(
            box, f"(setsid bash -c 'echo > {tmp_path}/x' &); sudo -n touch {tmp_path}/x; nohup touch {tmp_path}/x"
        )

        assert (await program.wait(), said.endswith("over\r\n"), os.listdir(tmp_path)) == (Exited(1), True, [])


async def test_a_sandbox_beside_it_and_the_host_are_as_they_were(runtime: LocalRuntime, tmp_path: Path) -> None:
    async with box_of(runtime, walls=Walls(is_read_only=True)) as walled, box_of(runtime) as other:
        await run(walled, "true")

        assert await run(other, f"echo x > {tmp_path}/x; cat {tmp_path}/x") == (
            Exited(0),
            "x\n",
            "",
        )
        (tmp_path / "x").write_text("ours")
        await walled.files.write("file", b"ours too")


async def test_hidden_programs_are_neither_run_nor_copied(runtime: LocalRuntime) -> None:
    async with box_of(runtime, walls=Walls(hidden=frozenset({"rm", "mawk"}))) as box:
        await box.files.write("precious", b"gold")
        attack = (
            "rm precious; /usr/bin/rm precious; busybox rm precious; cp /usr/bin/rm x; ./x precious;"
            " for l in /lib64/ld-linux*; do $l /usr/bin/rm precious; done; awk 'BEGIN { print 7 }'; mv precious moved; ls"
        )

        assert (await run(box, attack))[:2] == (Exited(0), "moved\n")


async def test_only_programs_that_are_named_are_executed(runtime: LocalRuntime) -> None:
    """The loader would load others, so this is no wall here."""
    async with box_of(runtime, walls=Walls(programs=frozenset({"cat", "cp", "git"}))) as box:
        await box.files.write("precious", b"gold")

        assert (await run(box, "rm precious; cp /usr/bin/rm x; ./x precious; python3 -c pass; cat precious"))[:2] == (
            Exited(0),
            "gold",
        )
        if shutil.which("git"):
            assert (await run(box, "git init -q . && git status --short"))[:2] == (Exited(0), "?? precious\n?? x\n")
    assert Offer.WALL_ALLOWED_COMMANDS not in runtime.offers


async def test_only_what_is_named_and_what_programs_need_can_be_read(runtime: LocalRuntime, tmp_path: Path) -> None:
    """Other processes of the host could still be asked for the rest, and whether a file is there is no secret: no wall."""
    for name in ("named", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    private = Path.home() / ".limpet-test-of-walls"
    here = tmp_path if not str(tmp_path).startswith("/tmp") else None
    async with box_of(runtime, walls=Walls(paths=(str(tmp_path / "named"),))) as box:
        reading: tuple[Outcome, str, str] = await run(
            box,
            f"echo x > file; cat file {tmp_path}/named/file; ls / /var {Path.home()}; /usr/bin/python3 -c 'print(7)'",
        )
        if here is not None:
            assert "other" not in (await run(box, f"cat {here}/other/file"))[1]
    assert (reading[1], private.exists()) == ("x\nnamed7\n", False)
    assert Offer.WALL_ALLOWED_PATHS not in runtime.offers


async def test_a_workspace_that_wants_walls_gets_the_one_and_is_refused_the_others(runtime: LocalRuntime) -> None:
    async with open_in(runtime, rules=WorkspaceOptions(policy=Policy(readonly=True, enforce="wall"))) as box:
        assert (await box.run("cat /dev/null; ls")).stdout == b""
    with pytest.raises(OfferMissing, match="a wall for the rule allowed_commands"):
        async with open_in(
            runtime, rules=WorkspaceOptions(policy=Policy(allowed_commands=frozenset({"ls"}), enforce="wall"))
        ):
            pytest.fail("It opened.")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as another user")
async def test_commands_of_another_user_are_behind_it_too(runtime: LocalRuntime) -> None:
    with tempfile.TemporaryDirectory(prefix="limpet-walls-") as directory:
        Path(directory).chmod(0o711)
        place = Path(directory, "box")
        async with box_of(runtime, user_id=65534, directory=place, walls=Walls(is_read_only=True)) as box:
            assert (await run(box, "id -u; touch x 2> /dev/null || echo no"))[1] == "65534\nno\n"


@pytest.mark.timeout(120)
def test_for_an_ordinary_user_it_is_the_same() -> None:
    again_as_an_ordinary_user(__file__)

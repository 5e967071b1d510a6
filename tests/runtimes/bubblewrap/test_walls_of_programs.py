"""Which programs can be run in a box whose walls name them, tried from inside by everything that is known to get around."""

import base64
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.core.command import Argv, Command, Exited, Script, Terminal
from limpet.core.ports import Offer, Sandbox, Walls
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import begin, box_of, collect, run, text
from tests.support.images import image_without_python

pytestmark = pytest.mark.anyio

_READERS = frozenset({"cat", "ls", "tail", "head", "cp", "base64", "mkdir", "ln", "dd", "chmod", "mv", "id", "env"})
_FILE = b"gold"


@pytest.fixture(scope="session")
def own_library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A library that says DONE as soon as it is loaded; nothing where this machine has no compiler."""
    if (compiler := shutil.which("cc")) is None:
        return b""
    source = tmp_path_factory.mktemp("library") / "own.c"
    source.write_text('#include <unistd.h>\n__attribute__((constructor)) void begin(void) { write(1, "DONE", 4); }\n')
    subprocess.run([compiler, "-shared", "-fPIC", "-o", source.with_suffix(".so"), source], check=True, timeout=30)
    return source.with_suffix(".so").read_bytes()


@pytest.fixture
async def walled(runtime: BubblewrapRuntime, own_library: bytes) -> AsyncIterator[Sandbox]:
    """A box with readers and copiers of files, and no `rm`. What lies in `precious` must still be there at the end."""
    if Offer.WALL_ALLOWED_COMMANDS not in runtime.offers:
        pytest.skip("this kernel has no Landlock, or lets this user make no mounts of his own")
    async with box_of(runtime, walls=Walls(programs=_READERS)) as box:
        await box.files.write("precious", _FILE)
        await box.files.write("elf.b64", base64.encodebytes(Path("/usr/bin/rm").read_bytes()))
        await box.files.write("own.so", own_library)
        yield box
        assert await box.files.read("precious") == _FILE


async def test_what_is_named_runs_with_its_libraries_in_scripts_programs_and_terminals(walled: Sandbox) -> None:
    assert (await run(walled, "cat precious | head -c 2; ls; id -u"))[:2] == (
        Exited(0),
        "goelf.b64\nown.so\nprecious\n1000\n",
    )
    program = await walled.start(Command(what=Argv(("cat", "precious"))), "argv")
    shown = await walled.start(Command(what=Script("cat precious"), terminal=Terminal()), "terminal")

    assert (text(await collect(program)), text(await collect(shown))) == ("gold", "gold")


# Each tries to run `rm precious`, or says DONE where it ran something else that is not named.
_ATTACKS = {
    "by name": "rm precious",
    "by path": "/usr/bin/rm precious",
    "by exec": "exec rm precious",
    "under another name": "(exec -a cat /usr/bin/rm precious)",
    "a copy": "cp /usr/bin/rm ./cat; chmod 755 cat; ./cat precious",
    "a copy in every writable place": "for d in ~ /tmp /dev/shm /var/tmp /mnt/data; do cp /usr/bin/rm $d/x; $d/x precious; done",
    "a hard link": "ln /usr/bin/rm x; ./x precious; ln -s /usr/bin/rm y; ./y precious",
    "the loader": "for l in /lib64/ld-linux* /lib/ld-linux*; do $l /usr/bin/rm precious; done",
    "the loader, of a copy": "cp /usr/bin/rm x; for l in /lib64/ld-linux* /lib/ld-linux*; do $l ./x precious; done",
    "a copied loader": "cp /lib64/ld-linux* l; chmod 755 l; ./l /usr/bin/rm precious",
    "from text": "base64 -d elf.b64 > x; chmod 755 x; ./x precious",
    "from text, by the loader": "base64 -d elf.b64 > x; for l in /lib64/ld-linux*; do $l ./x precious; done",
    "from text, through /proc": "base64 -d elf.b64 > x; chmod 755 x; exec 7< x; /proc/self/fd/7 precious",
    "a deleted file": "base64 -d elf.b64 > x; chmod 755 x; exec 7< x; mv x y; mv elf.b64 y; /proc/self/fd/7 precious",
    "a script with another interpreter": "printf '#!/usr/bin/python3\\nprint(\"DONE\")' > s; chmod 755 s; ./s",
    "a script that bash reads": "printf 'rm precious' > s; . ./s; bash s",
    "Python": "python3 -c 'print(\"DONE\")'; /usr/bin/python3.* -c 'print(\"DONE\")'",
    "Perl": "perl -e 'print \"DONE\"'",
    "busybox": "busybox rm precious",
    "another shell": "/bin/sh -c 'rm precious'; rbash -c /usr/bin/rm\\ precious",
    "the agent's Python": "for p in /proc/[0-9]*; do $p/exe -c 'print(\"DONE\")'; done",
    "a preloaded library": "LD_PRELOAD=./own.so cat precious",
    "a library of one's own": "mkdir l; cp own.so l/libc.so.6; LD_LIBRARY_PATH=$PWD/l ls; LD_AUDIT=./own.so cat precious",
    "a builtin from a file": "enable -f ./own.so own; for f in /usr/lib/bash/*; do enable -f $f ${f##*/} && echo DONE; done",
    "by env": "env rm precious; env -i /usr/bin/rm precious",
    "a found program": "PATH=/usr/lib/llvm-14/bin:/usr/libexec:/usr/sbin:$PATH; command rm precious; hash -p /usr/bin/rm cat; cat precious",
    "git's programs": "/usr/lib/git-core/git version && echo DONE",
    "the shell's memory": "exec 7<> /proc/self/mem && echo DONE; dd if=/dev/zero of=/proc/$$/mem bs=1 count=1 && echo DONE",
    "mounts": "mount -o remount,exec /mnt/data && echo DONE; unshare -Ur true && echo DONE",
}


@pytest.mark.parametrize("attack", _ATTACKS.values(), ids=_ATTACKS)
async def test_nothing_that_is_not_named_is_run(walled: Sandbox, attack: str) -> None:
    _, output, _ = await run(walled, attack, timeout=10)

    assert ("DONE" in output, await walled.files.read("precious")) == (False, _FILE)


# In a box without walls these do nothing either: it refuses them for other reasons (test_promises.py).
_NEVER = frozenset({"the agent's Python", "mounts"})
# What not every machine has.
_RARE = {"busybox": "busybox", "git's programs": "/usr/lib/git-core/git", "Perl": "perl"}


@pytest.mark.parametrize("attack", [name for name in _ATTACKS if name not in _NEVER])
async def test_without_walls_each_of_these_ways_leads_somewhere(
    runtime: BubblewrapRuntime, own_library: bytes, attack: str
) -> None:
    if not own_library and "own.so" in _ATTACKS[attack]:
        pytest.skip("this machine has no compiler to make a library with")
    if (program := _RARE.get(attack)) and shutil.which(program) is None:
        pytest.skip(f"this machine has no {program}, which this way leads through")
    async with box_of(runtime) as box:
        await box.files.write("precious", _FILE)
        await box.files.write("elf.b64", base64.encodebytes(Path("/usr/bin/rm").read_bytes()))
        await box.files.write("own.so", own_library)
        _, output, _ = await run(box, _ATTACKS[attack], timeout=10)

        assert "DONE" in output or "precious" not in [one.path.rpartition("/")[2] for one in await box.files.list()]


async def test_the_shell_that_waits_and_every_later_command_obey_too(walled: Sandbox) -> None:
    for _ in range(3):
        assert (await run(walled, "rm precious; exec 7<> /proc/self/mem && echo DONE"))[1] == ""


async def test_a_terminal_and_a_program_without_a_shell_obey_too(walled: Sandbox) -> None:
    program = await walled.start(Command(what=Argv(("/usr/bin/rm", "precious"))), "argv")
    shown = await walled.start(Command(what=Script("rm precious"), terminal=Terminal()), "terminal")

    assert (await program.wait(), await shown.wait()) == (Exited(126), Exited(126))


async def test_commands_that_start_give_no_chance_to_those_that_run(walled: Sandbox) -> None:
    """Between its fork and its exec a command is the agent's Python: no other command may run that."""
    hunter = await begin(
        walled, "while :; do for p in /proc/[1-9]*; do $p/exe -c 'print(\"DONE\")'; done; done 2> /dev/null"
    )
    for number in range(40):
        await walled.start(Command(what=Argv(("cat", "precious"))), f"bait-{number}")
    await hunter.abort()

    assert "DONE" not in text(await collect(hunter))


async def test_no_code_is_made_in_memory(runtime: BubblewrapRuntime) -> None:
    """So that nothing loads a program by hand; but where a program is named that compiles what it runs."""
    async with box_of(runtime, walls=Walls(programs=frozenset({"python3"}))) as box:
        made = await run(box, "python3 -c 'import mmap; mmap.mmap(-1, 4096, prot=7)'")
    async with box_of(runtime, walls=Walls(programs=frozenset({"python3", "node"}))) as box:
        compiled = await run(box, "python3 -c 'import mmap; mmap.mmap(-1, 4096, prot=7)'")

    if _linux() >= (6, 3):
        assert "Permission denied" in made[2]
    assert compiled == (Exited(0), "", "")


def _linux() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int(minor)


async def test_native_code_cannot_execute_a_file_in_memory(runtime: BubblewrapRuntime) -> None:
    """Where an interpreter is named it can do what it likes, but run no other program."""
    script = (
        "import os\n"
        "try: os.memfd_create('x'); print('DONE')\n"
        "except OSError as error: print(error.strerror)\n"
        "for way in ('/usr/bin/rm', '/mnt/data/x', '/proc/self/fd/9'):\n"
        "  try: os.posix_spawn(way, ['rm', 'precious'], {}); print('DONE')\n"
        "  except OSError as error: print(error.strerror)\n"
    )
    async with box_of(runtime, walls=Walls(programs=frozenset({"python3", "cp"}))) as box:
        await box.files.write("script.py", script.encode())
        output = (await run(box, "cp /usr/bin/rm x; exec 9< x; python3 script.py"))[1]

    assert output.splitlines() == ["Operation not permitted"] + 3 * ["Permission denied"]


async def test_a_named_interpreter_has_its_own_libraries(runtime: BubblewrapRuntime) -> None:
    script = (
        "import ssl, sqlite3, json, ctypes, subprocess; print(subprocess.run(['id', '-u'], capture_output=True).stdout)"
    )
    async with box_of(runtime, walls=Walls(programs=frozenset({"python3", "id"}))) as box:
        assert (await run(box, f'python3 -c "{script}"'))[:2] == (Exited(0), "b'1000\\n'\n")


async def test_a_box_without_walls_beside_it_has_every_program(runtime: BubblewrapRuntime, walled: Sandbox) -> None:
    async with box_of(runtime) as other:
        await other.files.write("x", b"")

        assert (await run(other, "rm x; ls; python3 -c 'print(7)'"))[:2] == (Exited(0), "7\n")


async def test_hidden_programs_are_neither_run_nor_read_under_any_name(runtime: BubblewrapRuntime) -> None:
    hidden = frozenset({"rm", "python3", "awk"})
    async with box_of(runtime, walls=Walls(hidden=hidden)) as box:
        await box.files.write("precious", _FILE)
        output = await run(
            box,
            "for p in rm /usr/bin/rm busybox\\ rm '/lib64/ld-linux-x86-64.so.2 /usr/bin/rm' python3 /usr/bin/python3.* mawk awk; do"
            " $p precious && echo DONE; done; cp /usr/bin/rm x; cat /usr/bin/mawk; ./x precious;"
            " for p in /proc/[0-9]*; do $p/exe -c 'print(\"DONE\")'; done; chmod 755 /usr/bin/rm && echo DONE",
        )
        assert ("DONE" in output[1], await box.files.read("precious")) == (False, _FILE)
        assert (await run(box, "perl -e 'print 7'; ls"))[1] == "7precious\n"


async def test_the_shell_stays_where_it_is_hidden_by_its_name(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, walls=Walls(hidden=frozenset({"bash"}))) as box:
        assert (await run(box, "echo here"))[1] == "here\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="a directory that others may not pass is one of root's")
async def test_files_in_a_directory_that_is_closed_to_the_box_are_noexec_too(
    runtime: BubblewrapRuntime, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    async with box_of(runtime, directory=tmp_path / "lasting", walls=Walls(programs=_READERS)) as box:
        assert (await run(box, "cp /usr/bin/id x; chmod 755 x; ./x; id -u"))[1] == "1000\n"


@pytest.mark.parametrize("walls", [Walls(programs=frozenset({"cat", "ls"})), Walls(hidden=frozenset({"ls"}))])
async def test_an_image_without_python_has_the_same_walls(runtime: BubblewrapRuntime, home: Path, walls: Walls) -> None:
    """There the agent's Python and its libraries are mounted, beside what commands may touch."""
    image = image_without_python(home / "image")
    shutil.copy("/usr/bin/rm", image / "usr/bin")
    async with box_of(runtime, image=image, walls=walls) as box:
        await box.files.write("precious", _FILE)
        reached = await run(
            box,
            "for p in /run/limpet/host/bin/python3* /run/limpet/host/bin/id; do $p -c 'print(\"DONE\")';"
            " for l in /lib64/ld-linux* /run/limpet/host/lib64/ld-linux*; do $l $p -c 'print(\"DONE\")'; done; done;"
            " cat /run/limpet/host/bin/id && echo DONE; cat precious",
        )

        assert reached[1] == "gold"
        assert (await run(box, "rm precious; ls; cat /etc/issue"))[1] == (
            "precious\nof the image\n" if walls.programs else "of the image\n"
        )

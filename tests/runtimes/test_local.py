"""What `local` promises beyond the contract: it clears up after its owner, however that ends, and says what it is not."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from limpet.core.command import Aborted, Argv, Command, Exited, Lost, Script, Terminal
from limpet.core.errors import BadCommand, BootFailed, OfferMissing, SandboxGone
from limpet.core.open_files import usual_open_file_limit
from limpet.core.ports import Limits, Offer, Process, Sandbox, SandboxSpec, TimeToLive
from limpet.runtimes import procfs
from limpet.runtimes.impossible import LONGEST_ARGUMENT, LONGEST_SCRIPT
from limpet.runtimes.local.runtime import LocalRuntime

pytestmark = pytest.mark.anyio

OWNER = """
import anyio, json, sys
from limpet.core.command import Command, Script
from limpet.core.ports import SandboxSpec
from limpet.runtimes.local.runtime import LocalRuntime

async def main():
    async with LocalRuntime() as runtime:
        box = await runtime.create(SandboxSpec(name="owned"))
        script = "(setsid env -i /bin/sleep 300 &); sleep 300 & echo ready"
        async for chunk in (await box.start(Command(what=Script(script)), "1")).output():
            facts = dict(box.ref.facts)
            print(json.dumps(facts), flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture
async def runtime() -> AsyncIterator[LocalRuntime]:
    async with LocalRuntime() as runtime:
        yield runtime


async def printed(process: Process) -> bytes:
    return b"".join([chunk.data async for chunk in process.output()])


async def run(box: Sandbox, script: str, exec_id: str = "1", **options: object) -> bytes:
    return await printed(await box.start(Command(what=Script(script), **options), exec_id))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path: Path) -> Iterator[None]:
    """What lies there is of this test alone, whatever runs beside it."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path)
    yield
    tempfile.tempdir = before


def descendants(root: int) -> list[int]:
    """What lives below that process; the dead are left out, but not what hangs below them."""
    found = {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := procfs.stat_of(int(name)))}
    tree = [root]
    for parent in tree:
        tree.extend(pid for pid, stat in found.items() if stat.parent == parent)
    return [pid for pid in tree[1:] if not found[pid].is_dead]


def left_of(box: Sandbox, mark: str) -> list[int]:
    """What lives of a command, by a word of its arguments: a shell that waits for the next one may live beside it."""
    below = descendants(box.ref.facts["pid"])
    return [pid for pid in below if mark.encode() in procfs.read(f"/proc/{pid}/cmdline")]


def lives(pid: int) -> bool:
    stat = procfs.stat_of(pid)
    return stat is not None and not stat.is_dead


def temporary_directories() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("limpet-local-*"))


async def until_gone(pids: list[int]) -> None:
    with anyio.fail_after(5):
        while any(map(lives, pids)):
            await anyio.sleep(0.01)


async def test_an_owner_killed_at_once_leaves_no_process_and_no_directory() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    facts = json.loads(await anyio.to_thread.run_sync(owner.stdout.readline))
    kept = [facts["pid"], *descendants(facts["pid"])]

    owner.kill()
    owner.wait()

    await until_gone(kept)
    assert len(kept) >= 3  # the agent and two sleeps; the shell may be there still
    assert not Path(facts["directory"]).exists()


async def test_closing_the_runtime_ends_what_runs_and_leaves_nothing() -> None:
    async with LocalRuntime() as runtime:
        box = await runtime.create(SandboxSpec(name="one"))
        process = await box.start(Command(what=Script("(setsid sleep 300 &); echo ready; sleep 300")), "1")
        await anext(aiter(process.output()))
        kept = [box.ref.facts["pid"], *descendants(box.ref.facts["pid"])]

    await until_gone(kept)
    assert await process.wait() == Lost("The sandbox is gone. It was destroyed.")
    assert not Path(box.ref.facts["directory"]).exists()


async def test_no_descriptor_is_left(runtime: LocalRuntime) -> None:
    async def once(name: str) -> int:
        box = await runtime.create(SandboxSpec(name=name))
        for exec_id in ("1", "2"):
            process = await box.start(Command(what=Script("echo hello; sleep 60 &"), stdin=b"x"), exec_id)
            await printed(process)
        await process.forget()
        await box.destroy()
        return len(os.listdir("/dev/fd"))

    first = await once("first")

    assert await once("second") == first


async def test_a_dead_agent_is_a_sandbox_that_is_gone_with_all_that_ran_in_it(runtime: LocalRuntime) -> None:
    box = await runtime.create(SandboxSpec(name="one"))
    await run(box, "(setsid env -i /bin/sleep 300 > /dev/null 2>&1 &)", "0")
    process = await box.start(Command(what=Script("echo ready; exec sleep 300")), "1")
    await anext(aiter(process.output()))
    kept = descendants(box.ref.facts["pid"])

    os.kill(box.ref.facts["pid"], signal.SIGKILL)

    assert isinstance(await process.wait(), Lost)
    with pytest.raises(SandboxGone):
        await box.touch()
    with pytest.raises(SandboxGone):
        await box.start(Command(what=Script("true")), "2")
    await until_gone(kept)
    assert len(kept) >= 2
    with anyio.fail_after(5):
        while Path(box.ref.facts["directory"]).exists():
            await anyio.sleep(0.01)


async def test_only_a_few_variables_of_the_host_pass(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("TZ", "UTC")
    box = await runtime.create(SandboxSpec(name="one", env={"OWN": "1"}))

    names = {line.partition(b"=")[0].decode() for line in (await run(box, "env")).splitlines()}

    shell = {"PWD", "SHLVL", "_", "OLDPWD"}
    assert names - shell <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "HOME", "LIMPET_DATA", "OWN"}
    assert {"PATH", "TZ", "HOME", "LIMPET_DATA", "OWN"} <= names


async def test_the_named_directory_holds_data_and_home(runtime: LocalRuntime, tmp_path: Path) -> None:
    box = await runtime.create(SandboxSpec(name="one", directory=tmp_path / "box"))

    output = await run(box, "printf a > file; printf b > ~/file; pwd; echo $LIMPET_DATA; cd ~ && pwd", cwd="/mnt/data/")
    await box.destroy()

    data, home = tmp_path / "box" / "data", tmp_path / "box" / "home"
    assert output.decode().split() == [str(data), str(data), str(home)]
    assert ((data / "file").read_text(), (home / "file").read_text()) == ("a", "b")


async def test_a_working_directory_may_lie_anywhere_on_the_host(runtime: LocalRuntime) -> None:
    box = await runtime.create(SandboxSpec(name="one"))

    assert await run(box, "pwd", cwd="/usr") == b"/usr\n"


@pytest.mark.parametrize(
    "spec",
    [
        SandboxSpec(name="one", lifetime=TimeToLive(10)),
        SandboxSpec(name="one", limits=Limits(memory=1 << 30)),
        SandboxSpec(name="one", needs=frozenset({Offer.ISOLATION})),
        SandboxSpec(name="one", image=Path("/")),
        SandboxSpec(name="one", read_only={"/skills": Path("/usr")}),
    ],
    ids=["lifetime", "limits", "needs", "image", "read_only"],
)
async def test_what_it_cannot_do_is_refused_and_nothing_starts(runtime: LocalRuntime, spec: SandboxSpec) -> None:
    before = descendants(os.getpid())

    with pytest.raises(OfferMissing):
        await runtime.create(spec)

    assert descendants(os.getpid()) == before


async def test_a_name_that_is_no_name_is_refused(runtime: LocalRuntime) -> None:
    with pytest.raises(BootFailed, match="Use 1 to 64"):
        await runtime.create(SandboxSpec(name="../up"))


async def test_a_cancelled_creation_leaves_nothing(runtime: LocalRuntime) -> None:
    before, others = temporary_directories(), descendants(os.getpid())
    for milliseconds in range(0, 60, 3):
        with anyio.move_on_after(milliseconds / 1000):
            await (await runtime.create(SandboxSpec(name="one"))).destroy()

    await until_gone([pid for pid in descendants(os.getpid()) if pid not in others])
    assert temporary_directories() == before


async def test_a_command_that_is_too_long_for_the_system_is_refused(runtime: LocalRuntime) -> None:
    box = await runtime.create(SandboxSpec(name="one"))
    for size in (LONGEST_ARGUMENT, LONGEST_ARGUMENT + 1, LONGEST_SCRIPT - 16):
        assert await run(box, "#" * size, str(size)) == b""
    with pytest.raises(BadCommand, match="too long"):
        await run(box, "#" * (LONGEST_SCRIPT + 1), "2")


async def test_a_fork_bomb_is_ended_by_an_abort(runtime: LocalRuntime) -> None:
    box = await runtime.create(SandboxSpec(name="one"))
    bomb = "ulimit -u 100000; fork() { echo x; sleep 0.01; fork & fork & wait; }; fork"
    process = await box.start(Command(what=Script(bomb)), "1")
    await anext(aiter(process.output()))

    with anyio.fail_after(10):
        await process.abort()

    assert await process.wait() == Aborted()
    assert left_of(box, "fork") == []


async def test_a_tree_is_killed_although_its_root_is_no_shell(runtime: LocalRuntime) -> None:
    box = await runtime.create(SandboxSpec(name="one"))
    argv = Argv(("sh", "-c", "(setsid sleep 300 &); exec sleep 300"))
    process = await box.start(Command(what=argv, timeout=0.3), "1")

    await process.wait()

    assert left_of(box, "sleep") == []


async def test_commands_hold_no_descriptors_but_their_own_three(runtime: LocalRuntime) -> None:
    box = await runtime.create(SandboxSpec(name="one"))
    other = await box.start(Command(what=Script("read -r x"), keeps_stdin_open=True), "1")

    # The fourth is ls's own, on the directory.
    assert (await run(box, "exec ls /proc/self/fd", "2")).split() == [b"0", b"1", b"2", b"3"]
    await other.close_stdin()
    assert await other.wait() == Exited(1)


async def test_commands_start_in_the_directory_that_is_there_now(runtime: LocalRuntime, tmp_path: Path) -> None:
    box = await runtime.create(SandboxSpec(name="one", directory=tmp_path / "box"))
    data = tmp_path / "box" / "data"
    await run(box, "true", "1")
    await run(box, "true", "2")  # from now on a shell waits for the next command
    data.rename(tmp_path / "old")
    data.mkdir()

    assert await run(box, "touch new; pwd; pwd -P", "3") == f"{data}\n{data.resolve()}\n".encode()
    assert (os.listdir(data), os.listdir(tmp_path / "old")) == (["new"], [])
    assert await run(box, "ls", "4") == b"new\n"


async def test_commands_may_open_as_many_files_as_their_owner_might_at_its_start(runtime: LocalRuntime) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        box = await runtime.create(SandboxSpec(name="one"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    expected = f"{usual_open_file_limit()[0]}\n".encode()
    assert [await run(box, "ulimit -n", str(number)) for number in range(3)] == [expected] * 3


async def test_a_program_on_a_terminal_is_told_so_unless_the_sandbox_says_otherwise(runtime: LocalRuntime) -> None:
    async def term(box: Sandbox, **env: str) -> list[bytes]:
        here = await run(box, "echo $TERM", "1", env=env)
        shown = await run(box, "echo $TERM", "2", env=env, terminal=Terminal())
        return [here.strip(), shown.strip()]

    plain = await runtime.create(SandboxSpec(name="plain"))
    own = await runtime.create(SandboxSpec(name="own", env={"TERM": "vt100"}))

    assert await term(plain) == [b"dumb", b"xterm-256color"]
    assert await term(own) == [b"vt100", b"vt100"]


async def test_commands_have_the_usual_mask_of_modes_also_in_a_shell_that_waited(runtime: LocalRuntime) -> None:
    before = os.umask(0o077)
    try:
        box = await runtime.create(SandboxSpec(name="one"))
    finally:
        os.umask(before)

    for number in range(4):
        assert await run(box, "umask", str(number)) == b"0022\n"
        with anyio.fail_after(5):
            while not descendants(box.ref.facts["pid"]):  # the shell that waits for the next one
                await anyio.sleep(0.005)

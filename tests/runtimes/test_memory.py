"""What `memory` promises beyond the contract: nothing of the host is in reach, and what it cannot do it says."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from limpet.core.command import Argv, Command, Exited, Outcome, Script, Terminal
from limpet.core.errors import FileError, OfferMissing, PathOutside, SandboxFull
from limpet.core.ports import Limits, Sandbox, SandboxSpec, TimeToLive
from limpet.runtimes.memory import MemoryRuntime

pytestmark = pytest.mark.anyio


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with MemoryRuntime() as runtime:
        yield await runtime.create(SandboxSpec(name="one"))


async def run(box: Sandbox, script: str, exec_id: str = "1") -> tuple[Outcome, bytes, bytes]:
    process = await box.start(Command(what=Script(script)), exec_id)
    chunks = [chunk async for chunk in process.output()]
    out, err = (b"".join(chunk.data for chunk in chunks if chunk.stream == one) for one in ("stdout", "stderr"))
    return await process.wait(), out, err


async def test_a_program_of_the_host_is_not_there(box: Sandbox) -> None:
    outcome, _, stderr = await run(box, "python3 -c 'print(1)'")

    assert (outcome, b"python3" in stderr) == (Exited(127), True)


async def test_the_hosts_files_are_not_there(box: Sandbox) -> None:
    script = f"ls {Path(__file__).parent}; cat {Path(__file__)} /mnt/data/../../..{Path(__file__)} /proc/1/root{Path(__file__)}"

    assert (await run(box, script))[1] == b""


async def test_there_is_no_network(box: Sandbox) -> None:
    outcome, stdout, _ = await run(box, "curl -s http://127.0.0.1:9/")

    assert (outcome == Exited(0), stdout) == (False, b"")


async def test_temporary_files_last_from_command_to_command(box: Sandbox) -> None:
    await run(box, "echo kept > /tmp/file")

    assert (await run(box, "cat /tmp/file", "2"))[1] == b"kept\n"


async def test_a_long_loop_is_bounded_by_time_only(box: Sandbox) -> None:
    assert (await run(box, "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo $i"))[1] == b"30000\n"


async def test_a_loop_without_end_leaves_the_event_loop_free(box: Sandbox) -> None:
    process = await box.start(Command(what=Script("while true; do :; done"), timeout=30.0), "1")

    with anyio.fail_after(2):
        for _ in range(20):
            await anyio.sleep(0.01)
        await process.abort()


async def test_output_that_bashkit_cuts_off_is_said_to_be_cut(box: Sandbox) -> None:
    await box.files.write("big", bytes(6_000_000))

    _, stdout, stderr = await run(box, "cat big big")

    assert (len(stdout) < 12_000_000, b"cut off" in stderr) == (True, True)


@pytest.mark.parametrize(
    "command",
    [
        Command(what=Script("cat"), stdin=b"x"),
        Command(what=Script("cat"), keeps_stdin_open=True),
        Command(what=Script("cat"), terminal=Terminal()),
    ],
    ids=["stdin", "stdin kept open", "terminal"],
)
async def test_input_and_terminals_are_refused(box: Sandbox, command: Command) -> None:
    with pytest.raises(OfferMissing):
        await box.start(command, "1")


async def test_a_word_of_an_argv_is_never_an_assignment_or_a_keyword(box: Sandbox) -> None:
    for args in (("A=1",), ("if",), ("~",)):
        process = await box.start(Command(what=Argv(args)), args[0])
        assert await process.wait() in (Exited(127), Exited(126)), args


@pytest.mark.parametrize(
    "spec",
    [
        SandboxSpec(name="one", lifetime=TimeToLive(10)),
        SandboxSpec(name="one", limits=Limits(processes=1)),
        SandboxSpec(name="one", directory=Path("/tmp/never-made")),
        SandboxSpec(name="one", image=Path("/")),
        SandboxSpec(name="one", read_only={"/skills": Path("/usr")}),
    ],
    ids=["lifetime", "limits", "directory", "image", "read_only"],
)
async def test_what_it_cannot_do_is_refused(spec: SandboxSpec) -> None:
    async with MemoryRuntime() as runtime:
        with pytest.raises(OfferMissing):
            await runtime.create(spec)
    assert not Path("/tmp/never-made").exists()


async def test_a_name_that_bashkit_refuses_is_an_error_of_the_file(box: Sandbox) -> None:
    with pytest.raises(FileError, match="unsafe character"):
        await box.files.write("line\nbreak", b"")


async def test_a_file_that_is_too_large_leaves_the_old_one(box: Sandbox) -> None:
    await box.files.write("file", b"old")

    with pytest.raises(SandboxFull):
        await box.files.write("file", bytes(10_000_001))

    assert await box.files.read("file") == b"old"
    assert [one.path for one in await box.files.list()] == ["/mnt/data/file"]


async def test_a_link_between_the_roots_is_not_followed_from_outside(box: Sandbox) -> None:
    await run(box, "echo x > ~/file; ln -s /home/agent d; ln -s /home/agent/file f")

    for path in ("d/file", "f"):
        with pytest.raises(PathOutside):
            await box.files.read(path)


async def test_where_an_endless_device_ends_after_a_mebibyte_the_result_says_so(box: Sandbox) -> None:
    process = await box.start(Command(what=Script("head -c 2000000 /dev/zero | wc -c")), "1")
    printed = b"".join([chunk.data async for chunk in process.output()])
    await process.wait()
    assert (printed, [note for note in process.notes() if "1 MiB" in note] == list(process.notes())) == (
        b"1048576\n",
        True,
    )
    assert len(process.notes()) == 1


async def test_where_a_program_without_end_is_cut_off_stderr_says_so(box: Sandbox) -> None:
    _, stdout, stderr = await run(box, "yes | wc -l")
    assert (stdout, b"10000 lines" in stderr) == (b"10000\n", True)

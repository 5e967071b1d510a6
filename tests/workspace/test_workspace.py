"""Commands through the one door, on a real runtime."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from limpet.core.command import Aborted, Command, Exited, Script, Terminal, TimedOut
from limpet.core.errors import BadCommand, OfferMissing, WorkingDirectoryMissing
from limpet.core.ports import Process
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.runtimes.memory import MemoryRuntime
from limpet.workspace.delivery import Delivery, follow
from limpet.workspace.opening import SandboxOptions, open_in
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import opened, workspace_on

pytestmark = pytest.mark.anyio

MOST = 5.0  # seconds


@pytest.fixture(params=["local", "bubblewrap"])
async def box(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Workspace]:
    async with workspace_on(request.param, home) as workspace:
        yield workspace


@pytest.mark.statement("s1-run-goes-to-completion", "s1-a-result-has-output-code-and-duration", "s1-local-has-a-shell")
async def test_a_script_gives_both_streams_and_its_exit_code(box: Workspace) -> None:
    result = await box.run("echo out; echo err >&2; exit 3")

    assert (result.stdout, result.stderr, result.outcome, result.exit_code) == (b"out\n", b"err\n", Exited(3), 3)
    assert 0 < result.duration < MOST
    assert not result.run_succeeded


async def test_a_sequence_is_a_program_with_arguments_that_no_shell_reads(box: Workspace) -> None:
    result = await box.run(["printf", "%s|", "$HOME", "a b"])

    assert result.stdout == b"$HOME|a b|"


@pytest.mark.statement("s1-run-takes-a-cwd", "s1-run-takes-an-env", "s1-stdin-can-be-given")
async def test_place_variables_and_input_reach_the_command(box: Workspace) -> None:
    await box.run("mkdir sub")
    result = await box.run('basename "$PWD"; echo $WHO; cat', cwd="sub", env={"WHO": "me"}, stdin=b"typed")

    assert result.stdout == b"sub\nme\ntyped"


async def test_a_directory_that_is_missing_is_an_error_that_names_it(box: Workspace) -> None:
    with pytest.raises(WorkingDirectoryMissing, match="nowhere"):
        await box.run("true", cwd="nowhere")


async def test_an_empty_list_is_refused(box: Workspace) -> None:
    with pytest.raises(BadCommand):
        await box.run([])


@pytest.mark.statement("s1-output-is-always-whole")
async def test_output_is_whole_at_any_length(box: Workspace) -> None:
    result = await box.run("head -c 9000000 /dev/zero | tr '\\0' x; echo end >&2")

    assert (len(result.stdout), result.stdout.strip(b"x"), result.stderr) == (9_000_000, b"", b"end\n")


async def test_without_keeping_the_output_only_its_size_is_known(box: Workspace) -> None:
    seen = bytearray()

    async def see(data: bytes) -> None:
        seen.extend(data)

    result = await box.run("echo hello", keep_output=False, on_stdout=see)

    assert (result.stdout, result.kept["stdout"].size, bytes(seen)) == (b"", 6, b"hello\n")


@pytest.mark.statement("s1-callbacks-are-awaited", "s1-without-callbacks-all-comes-at-once")
async def test_callbacks_see_every_byte_one_chunk_at_a_time(box: Workspace) -> None:
    seen: dict[str, bytes] = {"stdout": b"", "stderr": b""}
    inside = 0

    async def see(stream: str, data: bytes) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        await anyio.lowlevel.checkpoint()
        seen[stream] += data
        inside -= 1

    result = await box.run(
        "for i in $(seq 200); do echo $i; echo $i >&2; done",
        on_stdout=lambda data: see("stdout", data),
        on_stderr=lambda data: see("stderr", data),
    )

    alone = await box.run("for i in $(seq 200); do echo $i; echo $i >&2; done")
    assert result.callback_errors == ()
    assert seen == {"stdout": result.stdout, "stderr": result.stderr}
    assert (alone.stdout, alone.stderr, alone.outcome) == (result.stdout, result.stderr, result.outcome)


@pytest.mark.statement("s1-errors-of-callbacks-are-collected")
async def test_an_error_of_a_callback_is_collected_and_the_command_goes_on(box: Workspace) -> None:
    async def fail(data: bytes) -> None:
        raise ValueError(data.decode())

    result = await box.run("echo one; echo two >&2", on_stdout=fail)

    assert (result.stdout, result.stderr, result.exit_code) == (b"one\n", b"two\n", 0)
    assert [str(error) for error in result.callback_errors] == ["one\n"]
    assert not result.run_succeeded


@pytest.mark.statement("s1-callbacks-are-awaited")
async def test_a_timeout_ends_a_run_whose_callback_never_returns(box: Workspace) -> None:
    heard: list[bytes] = []

    async def never(data: bytes) -> None:
        heard.append(data)
        await anyio.sleep_forever()

    delivery = Delivery({"stdout": never, "stderr": None}, keep_output=True, late=0.1)
    process = await box.spawn("echo one; sleep 60", timeout=0.3)
    with anyio.fail_after(MOST):
        outcome = await follow(process, delivery, timeout=0.3)
    result = delivery.result(outcome, duration=0.3)

    assert result.outcome == TimedOut()
    assert [type(error) for error in result.callback_errors] == [TimeoutError]
    assert (heard, result.stdout) == ([b"one\n"], b"one\n")


async def test_a_slow_callback_slows_the_command_down(box: Workspace) -> None:
    gate = anyio.Event()
    started = anyio.Event()

    async def wait(_: bytes) -> None:
        started.set()
        await gate.wait()

    with anyio.fail_after(4 * MOST):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: box.run("head -c 30000000 /dev/zero; touch done", on_stdout=wait, keep_output=False)
            )
            await started.wait()
            with anyio.move_on_after(1.0):
                while True:
                    await anyio.sleep(0.05)
                    assert "/mnt/data/done" not in [stat.path for stat in await box.files.list()]
            gate.set()
    assert "/mnt/data/done" in [stat.path for stat in await box.files.list()]


@pytest.mark.statement("s1-run-takes-a-timeout")
async def test_a_timeout_keeps_what_came_before(box: Workspace) -> None:
    result = await box.run("echo before; sleep 60", timeout=0.3)

    assert (result.stdout, result.outcome, result.exit_code) == (b"before\n", TimedOut(), 124)


@pytest.mark.statement("s1-abort-kills-the-process", "s1-chunks-after-an-abort-are-dropped")
async def test_an_abort_keeps_what_came_before_and_delivers_nothing_later(box: Workspace) -> None:
    abort = anyio.Event()
    delivered = []

    async def stop(data: bytes) -> None:
        delivered.append(data)
        abort.set()
        await anyio.sleep_forever()

    with anyio.fail_after(MOST):
        result = await box.run("echo first; while sleep 0.05; do echo later; done", on_stdout=stop, abort=abort)

    assert (result.outcome, result.exit_code, result.stdout, delivered) == (Aborted(), -1, b"first\n", [b"first\n"])
    assert result.callback_errors == ()


@pytest.mark.statement("s1-aborted-before-the-start-runs-nothing")
async def test_an_abort_before_the_start_runs_nothing(box: Workspace) -> None:
    abort = anyio.Event()
    abort.set()

    result = await box.run("touch ran", abort=abort)

    assert (result.outcome, result.duration) == (Aborted(), 0.0)
    assert await box.files.list() == []


async def test_an_abort_that_never_comes_changes_nothing(box: Workspace) -> None:
    result = await box.run("echo fine", abort=anyio.Event())

    assert (result.stdout, result.outcome) == (b"fine\n", Exited(0))


async def test_cancelling_the_caller_kills_the_command_and_its_children(box: Workspace) -> None:
    mark = f"31.{secrets.randbelow(10**9)}"
    started = anyio.Event()

    async def see(_: bytes) -> None:
        started.set()

    with anyio.fail_after(MOST):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: box.run(f"setsid sleep {mark} & sleep {mark} & echo up; wait", on_stdout=see))
            await started.wait()
            tasks.cancel_scope.cancel()

    left = await box.run(
        f"for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -x 'sleep {mark} '; done"
    )
    assert left.stdout == b""


@pytest.mark.statement("s1-spawn-is-there", "s1-stdin-can-be-given")
async def test_a_spawned_process_is_talked_to(box: Workspace) -> None:
    process = await box.spawn("while read line; do echo got $line; done")
    await process.write(b"a\nb\n")
    await process.close_stdin()

    assert await _text(process) == b"got a\ngot b\n"
    assert await process.wait() == Exited(0)


@pytest.mark.statement("s1-a-pty-can-be-asked-for")
async def test_a_spawned_process_may_have_a_terminal_of_a_size(box: Workspace) -> None:
    process = await box.spawn("stty size; read line; echo got $line", pty=Terminal(columns=100, rows=30))
    await process.write(b"typed\n")

    with anyio.fail_after(MOST):
        assert await process.wait() == Exited(0)
    # The terminal shows what is typed when it is typed, which may be before the first line of output.
    assert sorted((await _text(process)).split()) == sorted(b"30 100 typed got typed".split())


@pytest.mark.statement("s1-memory-has-a-shell")
async def test_the_runtime_memory_has_a_shell_too() -> None:
    async with MemoryRuntime() as runtime, open_in(runtime) as box:
        result = await box.run("x=3; echo $((x * 14)) | tee file; cat file; exit 2")
    assert (result.stdout, result.exit_code) == (b"42\n42\n", 2)


async def test_a_command_is_found_again_under_its_id(box: Workspace) -> None:
    command = Command(what=Script("echo once >> log; echo done"))
    first = await box.start(command, "exec_1")
    second = await box.start(command, "exec_1")
    assert await first.wait() == Exited(0)

    found = await box.find("exec_1")

    assert found is not None
    assert (await _text(found), await _text(second)) == (b"done\n", b"done\n")
    assert await box.files.read("log") == b"once\n"
    assert await box.find("exec_2") is None


@pytest.mark.statement("s1-what-is-not-offered-fails-at-opening")
async def test_what_the_runtime_does_not_offer_is_refused_when_it_is_opened() -> None:
    async with LocalRuntime() as runtime:
        with pytest.raises(OfferMissing, match="attach"):
            async with open_in(runtime, opening=SandboxOptions(lifetime="ttl")):
                pytest.fail("It opened.")


async def test_two_boxes_of_one_name_live_side_by_side() -> None:
    async with LocalRuntime() as runtime, open_in(runtime, "same") as one, open_in(runtime, "same") as two:
        assert (await one.run("echo 1")).stdout + (await two.run("echo 2")).stdout == b"1\n2\n"


async def test_a_box_with_a_time_to_live_is_entered_again(home: Path) -> None:
    async with opened("bubblewrap", home) as runtime:
        async with open_in(runtime, opening=SandboxOptions(lifetime="ttl", ttl=60)) as first:
            await first.run("echo kept > file")
        async with open_in(runtime, opening=SandboxOptions(ref=first.ref)) as second:
            assert (await second.run("cat file")).stdout == b"kept\n"


async def _text(process: Process) -> bytes:
    return b"".join([chunk.data async for chunk in process.output()])

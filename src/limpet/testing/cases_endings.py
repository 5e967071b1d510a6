"""How a command is ended: by its timeout, by an abort, or by its shell's exit while a detached process goes on."""

import anyio

from limpet.core.command import Aborted, Exited, TimedOut
from limpet.core.ports import Offer, Process
from limpet.testing.lab import Lab, eventually, expect, finished, same
from limpet.testing.suite import Cases

ENDINGS = Cases()
case = ENDINGS.case

# A child, a grandchild whose parent is gone, and one that left for a session of its own; each writes its pid.
CHILD = "sleep 300 & echo $! > pid; "
GRANDCHILD = "(sleep 300 & echo $! > pid); "
SETSID = "setsid bash -c 'echo $$ > pid; exec sleep 300' & "
DAEMON = "(setsid env -i /bin/sh -c 'echo $$ > pid; exec sleep 300' &); "


async def pid_in(lab: Lab) -> int:
    return int(await lab.until_file("pid"))


async def start_and_time_out(lab: Lab, script: str) -> None:
    """Run it under a time limit that is over once it has written its pid; that process must be gone too."""
    process = await lab.start(f"{script} wait; sleep 300", timeout=0.7)
    pid = await pid_in(lab)
    expect(not await lab.is_gone(pid), f"process {pid} should live before the time is over")
    same(await process.wait(), TimedOut(), "the outcome")
    await lab.until_gone(pid)


async def start_and_abort(lab: Lab, script: str) -> None:
    process = await lab.start(f"{script} wait; sleep 300")
    pid = await pid_in(lab)
    expect(not await lab.is_gone(pid), f"process {pid} should live before the abort")
    await process.abort()
    same(await process.wait(), Aborted(), "the outcome")
    await lab.until_gone(pid)


@case()
async def a_timeout_ends_it_and_keeps_what_it_printed(lab: Lab) -> None:
    ran = await lab.run("echo out; echo err >&2; sleep 60; echo never", timeout=0.3)
    same((ran.outcome, ran.stdout, ran.stderr), (TimedOut(), b"out\n", b"err\n"), "what is left")


@case(Offer.DETACHED)
async def a_timeout_kills_the_children_too(lab: Lab) -> None:
    await start_and_time_out(lab, CHILD)


@case(Offer.DETACHED)
async def a_timeout_kills_the_grandchildren_too(lab: Lab) -> None:
    await start_and_time_out(lab, GRANDCHILD)


@case(Offer.DETACHED)
async def a_timeout_kills_what_called_setsid(lab: Lab) -> None:
    await start_and_time_out(lab, SETSID)


@case(Offer.DETACHED)
async def a_timeout_kills_an_orphan_with_a_session_and_an_environment_of_its_own(lab: Lab) -> None:
    await start_and_time_out(lab, DAEMON)


@case()
async def a_timeout_ends_a_command_that_ignores_signals(lab: Lab) -> None:
    ran = await lab.run("trap '' TERM INT HUP; echo deaf; while :; do sleep 0.05; done", timeout=0.3)
    same((ran.outcome, ran.stdout), (TimedOut(), b"deaf\n"), "the outcome")


@case(Offer.CONCURRENT)
async def a_timeout_spares_other_commands(lab: Lab) -> None:
    other = await lab.start("while [ ! -e go ]; do sleep 0.02; done; echo spared")
    same((await lab.run("sleep 60", timeout=0.2)).outcome, TimedOut(), "the outcome")
    await lab.box.files.write("go", b"")
    same((await finished(other)).stdout, b"spared\n", "the output of the other")


@case(Offer.DETACHED)
async def a_timeout_spares_what_an_earlier_command_left_behind(lab: Lab) -> None:
    await lab.run("sleep 300 > /dev/null 2>&1 & echo $! > pid")
    same((await lab.run("sleep 60", timeout=0.2)).outcome, TimedOut(), "the outcome")
    expect(not await lab.is_gone(await pid_in(lab)), "the process that an earlier command left should live")


@case()
async def the_time_is_kept_while_nobody_listens(lab: Lab) -> None:
    process = await lab.start("sleep 60", timeout=0.2)

    async def has_ended() -> bool:
        with anyio.move_on_after(0.01):
            return await process.wait() == TimedOut()
        return False

    await eventually(has_ended, "its time is over", within=2)


@case()
async def an_abort_ends_it_and_keeps_what_it_printed(lab: Lab) -> None:
    process = await lab.start("echo out; echo ready > ready; sleep 60; echo never")
    await lab.until_file("ready")
    await abort_within(process, 2)
    ran = await finished(process)
    same((ran.outcome, ran.stdout), (Aborted(), b"out\n"), "what is left")


@case(Offer.DETACHED)
async def an_abort_kills_the_children_too(lab: Lab) -> None:
    await start_and_abort(lab, CHILD)


@case(Offer.DETACHED)
async def an_abort_kills_what_called_setsid(lab: Lab) -> None:
    await start_and_abort(lab, SETSID)


@case(Offer.DETACHED)
async def an_abort_kills_an_orphan_with_a_session_and_an_environment_of_its_own(lab: Lab) -> None:
    await start_and_abort(lab, DAEMON)


@case()
async def an_abort_at_once_ends_it(lab: Lab) -> None:
    process = await lab.start("sleep 60")
    await abort_within(process, 2)
    same(await process.wait(), Aborted(), "the outcome")


@case()
async def aborting_twice_is_quiet(lab: Lab) -> None:
    process = await lab.start("sleep 60")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.abort)
        tasks.start_soon(process.abort)
    await process.abort()
    same(await process.wait(), Aborted(), "the outcome")


@case()
async def aborting_what_has_ended_changes_nothing(lab: Lab) -> None:
    process = await lab.start("echo out; exit 4")
    await finished(process)
    await process.abort()
    ran = await finished(process)
    same((ran.outcome, ran.stdout), (Exited(4), b"out\n"), "the outcome")


@case(Offer.STREAMING)
async def an_abort_works_while_a_reader_lags(lab: Lab) -> None:
    await lab.box.files.write("big", b"x" * 4_000_000)
    process = await lab.start("while :; do cat big; done")
    output = process.output()
    await anext(output)
    await abort_within(process, 3)
    same(await process.wait(), Aborted(), "the outcome")


@case()
async def a_command_goes_on_when_its_listener_is_cancelled(lab: Lab) -> None:
    process = await lab.start("while [ ! -e go ]; do sleep 0.02; done; echo done")
    with anyio.move_on_after(0.1):
        await finished(process)
    await lab.box.files.write("go", b"")
    same((await finished(process)).stdout, b"done\n", "the output")


@case(Offer.DETACHED)
async def a_command_ends_with_its_shell_although_a_child_holds_its_pipes(lab: Lab) -> None:
    process = await lab.start("sleep 300 & echo shell")
    with anyio.move_on_after(2):
        ran = await finished(process)
        same((ran.outcome, ran.stdout), (Exited(0), b"shell\n"), "the outcome")
        return
    expect(False, "it waited for the child that holds its pipes")


@case(Offer.DETACHED)
async def what_a_command_leaves_behind_lives_on(lab: Lab) -> None:
    await lab.run("sleep 300 & echo $! > pid")
    pid = await pid_in(lab)
    await lab.run("true")
    expect(not await lab.is_gone(pid), f"process {pid} should live after its command and the next")


@case(Offer.DETACHED)
async def forgetting_a_command_spares_what_it_left_behind(lab: Lab) -> None:
    process = await lab.start("(while [ ! -e go ]; do sleep 0.02; done; echo still here; echo alive > alive) & true")
    await finished(process)
    await process.forget()
    await lab.box.files.write("go", b"")
    same(await lab.until_file("alive"), b"alive\n", "what the survivor wrote after it had printed")


async def abort_within(process: Process, seconds: float) -> None:
    with anyio.move_on_after(seconds) as scope:
        await process.abort()
    expect(not scope.cancelled_caught, f"the abort took longer than {seconds:g} s")

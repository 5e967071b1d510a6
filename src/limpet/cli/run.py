"""`limpet run`: one command in a fresh box, its input and output passed on as they come, its exit code handed back."""

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO

import anyio

from limpet import wiring
from limpet.cli.standard_input import feed, has_input, has_unread_input
from limpet.cli.terminal import let_go_of
from limpet.core.command import Aborted, Command, Lost
from limpet.core.errors import ConfigInvalid, SandboxClosed, SandboxGone
from limpet.core.ids import new_id
from limpet.core.ports import Offer
from limpet.workspace.delivery import Delivery, OnOutput, follow
from limpet.workspace.result import RunResult
from limpet.workspace.shell import EXEC, LETTING_GO, Shell, as_program

CODE_OF_A_BROKEN_PIPE = 141  # as shells report SIGPIPE


def run(
    command: Sequence[str],
    *,
    runtime: str,
    timeout: float | None,
    unsafe_local: bool,
    allow: Sequence[str] = (),
    image: str | None = None,
) -> int:
    """Run it and return its exit code: 124 for a timeout, 125 where its box was lost under it.

    One word is a script for the box's shell, several are a program and its arguments. Its standard input is this program's, as
    it comes; where the runtime takes none and bytes were sent, a line on standard error says that they were not read. `allow` are
    the hosts that it may reach, `image` has its programs. Raises LimpetError where no box can be had.
    """
    refuse_unmeant("limpet run", runtime, unsafe_local=unsafe_local)
    return anyio.run(_run, command, runtime, timeout, allow, image)


def refuse_unmeant(command: str, runtime: str, *, unsafe_local: bool) -> None:
    """ConfigInvalid for the runtime that isolates nothing, unless it was asked for in so many words."""
    if runtime == "local" and not unsafe_local:
        raise ConfigInvalid(
            command, "--runtime", "local runs on this host with nothing around it; add --unsafe-local if you mean it"
        )


async def _run(
    command: Sequence[str], runtime: str, timeout: float | None, allow: Sequence[str], image: str | None
) -> int:
    reader_left = anyio.Event()
    async with (
        wiring.load_runtime(runtime, where="limpet run", key="--runtime") as opened,
        wiring.open_workspace("run", runtime=opened, network=hosts_of(allow), image=image) as box,
    ):
        takes_input = Offer.STDIN in opened.offers
        program = as_program(_program(command, opened.offers))
        is_fed = takes_input and has_input()
        wanted = Command(what=program, timeout=timeout, keeps_stdin_open=is_fed, read_once=True)
        result = await run_here(box, wanted, reader_left)
    if not takes_input and has_unread_input():
        print(f"limpet: the runtime {runtime} takes no standard input; it was not read.", file=sys.stderr)
    return code_of(result)


async def run_here(box: Shell, command: Command, stop: anyio.Event) -> RunResult:
    """Run a command on this program's standard streams; `stop` kills it. Its input is fed where it keeps that open.

    A command that ends is not kept by input that has not. However this ends, nothing of the command is left.
    """
    begun = anyio.current_time()
    delivery = Delivery(
        {"stdout": writer(sys.stdout.buffer, stop), "stderr": writer(sys.stderr.buffer, stop)}, keep_output=False
    )
    process = await box.start(command, new_id(EXEC))
    try:
        async with anyio.create_task_group() as tasks:
            if command.keeps_stdin_open:
                tasks.start_soon(feed, process)
            outcome = await follow(process, delivery, stop, timeout=command.timeout)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(LETTING_GO, shield=True), suppress(SandboxGone, SandboxClosed):
            await process.abort()
            await process.forget()
    return delivery.result(outcome, duration=anyio.current_time() - begun)


def hosts_of(allow: Sequence[str]) -> str | tuple[str, ...] | None:
    """What `--allow` and `--allow-host` mean: hosts, or "open" alone."""
    return "open" if tuple(allow) == ("open",) else tuple(allow) or None


def _program(command: Sequence[str], offers: frozenset[Offer]) -> str | Sequence[str]:
    if len(command) == 1:
        return command[0]
    return command if Offer.ARGV in offers else shlex.join(command)


def writer(stream: BinaryIO, reader_left: anyio.Event) -> OnOutput:
    """A callback that writes output to `stream`; sets the event once the stream's reader has gone."""

    async def write(data: bytes) -> None:
        try:
            stream.write(data)
            stream.flush()
        except BrokenPipeError:
            let_go_of(stream)
            reader_left.set()

    return write


def code_of(result: RunResult) -> int:
    """The exit code of this program for a command that ended so; what a person must know goes to standard error."""
    match result.outcome:
        case Aborted():
            return CODE_OF_A_BROKEN_PIPE
        case Lost(reason):
            print(f"limpet: {reason}", file=sys.stderr)
    for error in result.callback_errors:
        print(f"limpet: the output could not be written: {error}", file=sys.stderr)
    return result.exit_code or (os.EX_IOERR if result.callback_errors else 0)

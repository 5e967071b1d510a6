"""`limpet run`: one command in a fresh box, its output passed on byte by byte while it comes, its exit code handed back."""

import os
import shlex
import sys
from collections.abc import Sequence
from typing import BinaryIO

import anyio

from limpet import wiring
from limpet.cli.terminal import let_go_of
from limpet.core.command import Aborted, Lost
from limpet.core.errors import ConfigInvalid
from limpet.core.ports import Offer
from limpet.workspace.follow import OnOutput
from limpet.workspace.result import RunResult

CODE_OF_A_BROKEN_PIPE = 141  # as shells report SIGPIPE


def run(command: Sequence[str], *, runtime: str, timeout: float | None, unsafe_local: bool) -> int:
    """Run it and return its exit code: 124 for a timeout, 125 where its box was lost under it.

    One word is a script for the box's shell, several are a program and its arguments. Its standard input is empty. Raises
    LimpetError where no box can be had.
    """
    refuse_unmeant("limpet run", runtime, unsafe_local=unsafe_local)
    return anyio.run(_run, command, runtime, timeout)


def refuse_unmeant(command: str, runtime: str, *, unsafe_local: bool) -> None:
    """ConfigInvalid for the runtime that isolates nothing, unless it was asked for in so many words."""
    if runtime == "local" and not unsafe_local:
        raise ConfigInvalid(
            command, "--runtime", "local runs on this host with nothing around it; add --unsafe-local if you mean it"
        )


async def _run(command: Sequence[str], runtime: str, timeout: float | None) -> int:
    reader_left = anyio.Event()
    async with (
        wiring.load_runtime(runtime, where="limpet run", key="--runtime") as opened,
        wiring.open_workspace("run", runtime=opened) as box,
    ):
        result = await box.run(
            _program(command, opened.offers),
            timeout=timeout,
            on_stdout=writer(sys.stdout.buffer, reader_left),
            on_stderr=writer(sys.stderr.buffer, reader_left),
            abort=reader_left,
            keep_output=False,
        )
    return code_of(result)


def _program(command: Sequence[str], offers: frozenset[Offer]) -> str | Sequence[str]:
    if len(command) == 1:
        return command[0]
    return command if Offer.ARGV in offers else shlex.join(command)


def writer(stream: BinaryIO, reader_left: anyio.Event) -> OnOutput:
    """Passes output on to `stream`; sets the event when nobody reads there any more."""

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

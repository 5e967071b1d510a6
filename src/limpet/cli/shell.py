"""`limpet shell`: an interactive bash in a fresh box. Without a terminal it reads its commands from standard input."""

import os
import posixpath
import signal
import sys
from collections.abc import Mapping

import anyio

from limpet import wiring
from limpet.cli.run import code_of, refuse_unmeant, run_here
from limpet.cli.session import KEYBOARD, Ending, LeftRunning, Session, Stopped, terminal_size
from limpet.cli.terminal import Screen
from limpet.core import exit_codes
from limpet.core.command import Aborted, Argv, Command, Exited, Lost, TimedOut, exit_code
from limpet.core.ids import new_id
from limpet.core.ports import Offer
from limpet.workspace.shell import EXEC, Shell

CODE_OF_A_SIGNAL = 128  # and its number
PASSED_ON = ("TERM", "COLORTERM", "NO_COLOR")


def shell(*, runtime: str, unsafe_local: bool) -> int:
    """A shell in a fresh box, which ends with it. Returns the shell's exit code, 125 where its box was lost under it.

    Raises LimpetError where no box can be had.
    """
    refuse_unmeant("limpet shell", runtime, unsafe_local=unsafe_local)
    return anyio.run(_shell, runtime)


async def _shell(runtime: str) -> int:
    async with (
        wiring.load_runtime(runtime, where="limpet shell", key="--runtime") as opened,
        wiring.open_workspace("shell", runtime=opened, needs=needs()) as box,
    ):
        if not has_terminal():
            return await piped(box)
        Screen().hint("A fresh box: it and its files go when this shell ends.")
        session = Session(process=await box.start(interactive("limpet", box.ref.shell), new_id(EXEC)))
        return conclude(session, await session.attend())


def has_terminal() -> bool:
    """Whether a person types."""
    return sys.stdin is not None and os.isatty(KEYBOARD)


def needs() -> frozenset[Offer]:
    """What a runtime must offer for a shell on what standard input is."""
    return frozenset({Offer.ARGV, Offer.STREAMING, Offer.STDIN, *((Offer.PTY,) if has_terminal() else ())})


def interactive(label: str, shell: str) -> Command:
    """An interactive shell, the box's own, on a terminal like this one; its prompt begins with the label."""
    return Command(
        what=Argv((posixpath.basename(shell), "-i")),
        env=surroundings(label, os.environ),
        keeps_stdin_open=True,
        terminal=terminal_size(),
    )


def surroundings(label: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an interactive shell: what this terminal can show, and a prompt that says where one is."""
    passed = {name: environ[name] for name in PASSED_ON if environ.get(name)}
    terminal = passed.setdefault("TERM", "xterm")
    if "NO_COLOR" in passed or terminal == "dumb":
        return {**passed, "PS1": rf"{label}:\w\$ "}
    return {**passed, "PS1": rf"\[\e[1;32m\]{label}\[\e[0m\]:\[\e[1;34m\]\w\[\e[0m\]\$ "}


def conclude(session: Session, ending: Ending) -> int:
    """The exit code of this program; says why where the shell did not end by itself."""
    if session.is_mid_line and not isinstance(ending, Exited) and sys.stderr.isatty():
        print(file=sys.stderr)
    match ending:
        case LeftRunning():
            return 0
        case Stopped(number):
            return CODE_OF_A_SIGNAL + number
        case Lost(reason):
            print(f"limpet: {reason}", file=sys.stderr)
        case Aborted() | TimedOut():
            print("limpet: The shell was killed.", file=sys.stderr)
            return exit_codes.INTERRUPTED
        case Exited():
            pass
    return exit_code(ending)


async def piped(box: Shell) -> int:
    """The box's shell with the commands that standard input has, its output on both streams; returns its exit code. It ends with this
    program, unless that is killed."""
    stop, stopped = anyio.Event(), list[int]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_on_signals, stop, stopped)
        result = await run_here(
            box, Command(what=Argv((posixpath.basename(box.ref.shell),)), keeps_stdin_open=True), stop
        )
        tasks.cancel_scope.cancel()
    return CODE_OF_A_SIGNAL + stopped[0] if stopped else code_of(result)


async def _stop_on_signals(stop: anyio.Event, stopped: list[int]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            stopped.append(number)
            stop.set()

"""The program `limpet`, loaded once and forked at each start: to load it takes ten times as long as all that it does then to be ready.

What is started so is a process of its own with the environment, working directory and standard streams that it was given; only
`/proc/PID/cmdline` and `environ` show those of the server that forked it. That a fresh interpreter starts as well is proved by
tests/cli, where the program is started as a person does it.
"""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from limpet.cli import main
from tests.support.kill_points import KillPoint
from tests.support.local_names import LocalNames

_CONTEXT = multiprocessing.get_context("forkserver")
# What `limpet serve` and the commands beside it have loaded when they begin to work.
_CONTEXT.set_forkserver_preload(
    [
        "anyio._backends._asyncio",
        "aiosqlite",
        "limpet.cli.ask",
        "limpet.cli.check",
        "limpet.cli.containers",
        "limpet.cli.join",
        "limpet.cli.keys",
        "limpet.cli.run",
        "limpet.cli.serve",
        "limpet.runtimes.bubblewrap",
        "limpet.runtimes.local.runtime",
        "limpet.runtimes.memory",
        "limpet.store.schema",
        "limpet.store.sealing",
        "limpet.upstreams.relay",
        "limpet.upstreams.script",
        "limpet.wiring.boxes",
        "limpet.wiring.keys",
        "limpet.wiring.gateway",
        "limpet.wiring.storage",
        "sqlalchemy.dialects.sqlite.aiosqlite",
        "uvicorn.lifespan.off",
        "uvicorn.protocols.http.httptools_impl",
    ]
)
_NOTHING = Path(os.devnull)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a program finds. `output` and `errors` are files that are made anew; they may be the same, and terminals. `leads`: it
    leads a session of its own; `user` is who it becomes, where that is not this process's user."""

    env: Mapping[str, str]
    directory: Path
    input: Path = _NOTHING
    output: Path = _NOTHING
    errors: Path = _NOTHING
    leads: bool = False
    kill_point: KillPoint | None = None
    names: LocalNames | None = None
    user: int | None = None


class Started:
    """A program that was started, with what tests ask of a `subprocess.Popen`. Ends with this process, if not before."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid: int = process.pid

    def poll(self) -> int | None:
        """Its exit code, once it has ended; of a signal the negative number."""
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def wait(self, timeout: float) -> int:
        """Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("limpet", timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)


def started(arguments: Sequence[str], surroundings: Surroundings) -> Started:
    """`limpet` with these arguments."""
    process = _CONTEXT.Process(target=_run, args=(list(arguments), surroundings), daemon=True)
    process.start()
    return Started(process)


def ran(
    arguments: Sequence[str], *, env: Mapping[str, str], directory: Path | None = None, timeout: float = 30
) -> "subprocess.CompletedProcess[str]":
    """As `subprocess.run` of the program with nothing to read, its output as text; killed and TimeoutExpired after the timeout."""
    with tempfile.TemporaryDirectory(prefix="limpet-ran-") as own:
        output, errors = Path(own) / "output", Path(own) / "errors"
        place = directory or Path.cwd()
        process = started(arguments, Surroundings(env=env, directory=place, output=output, errors=errors))
        try:
            code = process.wait(timeout)
        finally:
            process.send_signal(signal.SIGKILL)
        return subprocess.CompletedProcess(["limpet", *arguments], code, output.read_text(), errors.read_text())


def _run(arguments: list[str], surroundings: Surroundings) -> None:
    os.environ.clear()
    os.environ.update(surroundings.env)
    os.chdir(surroundings.directory)
    tempfile.tempdir = None
    if surroundings.leads:
        os.setsid()
    _redirect(surroundings)
    if surroundings.user is not None:
        _become(surroundings.user)
    if surroundings.kill_point is not None:
        surroundings.kill_point.install()
    if surroundings.names is not None:
        surroundings.names.install()
    sys.argv = [str(Path(sys.executable).parent / "limpet"), *arguments]
    main()


def _become(user: int) -> None:
    """Make this process that user's, for good. Linux hides the /proc of such a process from itself until it is dumpable again."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    set_dumpable = 4  # prctl(2), PR_SET_DUMPABLE
    if ctypes.CDLL(None, use_errno=True).prctl(set_dumpable, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot be made dumpable")


def _redirect(surroundings: Surroundings) -> None:
    made = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOCTTY
    reader = os.open(surroundings.input, os.O_RDONLY | os.O_NOCTTY)
    writer = os.open(surroundings.output, made, 0o644)
    shared = surroundings.errors == surroundings.output
    second = writer if shared else os.open(surroundings.errors, made, 0o644)
    for number, opened in enumerate((reader, writer, second)):
        os.dup2(opened, number)
    for opened in {reader, writer, second}:
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)

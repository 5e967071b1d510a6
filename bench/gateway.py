"""A gateway as its users have it: the program in a process of its own, on a free port, with a home that goes with it."""

import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

PATIENCE = 30.0
LIMPET = Path(sys.executable).parent / "limpet"


@contextmanager
def home() -> Iterator[Path]:
    """A directory for a gateway's or a runtime's own things, with a short path that boxes' users may pass through."""
    with tempfile.TemporaryDirectory(prefix="lb-") as name:
        directory = Path(name)
        directory.chmod(0o711)
        yield directory


@dataclass(frozen=True, slots=True)
class RunningProgram:
    """A program of this machine: the first line that it printed, or what of it is of use, and its process."""

    said: str
    pid: int

    def cpu_seconds(self) -> float:
        """What all its threads have used until now, in steps of 10 ms."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def gateway(runtime: str, settings: str = "") -> AsyncIterator[str]:
    """Its address. `settings` is TOML beside the runtime's section."""
    async with gateway_process(runtime, settings) as process:
        yield process.said


@asynccontextmanager
async def gateway_process(runtime: str, settings: str = "") -> AsyncIterator[RunningProgram]:
    """The same with its process."""
    with home() as directory:
        file = directory / "limpet.toml"
        file.write_text(
            f'{settings}\n[features.shell]\ntype = "{runtime}"\nunsafe_local = {str(runtime == "local").lower()}\n'
        )
        environment = {"PATH": os.environ["PATH"], "LIMPET_HOME": str(directory / "home")}
        command = [str(LIMPET), "serve", "--config", str(file), "--port", "0", "--stop-boxes"]
        async with running_program(command, environment) as process:
            yield RunningProgram(process.said.removeprefix("limpet serves "), process.pid)


@asynccontextmanager
async def program(command: list[str], environment: dict[str, str] | None = None) -> AsyncIterator[str]:
    """A program that runs for the time of the block; yields the first line that it prints."""
    async with running_program(command, environment) as process:
        yield process.said


@asynccontextmanager
async def running_program(
    command: list[str], environment: dict[str, str] | None = None
) -> AsyncIterator[RunningProgram]:
    """The same with its process."""
    process = await anyio.open_process(command, stdin=DEVNULL, stderr=None, env=environment)
    try:
        with anyio.fail_after(PATIENCE):
            said = await _first_line(process)
        yield RunningProgram(said, process.pid)
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.aclose()


async def _first_line(process: Process) -> str:
    if process.stdout is None:
        raise RuntimeError("There is no pipe.")
    said = ""
    async for text in TextReceiveStream(process.stdout):
        said += text
        if "\n" in said:
            return said.partition("\n")[0]
    raise RuntimeError(f"The program ended with {await process.wait()} and said {said!r}.")

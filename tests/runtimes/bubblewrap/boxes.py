"""Short ways to run something in a box, to play its creator in another process, and to see what is left of it."""

import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc

from limpet.core.command import START, Chunk, Command, Outcome, Position, Script
from limpet.core.ports import Process, Runtime, Sandbox, SandboxRef, SandboxSpec
from limpet.runtimes.bubblewrap.limits.groups import find_groups
from limpet.runtimes.bubblewrap.settings import BoxPaths

WITHIN = 5.0
_ids = itertools.count()

# Creates a box as the lifetime says, starts a command in it, tells its ref, and waits for its own end.
_CREATOR = """
import anyio, json, sys
from dataclasses import asdict
from pathlib import Path
from limpet.core.command import Command, Script
from limpet.core.ports import SandboxSpec, TimeToLive, WhileOwned
from limpet.runtimes.bubblewrap import BubblewrapRuntime

async def main(home, name, ttl, script):
    async with BubblewrapRuntime(home=Path(home)) as runtime:
        lifetime = TimeToLive(float(ttl)) if ttl else WhileOwned()
        box = await runtime.create(SandboxSpec(name=name, lifetime=lifetime))
        await box.start(Command(what=Script(script)), "the-command")
        print(json.dumps(asdict(box.ref)), flush=True)
        await anyio.sleep_forever()

anyio.run(main, *sys.argv[1:])
"""


@asynccontextmanager
async def box_of(runtime: Runtime, **settings: object) -> AsyncIterator[Sandbox]:
    sandbox = await runtime.create(SandboxSpec(name=f"t{next(_ids)}-{os.getpid()}", **settings))  # type: ignore[arg-type]  # of the spec
    try:
        yield sandbox
    finally:
        with anyio.CancelScope(shield=True):
            await sandbox.destroy()


async def begin(sandbox: Sandbox, script: str, **settings: object) -> Process:
    return await sandbox.start(Command(what=Script(script), **settings), f"e{next(_ids)}")  # type: ignore[arg-type]  # of the command


async def collect(process: Process, since: Position = START) -> list[Chunk]:
    with anyio.fail_after(20):
        return [chunk async for chunk in process.output(since)]


def text(chunks: list[Chunk], stream: str = "stdout") -> str:
    return b"".join(chunk.data for chunk in chunks if chunk.stream == stream).decode()


async def run(sandbox: Sandbox, script: str, **settings: object) -> tuple[Outcome, str, str]:
    process = await begin(sandbox, script, **settings)
    chunks = await collect(process)
    with anyio.fail_after(20):
        return await process.wait(), text(chunks), text(chunks, "stderr")


async def eventually(claim: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(WITHIN):
        while not await claim():
            await anyio.sleep(0.02)


async def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # the latter when it ends between opening and reading
        return True


def remains(home: Path, name: str) -> list[str]:
    """What there still is of a box: socket, record, directories, cgroups, processes that name it."""
    place = BoxPaths.of(home, name)
    groups = find_groups()
    paths = [place.socket, place.record, place.directory, *(groups.directories(place.group) if groups else [])]
    return [str(path) for path in paths if path.exists()] + processes_naming(str(place.directory))


def processes_naming(word: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if word in words:
                found.append(f"{entry.name}: {words}")
    return found


async def printed_ref(process: anyio.abc.Process) -> SandboxRef:
    """What the first line of its output says."""
    assert process.stdout is not None
    line = b""
    with anyio.fail_after(20):
        while not line.endswith(b"\n"):
            line += await process.stdout.receive()
    return SandboxRef(**json.loads(line))


@asynccontextmanager
async def a_creator(home: Path, name: str, *, ttl: float | None, script: str) -> AsyncIterator[tuple[SandboxRef, int]]:
    """Another process that has created a box with a command in it. Gives the box's ref and that process's pid."""
    words = [sys.executable, "-c", _CREATOR, str(home), name, str(ttl or ""), script]
    async with await anyio.open_process(words, stdin=None, stderr=None) as process:
        try:
            yield await printed_ref(process), process.pid
        finally:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

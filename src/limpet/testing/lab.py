"""What a case works with: a fresh sandbox, short ways to run something in it, and reliable checks of the result."""

import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from limpet.core.command import START, Argv, Chunk, Command, Outcome, Position, Script, exit_code
from limpet.core.ports import Process, Runtime, Sandbox, SandboxSpec

# How long a promise may take to come true that is not about time.
WITHIN = 5.0
CLEANUP = 10.0


class PromiseBroken(AssertionError):
    """A case found something else than the port promises."""


def expect(claim: bool, otherwise: str) -> None:
    """Raise PromiseBroken with the sentence `otherwise` unless the claim holds."""
    if not claim:
        raise PromiseBroken(otherwise)


def same(found: object, wanted: object, what: str) -> None:
    """Raise PromiseBroken unless both are equal."""
    if found != wanted:
        raise PromiseBroken(f"{what}: wanted {_short(wanted)}, found {_short(found)}")


@asynccontextmanager
async def raises(kind: type[Exception], *, naming: str = "") -> AsyncIterator[None]:
    """The body must raise exactly this kind of error, with `naming` in its sentence."""
    try:
        yield
    except kind as error:
        expect(naming in str(error), f"the error should name {naming!r}: {error}")
        return
    raise PromiseBroken(f"{kind.__name__} should have been raised")


async def eventually(claim: Callable[[], Awaitable[bool]], what: str, *, within: float = WITHIN) -> None:
    """Ask until the claim holds; raise PromiseBroken after `within` seconds."""
    with anyio.move_on_after(within):
        while not await claim():  # noqa: ASYNC110 (what is asked lies outside this process)
            await anyio.sleep(0.02)
        return
    raise PromiseBroken(f"after {within:g} s still not so: {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that has ended, and all that it printed."""

    outcome: Outcome
    stdout: bytes
    stderr: bytes

    @property
    def code(self) -> int:
        return exit_code(self.outcome)


class Lab:
    """One case's room. `box` is its sandbox; `directory` an empty host directory."""

    def __init__(self, runtime: Runtime, directory: Path) -> None:
        self.runtime = runtime
        self.directory = directory
        self._boxes: list[Sandbox] = []
        self._numbers = itertools.count(1)

    @property
    def box(self) -> Sandbox:
        return self._boxes[0]

    async def another(self, **spec: Any) -> Sandbox:
        """One more sandbox of the same runtime; ended with the case."""
        box = await self.runtime.create(SandboxSpec(name=f"case-{secrets.token_hex(6)}", **spec))
        self._boxes.append(box)
        return box

    def adopt(self, box: Sandbox) -> None:
        """End this one too when the case is over."""
        self._boxes.append(box)

    async def start(
        self, what: str | Argv, *, box: Sandbox | None = None, exec_id: str = "", **options: Any
    ) -> Process:
        """Start a script or an argv; `options` are those of Command."""
        command = Command(what=Script(what) if isinstance(what, str) else what, **options)
        return await (box or self.box).start(command, exec_id or f"case.{next(self._numbers)}")

    async def run(self, what: str | Argv, *, box: Sandbox | None = None, **options: Any) -> Ran:
        """Run it to its end, reading everything."""
        return await finished(await self.start(what, box=box, **options))

    async def is_gone(self, pid: int, *, box: Sandbox | None = None) -> bool:
        """Whether that process of the sandbox has died. A zombie counts as dead: `kill -0` would still find it."""
        script = f"sed 's/.*) //' /proc/{pid}/stat 2>/dev/null | cut -c 1"
        return (await self.run(script, box=box)).stdout.strip() in (b"", b"Z", b"X")

    async def until_gone(self, pid: int, *, box: Sandbox | None = None) -> None:
        await eventually(lambda: self.is_gone(pid, box=box), f"process {pid} is gone", within=2)

    async def until_file(self, path: str, *, box: Sandbox | None = None) -> bytes:
        """The content of a file once it is there and has some."""

        async def is_there() -> bool:
            found = await (box or self.box).files.list()
            return any(one.path == f"/mnt/data/{path}" and one.size > 0 for one in found)

        await eventually(is_there, f"the file {path} is written")
        return await (box or self.box).files.read(path)

    async def end_all(self) -> None:
        for box in reversed(self._boxes):
            await box.destroy()


@asynccontextmanager
async def open_lab(runtime: Runtime, directory: Path) -> AsyncIterator[Lab]:
    """A lab with its first sandbox; all its sandboxes are ended at the end."""
    lab = Lab(runtime, directory)
    try:
        await lab.another()
        yield lab
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP):
            await lab.end_all()


async def finished(process: Process) -> Ran:
    """Read a process to its end."""
    chunks = await read(process)
    return Ran(outcome=await process.wait(), stdout=of(chunks, "stdout"), stderr=of(chunks, "stderr"))


async def read(process: Process, since: Position = START) -> list[Chunk]:
    return [chunk async for chunk in process.output(since)]


def of(chunks: list[Chunk], stream: str) -> bytes:
    """One stream's bytes."""
    return b"".join(chunk.data for chunk in chunks if chunk.stream == stream)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:160]}… ({len(text)} characters)"

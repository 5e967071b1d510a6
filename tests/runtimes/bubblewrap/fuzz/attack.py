"""One runtime with a box whose agent lies and a neighbour whose agent does not. What the lies may do is bounded, and the neighbour never
notices."""

import logging
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from limpet.core.command import Command, Exited, Position, Script, Terminal
from limpet.core.errors import LimpetError
from limpet.core.ports import Sandbox, SandboxRef, SandboxSpec, TimeToLive
from limpet.runtimes.bubblewrap import BubblewrapRuntime, BubblewrapSettings
from limpet.runtimes.bubblewrap.settings import BoxPaths
from tests.runtimes.bubblewrap.fuzz.proxy import LyingProxy

_PATIENCE = 0.3  # seconds for one conversation: a lie may be that nothing is said
_BOUND = 10.0  # for everything that waits for no agent
_LARGEST = 1 << 21  # bytes of output that a conversation takes


class _Failures(logging.Handler):
    """Faults in tasks of a box, which the supervisor logs: an error of ours that a lie has reached."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, TimeoutError):  # an agent that does not answer, which is no fault of ours
            self.found.append(f"{record.getMessage()} {error!r}")


@dataclass(slots=True)
class Attack:
    """`one` holds one conversation; `findings` are what should not have been."""

    runtime: BubblewrapRuntime
    proxy: LyingProxy
    victim: SandboxRef
    neighbour: Sandbox
    failures: _Failures
    findings: list[str] = field(default_factory=list)
    conversations: int = 0

    async def one(self, seed: int) -> None:
        """Enter the box through the lying agent, do what is usually done, and leave."""
        self.proxy.seed = seed
        self.conversations += 1
        try:
            with anyio.fail_after(_BOUND):
                await self._converse()
        except TimeoutError:
            self.findings.append(f"seed {seed}: letting go of the box did not end within {_BOUND:.0f} s")
        except Exception as error:  # noqa: BLE001 - whatever it is: that is what is looked for
            self.findings.append(f"seed {seed}: {error!r}")
        self.findings += [f"seed {seed}: {found}" for found in self.failures.found]
        self.failures.found.clear()
        if seed % 10 == 0:
            await self._ask_neighbour(seed)

    async def _converse(self) -> None:
        box = None
        try:
            with anyio.move_on_after(_PATIENCE):
                box = await self.runtime.attach(self.victim)
        except LimpetError:
            return
        if box is None:
            return  # its agent did not answer
        try:
            async with anyio.create_task_group() as tasks:
                for deed in _DEEDS:
                    tasks.start_soon(_do, deed, box)
        finally:
            with anyio.CancelScope(shield=True):
                await box.release()

    async def _ask_neighbour(self, seed: int) -> None:
        try:
            with anyio.fail_after(_BOUND):
                process = await self.neighbour.start(Command(what=Script("echo here")), f"asked-{seed}")
                said = b"".join([chunk.data async for chunk in process.output()])
                ended = await process.wait()
                await process.forget()
        except (LimpetError, TimeoutError) as error:
            self.findings.append(f"seed {seed}: the neighbour noticed: {error!r}")
            return
        if (said, ended) != (b"here\n", Exited(0)):
            self.findings.append(f"seed {seed}: the neighbour noticed: {said!r}, {ended}")


async def _do(deed: Callable[[Sandbox], Awaitable[None]], box: Sandbox) -> None:
    with anyio.move_on_after(_PATIENCE):
        try:
            await deed(box)
        except LimpetError:
            return


async def _prints(box: Sandbox) -> None:
    process = await box.start(Command(what=Script("echo a; echo b >&2; exit 3"), timeout=5.0), "prints")
    await _read(process.output())
    await process.wait()
    assert all(len(note) <= 500 for note in process.notes())
    await process.forget()


async def _pours(box: Sandbox) -> None:
    process = await box.start(Command(what=Script("head -c 700000 /dev/zero; echo more >&2")), "pours")
    await _read(process.output())
    begin, end = await process.extent()
    assert begin.stdout <= end.stdout < 1 << 63
    await _read(process.output(Position(stdout=min(end.stdout, 1000), stderr=0)))
    await process.forget()


async def _listens(box: Sandbox) -> None:
    process = await box.start(Command(what=Script("cat"), keeps_stdin_open=True, timeout=0.3), "listens")
    await process.write(b"x" * 70_000)
    await process.close_stdin()
    await _read(process.output())
    await process.wait()
    await process.forget()


async def _is_stopped(box: Sandbox) -> None:
    size = Terminal(columns=80, rows=25)
    process = await box.start(Command(what=Script("sleep 3"), terminal=size), "is-stopped")
    await process.resize(100, 30)
    await process.signal(10)
    found = await box.find("is-stopped")
    await (found or process).abort()
    await process.forget()


async def _touches(box: Sandbox) -> None:
    for number in range(5):
        await box.touch()
        await box.find(f"none-{number}")


_DEEDS: tuple[Callable[[Sandbox], Awaitable[None]], ...] = (_prints, _pours, _listens, _is_stopped, _touches)


async def _read(output: AsyncIterator[object]) -> None:
    taken = 0
    async for chunk in output:
        taken += len(getattr(chunk, "data", b""))
        if taken > _LARGEST:
            return


@asynccontextmanager
async def attacking(home: Path) -> AsyncIterator[Attack]:
    """Two boxes, of which one is entered through a lying agent. `home` is a directory that boxes' users can pass."""
    failures = _Failures()
    log = logging.getLogger("limpet.runtimes")
    log.addHandler(failures)
    homes = [home / name for name in ("true", "lying")]
    for each in homes:
        each.mkdir(mode=0o711)
    try:
        async with (
            BubblewrapRuntime(BubblewrapSettings(home=homes[0])) as true,
            BubblewrapRuntime(BubblewrapSettings(home=homes[1], limit_grace=0.1, disk_every=0.05)) as lying,
            anyio.create_task_group() as tasks,
        ):
            victim = await true.create(SandboxSpec(name="victim", lifetime=TimeToLive(600.0)))
            neighbour = await lying.create(SandboxSpec(name="neighbour"))
            listens, agent = (BoxPaths.of(each, "victim").socket for each in (homes[1], homes[0]))
            proxy = LyingProxy(listens, agent)
            tasks.start_soon(proxy.serve, tasks)
            while not listens.exists():
                await anyio.sleep(0.01)
            yield Attack(lying, proxy, victim.ref, neighbour, failures)
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await victim.destroy()
    finally:
        log.removeHandler(failures)


def memory_used() -> int:
    """MiB, at most, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

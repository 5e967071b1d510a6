"""Runtimes that are wrong on purpose, each by one real fault over the runtime `local`, to prove that the suite bites.

`Faulty` passes everything through; a bad runtime overrides the one thing that it gets wrong.
"""

import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from limpet.core.command import START, Aborted, Chunk, Command, Outcome, Position, Script, TimedOut
from limpet.core.errors import SandboxGone
from limpet.core.ports import Files, Held, Offer, Probe, Process, Sandbox, SandboxRef, SandboxSpec
from limpet.runtimes.local.runtime import LocalRuntime

PIPE_BUFFER = 64 << 10
# With a variable of such a name a command gets a shell of its own, whose variables the kernel shows; not one that waited for it.
MARK = "TERM_OF_A_TEST"


class FaultyProcess:
    """A process that is as good as the one behind it."""

    def __init__(self, real: Process, box: "FaultySandbox") -> None:
        self.real = real
        self.box = box

    @property
    def exec_id(self) -> str:
        return self.real.exec_id

    def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        return self.real.output(since)

    async def extent(self) -> tuple[Position, Position]:
        return await self.real.extent()

    async def wait(self) -> Outcome:
        return await self.real.wait()

    def notes(self) -> Sequence[str]:
        return self.real.notes()

    async def write(self, data: bytes) -> None:
        await self.real.write(data)

    async def close_stdin(self) -> None:
        await self.real.close_stdin()

    async def resize(self, columns: int, rows: int) -> None:
        await self.real.resize(columns, rows)

    async def signal(self, number: int) -> None:
        await self.real.signal(number)

    async def abort(self) -> None:
        await self.real.abort()

    async def forget(self) -> None:
        await self.real.forget()


class FaultySandbox:
    """A sandbox that is as good as the one behind it; `process` makes its processes."""

    process: type[FaultyProcess] = FaultyProcess

    def __init__(self, real: Sandbox, tasks: TaskGroup) -> None:
        self.real = real
        self.tasks = tasks
        self.known: dict[str, FaultyProcess] = {}

    @property
    def ref(self) -> SandboxRef:
        return self.real.ref

    @property
    def boot_id(self) -> str:
        return self.real.boot_id

    @property
    def files(self) -> Files:
        return self.real.files

    async def start(self, command: Command, exec_id: str) -> Process:
        real = await self.real.start(command, exec_id)
        if exec_id not in self.known:
            self.known[exec_id] = self.process(real, self)
        return self.known[exec_id]

    async def find(self, exec_id: str) -> Process | None:
        return self.known.get(exec_id) if await self.real.find(exec_id) else None

    async def listening_ports(self) -> Sequence[int]:
        return await self.real.listening_ports()

    async def connect(self, port: int) -> socket.socket:
        return await self.real.connect(port)

    async def touch(self) -> None:
        await self.real.touch()

    async def release(self) -> None:
        await self.real.release()

    async def destroy(self) -> None:
        await self.real.destroy()


class Faulty:
    """A runtime that is as good as `local`; `sandbox` makes its sandboxes."""

    sandbox: type[FaultySandbox] = FaultySandbox

    def __init__(self) -> None:
        self.real = LocalRuntime()
        self.tasks = anyio.create_task_group()

    @property
    def name(self) -> str:
        return self.real.name

    @property
    def offers(self) -> frozenset[Offer]:
        return self.real.offers

    @property
    def held(self) -> Held:
        return self.real.held

    async def __aenter__(self) -> Self:
        await self.tasks.__aenter__()
        await self.real.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.real.__aexit__(*exc)
        self.tasks.cancel_scope.cancel()
        await self.tasks.__aexit__(None, None, None)

    async def probe(self) -> Probe:
        return await self.real.probe()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        return self.sandbox(await self.real.create(spec), self.tasks)

    async def attach(self, ref: SandboxRef) -> Sandbox:
        return await self.real.attach(ref)

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        return await self.real.sweep(living, dry_run=dry_run)


class LeakyProcess(FaultyProcess):
    """Kills its first process only."""

    stopped: Outcome | None = None

    async def wait(self) -> Outcome:
        outcome = await self.real.wait()
        return self.stopped or outcome

    async def abort(self) -> None:
        await self.stop(Aborted())
        await self.real.wait()

    async def stop(self, outcome: Outcome) -> None:
        while not await has_ended(self.real):
            for child in children_of(keeper_of(self.box)):
                if is_marked(child, self.exec_id):
                    self.stopped = self.stopped or outcome
                    os.kill(child, signal.SIGKILL)
                    return


class LeakySandbox(FaultySandbox):
    """Keeps the time itself, and kills as LeakyProcess does."""

    process = LeakyProcess

    async def start(self, command: Command, exec_id: str) -> Process:
        keeps = command.timeout is not None and command.timeout > 0  # what is no time is refused as anywhere
        env = {**command.env, MARK: exec_id}
        process = await super().start(replace(command, timeout=None if keeps else command.timeout, env=env), exec_id)
        assert isinstance(process, LeakyProcess)
        if keeps and command.timeout is not None:
            self.tasks.start_soon(self.time_out, process, command.timeout)
        return process

    async def time_out(self, process: LeakyProcess, seconds: float) -> None:
        await anyio.sleep(seconds)
        await process.stop(TimedOut())


class Leaky(Faulty):
    """On a timeout or an abort it kills the child, not its descendants."""

    sandbox = LeakySandbox


class MergingSandbox(FaultySandbox):
    async def start(self, command: Command, exec_id: str) -> Process:
        if isinstance(command.what, Script):
            command = replace(command, what=Script(f"exec 2>&1\n{command.what.text}"))
        return await super().start(command, exec_id)


class Merging(Faulty):
    """It folds stderr into stdout."""

    sandbox = MergingSandbox


class DeafProcess(FaultyProcess):
    async def abort(self) -> None:
        """Wait for the end instead of making it."""
        await self.real.wait()


class DeafSandbox(FaultySandbox):
    process = DeafProcess


class Deaf(Faulty):
    """It does not listen to an abort."""

    sandbox = DeafSandbox


class ForgetfulProcess(FaultyProcess):
    async def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        async for chunk in self.real.output(since):
            if chunk.end <= PIPE_BUFFER:
                yield chunk
            elif chunk.offset < PIPE_BUFFER:
                yield replace(chunk, data=chunk.data[: PIPE_BUFFER - chunk.offset])


class ForgetfulSandbox(FaultySandbox):
    process = ForgetfulProcess


class Forgetful(Faulty):
    """It loses what a command prints past the size of a pipe's buffer."""

    sandbox = ForgetfulSandbox


class GreedyProcess(FaultyProcess):
    async def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        """Read ahead without end, whether or not the next chunk is asked for."""
        send, receive = anyio.create_memory_object_stream[Chunk](float("inf"))

        async def read_ahead() -> None:
            with send, suppress(SandboxGone):
                async for chunk in self.real.output(since):
                    send.send_nowait(chunk)

        self.box.tasks.start_soon(read_ahead)
        async for chunk in receive:
            yield chunk


class GreedySandbox(FaultySandbox):
    process = GreedyProcess


class Greedy(Faulty):
    """It does not wait for its reader."""

    sandbox = GreedySandbox


class ChattyProcess(FaultyProcess):
    async def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        end = since
        async for chunk in self.real.output(since):
            end = end.after(chunk)
            yield chunk
        outcome = await self.real.wait()
        if isinstance(outcome, TimedOut | Aborted):
            yield Chunk(stream="stderr", offset=end.stderr, data=b"the command was killed\n")


class ChattySandbox(FaultySandbox):
    process = ChattyProcess


class Chatty(Faulty):
    """It shows its own remark as if the command had printed it."""

    sandbox = ChattySandbox


def keeper_of(box: FaultySandbox) -> int:
    return int(box.ref.facts["pid"])


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def is_marked(pid: int, exec_id: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={exec_id}".encode() in file.read().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False


async def has_ended(process: Process) -> bool:
    with anyio.move_on_after(0.02):
        await process.wait()
        return True
    return False

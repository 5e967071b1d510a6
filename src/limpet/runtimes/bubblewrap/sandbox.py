"""A box and its commands, as the ports want them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NoReturn

import anyio

from limpet.core.command import START, Chunk, Command, Outcome, Position, Script
from limpet.core.errors import (
    BadCommand,
    SandboxClosed,
    SandboxFull,
    SandboxGone,
    WorkingDirectoryMissing,
)
from limpet.core.ports import Files, Offer, SandboxRef
from limpet.runtimes.bubblewrap.awaited import Reading, Reply
from limpet.runtimes.bubblewrap.client import Client, extent_of, outcome_of
from limpet.runtimes.bubblewrap.inside import wire
from limpet.runtimes.bubblewrap.settings import NAME
from limpet.runtimes.refusals import refuse_impossible

_STDIN_PIECE = 1 << 18


class BubblewrapProcess:
    """core.ports.Process."""

    def __init__(self, exec_id: str, client: Client, number: int, ahead: Reading | None = None) -> None:
        self._exec_id = exec_id
        self._client = client
        self._number = number  # the agent's
        self._ahead = ahead  # the first of its output, which comes unasked; for the first who reads from the start
        self._outcome: Outcome | None = None
        self._ended: anyio.Event | None = None  # where somebody waits

    @property
    def exec_id(self) -> str:
        return self._exec_id

    def end(self, outcome: Outcome) -> None:
        """Called by the sandbox, once."""
        self._outcome = outcome
        if self._ended is not None:
            self._ended.set()

    async def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        if since == START and self._ahead is not None:
            reading, self._ahead = self._ahead, None
        else:
            reading = await self._client.open_reading(self._number, since)
        used = 0
        try:
            while (chunk := await self._client.next_chunk(reading)) is not None:
                if reading.ahead and not reading.has_all:
                    self._client.grant(reading, wire.WINDOW - wire.AHEAD)
                yield chunk
                used += len(chunk.data)
                if used >= wire.WINDOW // 4:
                    self._client.grant(reading, used)
                    used = 0
        finally:
            self._client.close_reading(reading)

    async def extent(self) -> tuple[Position, Position]:
        reply = await self._client.request(wire.FIND, {"exec_id": self._exec_id})
        return extent_of(reply.values)

    async def wait(self) -> Outcome:
        if self._outcome is None:
            self._ended = self._ended or anyio.Event()
            await self._ended.wait()
            assert self._outcome is not None
        return self._outcome

    def notes(self) -> Sequence[str]:
        return tuple(self._client.notes.get(self._number, ()))

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), _STDIN_PIECE):
            payload = wire.NUMBER.pack(self._number) + data[at : at + _STDIN_PIECE]
            await self._client.request(wire.WRITE, {}, payload=payload)

    async def close_stdin(self) -> None:
        await self._ask(wire.CLOSE_STDIN)

    async def resize(self, columns: int, rows: int) -> None:
        await self._ask(wire.RESIZE, columns=columns, rows=rows)

    async def signal(self, number: int) -> None:
        await self._ask(wire.SIGNAL, number=number)

    async def abort(self) -> None:
        if self._outcome is None and not (await self._ask(wire.ABORT)).refused:
            await self.wait()

    async def forget(self) -> None:
        if self._ahead is not None:
            self._client.close_reading(self._ahead)
        # Without an answer: whoever asks for it later asks behind this.
        self._client.post_soon(wire.FORGET, self._number, b"")
        self._client.notes.pop(self._number, None)

    async def _ask(self, kind: int, **values: int) -> Reply:
        return await self._client.request(kind, {"process": self._number, **values})


class BubblewrapSandbox:
    """core.ports.Sandbox. `ending` ends the box and clears what it had; `leaving` only lets go of it."""

    def __init__(
        self,
        ref: SandboxRef,
        client: Client,
        files: Files,
        offers: frozenset[Offer],
        *,
        ending: Callable[[], Awaitable[None]],
        leaving: Callable[[], Awaitable[None]],
    ) -> None:
        self._ref = ref
        self._client = client
        self._files = files
        self._offers = offers
        self._ending = ending
        self._leaving = leaving
        self._processes: dict[int, BubblewrapProcess] = {}
        self._closed = False

    @property
    def ref(self) -> SandboxRef:
        return self._ref

    @property
    def boot_id(self) -> str:
        return self._ref.boot_id

    @property
    def files(self) -> Files:
        self._require_open()
        return self._files

    async def start(self, command: Command, exec_id: str) -> BubblewrapProcess:
        self._require_open()
        refuse_impossible(command, self._offers, NAME)
        stdin = command.stdin or b""
        if len(stdin) > wire.STDIN_LIMIT:
            raise BadCommand(
                f"The standard input has {len(stdin)} bytes; {wire.STDIN_LIMIT} fit. Write it to a file under /mnt/data."
            )
        ahead = self._client.expect_ahead()
        asked = wire.pack({"exec_id": exec_id, "reader": ahead.number, **_asked(command)})
        payload = wire.NUMBER.pack(len(asked)) + asked + stdin
        met: list[BubblewrapProcess] = []
        try:
            reply = await self._client.request(
                wire.START, {}, payload=payload, heard=self._meeting(exec_id, met, ahead), ahead=ahead
            )
        except BaseException:
            self._client.close_reading(ahead)
            raise
        if reply.refused:
            _raise_refusal(reply, command)
        return met[0]

    async def find(self, exec_id: str) -> BubblewrapProcess | None:
        self._require_open()
        met: list[BubblewrapProcess] = []
        await self._client.request(wire.FIND, {"exec_id": exec_id}, heard=self._meeting(exec_id, met))
        return met[0] if met else None

    def _meeting(
        self, exec_id: str, met: list[BubblewrapProcess], ahead: Reading | None = None
    ) -> Callable[[Reply], None]:
        """Makes the handle in the moment in which the answer comes: the process's output and end may lie right behind it."""

        def meet(reply: Reply) -> None:
            comes = not reply.refused and reply.values.get("ahead") is True
            if ahead is not None and not comes:
                self._client.close_reading(ahead)
            if not reply.refused:
                met.append(self._process(exec_id, reply, ahead if comes else None))

        return meet

    def _process(self, exec_id: str, reply: Reply, ahead: Reading | None) -> BubblewrapProcess:
        number = reply.values.get("process")
        if not isinstance(number, int):
            raise wire.BadFrame("a process without a number")
        if number in self._processes:
            return self._processes[number]
        process = BubblewrapProcess(exec_id, self._client, number, ahead)
        if reply.values.get("outcome") is not None:
            self._client.keep_notes(number, reply.values)
            process.end(outcome_of(reply.values))
            return process
        self._processes[number] = process
        self._client.follow(number, self._end_of(number))
        return process

    def _end_of(self, number: int) -> Callable[[Outcome], None]:
        return lambda outcome: self._processes.pop(number).end(outcome)

    async def touch(self) -> None:
        self._require_open()
        await self._client.request(wire.TOUCH, {})

    async def release(self) -> None:
        if not self._closed:
            self._closed = True
            await self._leaving()

    async def destroy(self) -> None:
        if not self._closed:
            self._closed = True
            await self._ending()

    def _require_open(self) -> None:
        if self._closed:
            raise SandboxClosed


def _asked(command: Command) -> dict[str, object]:
    """A command as the agent wants it."""
    size = command.terminal
    return {
        "script": command.what.text if isinstance(command.what, Script) else None,
        "argv": [] if isinstance(command.what, Script) else list(command.what.args),
        "cwd": command.cwd,
        "env": dict(command.env),
        "keeps_stdin_open": command.keeps_stdin_open,
        "read_once": command.read_once,
        "timeout": command.timeout if command.timeout is None else float(command.timeout),
        "terminal": None if size is None else {"columns": size.columns, "rows": size.rows},
    }


def _raise_refusal(reply: Reply, command: Command) -> NoReturn:
    match reply.values.get("error"):
        case "cwd":
            raise WorkingDirectoryMissing(command.cwd or "/mnt/data")
        case "room":
            raise SandboxFull(
                f"The sandbox has no room for one more process ({reply.values.get('reason')})."
                " Wait for commands to end, or abort some."
            )
        case other:
            raise SandboxGone(f"It refused a command without a reason that we know: {other!r}.")
